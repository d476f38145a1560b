package customer

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/actions"
	"orgops/internal/cli"
	"orgops/internal/ledger"
	"orgops/internal/status"
	"orgops/internal/untrusted"
	"orgops/internal/view"
	"orgops/internal/web"
)

// Settings are those of commands that make or serve links. Their tags are of package cli.
type Settings struct {
	LinkKeys []string `placeholder:"FILE,FILE" help:"Files with the keys of links, 64 hexadecimal digits each (openssl rand -hex 32), that other users cannot read. The first one signs; links of all are valid. Reloaded when they change."`
	LinkURL  string   `name:"link-url" placeholder:"URL" help:"Address of the customers' page, such as https://verify.example.com."`
}

// The least and the most time that a link is valid for, and the usual one.
const (
	leastLife = time.Minute
	mostLife  = 30 * 24 * time.Hour
	UsualLife = 14 * 24 * time.Hour
)

// ParseLife reads how long a link is valid. "" is [UsualLife].
func ParseLife(text string) (time.Duration, error) {
	if text == "" {
		return UsualLife, nil
	}
	life, err := cli.ParseDuration(text)
	switch {
	case err != nil:
		return 0, err
	case life < leastLife || life > mostLife:
		return 0, fmt.Errorf("want %s to %dd, got %s", leastLife, mostLife/(24*time.Hour), text)
	}
	return life.Truncate(time.Second), nil
}

// Links makes and opens links.
type Links struct {
	base   *url.URL
	keys   *web.Reloaded[[]key]
	redis  redis.Cmdable
	ledger *ledger.Ledger
	views  *view.Store
	now    func() time.Time
}

// Open reads the keys. The error is one of settings.
func (s Settings) Open(rdb redis.Cmdable, l *ledger.Ledger, log *slog.Logger) (*Links, error) {
	base, err := parseBase(s.LinkURL)
	switch {
	case len(s.LinkKeys) == 0:
		return nil, errors.New("link-keys: name a file with a key: (umask 077; openssl rand -hex 32 >link.key)")
	case err != nil:
		return nil, fmt.Errorf("link-url: %w", err)
	}
	links := &Links{base: base, redis: rdb, ledger: l, now: time.Now,
		views: view.NewStore(view.Config{Redis: rdb, Ledger: l, Logger: log})}
	links.keys, err = web.Read(func() ([]key, error) { return readKeys(s.LinkKeys) }, log, time.Now, s.LinkKeys...)
	if err != nil {
		return nil, fmt.Errorf("link-keys: %w", err)
	}
	return links, nil
}

// parseBase reads the address of the page: an origin.
func parseBase(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	origin := err == nil && u.Host != "" && strings.TrimSuffix(text, "/") == u.Scheme+"://"+u.Host
	if !origin || (u.Scheme != "https" && (u.Scheme != "http" || !untrusted.IsLoopback(u.Hostname()))) {
		return nil, fmt.Errorf("want the address of the page without a path, such as https://verify.example.com, got %s",
			untrusted.Value(text))
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

// Link is a link to the page of a domain. Its URL needs no sign-in.
type Link struct {
	status.DomainName

	Name    string    `json:"domain"`
	URL     string    `json:"url"`
	Expires time.Time `json:"expires_at"`
}

// keepScript returns the nonce of a domain's links. There is a new one if none is kept. It is kept
// until the last link expires.
var keepScript = redis.NewScript(`
redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return redis.call('GET', KEYS[1])`)

func nonceKey(d status.DomainName) string {
	return "orgops:v3:{tenant:" + d.Tenant + "}:link:" + d.ID
}

// NothingToShowError says why a domain has no record that its page could show.
type NothingToShowError struct{ Err error }

func (e *NothingToShowError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *NothingToShowError) Unwrap() error { return e.Err }

// Make returns a link to a domain that is valid for that time. The domain is checked until then if
// it is not verified and no row of it is open: a row is submitted in the name of the caller. The
// error may be a [NothingToShowError].
func (l *Links) Make(ctx context.Context, d status.DomainReport, life time.Duration, caller string) (Link, error) {
	if _, err := InstructionsOf(ctx, d.Domain(), nil); err != nil {
		return Link{}, &NothingToShowError{err}
	}
	c := claim{DomainName: d.DomainName, expires: l.now().Add(life).UTC().Truncate(time.Second)}
	_, _ = rand.Read(c.nonce[:]) // it never fails
	kept, err := keepScript.Run(ctx, l.redis, []string{nonceKey(d.DomainName)}, c.nonce[:], life.Milliseconds()).Text()
	if err != nil {
		return Link{}, fmt.Errorf("keep the links of domain %s: %w", d.ID, err)
	}
	copy(c.nonce[:], kept)
	token, err := l.keys.Get()[0].seal(c)
	if err == nil {
		err = actions.KeepChecked(ctx, l.ledger, d, actions.Requester{Caller: caller, GiveUp: life})
	}
	return Link{d.DomainName, d.Name, l.base.JoinPath(token).String(), c.expires}, err
}

// Revoke makes all links to the domain void.
func Revoke(ctx context.Context, rdb redis.Cmdable, d status.DomainName) error {
	if err := rdb.Del(ctx, nonceKey(d)).Err(); err != nil {
		return fmt.Errorf("revoke the links of domain %s: %w", d.ID, err)
	}
	return nil
}

// Revoke makes all links to the domain void.
func (l *Links) Revoke(ctx context.Context, d status.DomainName) error {
	return Revoke(ctx, l.redis, d)
}

// domainOf returns the name of the domain whose page a request is for, so that one link cannot take
// all places; "" for one without a valid signature, and for files: they cost no command of Redis
// and no query of DNS.
func (l *Links) domainOf(r *http.Request) string {
	c, err := unseal(l.keys.Get(), strings.TrimPrefix(r.URL.Path, "/"), l.now())
	if err != nil {
		return ""
	}
	return c.Tenant + " " + c.Organization + " " + c.ID
}

// open returns the domain of a token, and when the token expires. The error is errInvalid, or one
// of Redis. Redis is queried for tokens with a valid signature only.
func (l *Links) open(ctx context.Context, token string) (view.Report, time.Time, error) {
	c, err := unseal(l.keys.Get(), token, l.now())
	if err != nil {
		return view.Report{}, time.Time{}, err
	}
	kept, err := l.redis.Get(ctx, nonceKey(c.DomainName)).Bytes()
	if errors.Is(err, redis.Nil) || (err == nil && subtle.ConstantTimeCompare(kept, c.nonce[:]) == 0) {
		return view.Report{}, time.Time{}, errInvalid
	}
	if err != nil {
		return view.Report{}, time.Time{}, err
	}

	// A link gives the access of a customer of that organization alone.
	t, err := l.views.For(web.User{Name: web.Link, Role: web.Customer, Tenants: []string{c.Tenant},
		Organizations: []string{c.Organization}}).Tenant(c.Tenant)
	if err != nil {
		return view.Report{}, time.Time{}, err
	}
	d, err := t.Report(ctx, c.ID)
	if errors.Is(err, ledger.ErrNotFound) {
		err = errInvalid
	}
	return d, c.expires, err
}
