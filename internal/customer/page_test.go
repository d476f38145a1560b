package customer

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"orgops/apiclient/schema"
	"orgops/dnscheck/report"
	"orgops/internal/cli"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/status"
	"orgops/internal/tenant"
)

func (a answer) want(t *testing.T, code int, parts ...string) {
	t.Helper()
	if a.StatusCode != code {
		t.Errorf("status %d, want %d", a.StatusCode, code)
	}
	for _, part := range parts {
		if !strings.Contains(a.body, part) {
			t.Errorf("the page lacks %q:\n%s", part, a.body)
		}
	}
}

func TestPage(t *testing.T) {
	w := newWorld(t, PageSettings{Company: "Example & Sons", Color: "#FFEE00"})
	token := w.link(time.Hour)
	got := w.do("GET", "/"+token)
	got.want(t, 200, "<h1>Verify acme.example</h1>", "<code>_v.acme.example</code>", "<code>token-1</code>",
		"the record is not there.", "<p>Example &amp; Sons</p>", "by itself on <time", `<form method="post">`,
		"valid until")
	for name, want := range map[string]string{
		"Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "X-Robots-Tag": "noindex, nofollow",
		"X-Frame-Options": "DENY", "Location": "", "Set-Cookie": "",
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; " +
			"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
	} {
		if got := got.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if strings.Contains(got.body, token) || strings.Contains(got.body, "ord_1") || strings.Contains(got.body, "org_1") {
		t.Errorf("the page has its token, or an id:\n%s", got.body)
	}
	w.do("GET", "/page.css").want(t, 200, "--company: #ffee00; --ink: #000000;")
	w.do("GET", "/page.js").want(t, 200, "use strict")

	w.waits("b", schema.StatusVerified)
	got = w.do("GET", "/"+token)
	got.want(t, 200, "<h1>acme.example is verified</h1>", "There is nothing left to do")
	if strings.Contains(got.body, "<form") || strings.Contains(got.body, "token-1") {
		t.Errorf("the page of a verified domain has instructions:\n%s", got.body)
	}
}

// TestPageOfMistakes checks what the page shows beside the sentence of a mistake.
func TestPageOfMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		finding report.Finding
		want    []string
		not     []string
	}{
		"another value": {report.Finding{Mistake: report.MistakeQuoted, Host: "_v.acme.example", Found: `"\"token-1\""`},
			[]string{"Expected value</th><td><code>token-1</code>",
				`Found value</th><td><code><mark>&#34;</mark>token-1<mark>&#34;</mark></code>`}, nil},
		"a value to change": {report.Finding{Mistake: report.MistakeCut, Host: "_v.acme.example", Found: `"token"`},
			[]string{"Change the record that has this full name, so that it has these values.",
				url.PathEscape("has found this: The value at _v.acme.example is only a part of the expected one (\"token\"): enter all of it."),
				url.PathEscape("2. Change the record")}, []string{"Add a new record"}},
		"another name": {report.Finding{Mistake: report.MistakeApex, Host: "acme.example"},
			[]string{"Expected full name</th><td><code><mark>_v.</mark>acme.example</code>",
				"Found full name</th><td><code>acme.example</code>", "Add a new record with these values."}, []string{">Name</th>"}},
		"the domain twice": {report.Finding{Mistake: report.MistakeDoubled, Host: "_v.acme.example.acme.example"},
			[]string{"Found full name</th><td><code>_v.acme.example<mark>.acme.example</mark></code>",
				">Name</th><td><code>_v</code>", "enter <code>_v</code> only"}, nil},
		"several values": {report.Finding{Mistake: report.MistakeOther, Host: "_v.acme.example", Found: `"a", "b"`},
			nil, []string{"Found value"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, PageSettings{})
			w.waitsWith("b", schema.StatusPending, "acme.example", c.finding)
			got := w.do("GET", "/"+w.link(time.Hour))
			got.want(t, 200, c.want...)
			for _, part := range c.not {
				if strings.Contains(got.body, part) {
					t.Errorf("the page has %q:\n%s", part, got.body)
				}
			}
		})
	}
}

// TestPageOfAWaitingDomain checks that the page says until when the record is looked for, and that
// its mail has the whole of the record.
func TestPageOfAWaitingDomain(t *testing.T) {
	w := newWorld(t, PageSettings{})
	w.waitsWith("b", schema.StatusPending, "xn--bcher-kva.example")
	token := w.link(time.Hour)
	got := w.do("GET", "/"+token)
	got.want(t, 200, "<h1>Verify bücher.example (xn--bcher-kva.example)</h1>",
		"Leave this one there for good: it is checked again from time to time")
	if strings.Contains(got.body, "We look for the record until") {
		t.Errorf("without a setting the page says until when:\n%s", got.body)
	}
	_, mail, _ := strings.Cut(got.body, `<a href="mailto:?subject=`)
	mail, _, _ = strings.Cut(mail, `"`)
	text, err := url.PathUnescape(html.UnescapeString(mail))
	for _, part := range []string{"DNS record for bücher.example (xn--bcher-kva.example)&body=Publish a DNS record",
		"Full name:  _v.xn--bcher-kva.example\r\n", "Value:      token-1\r\n"} {
		if err != nil || !strings.Contains(text, part) {
			t.Errorf("the mail lacks %q: %q, %v", part, text, err)
		}
	}

	announced := tenant.Announced{Tenant: "acme", Rate: "10/s", Burst: 10, MaxClientsPerRequest: 100,
		GiveUp: cli.Duration(48 * time.Hour)}
	if _, err := tenant.Announce(t.Context(), w.rdb, announced); err != nil {
		t.Fatal(err)
	}
	d, err := status.Report(t.Context(), w.rdb, w.ledger, "acme", "ord_1")
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(d.Until); left < 47*time.Hour || left > 48*time.Hour {
		t.Errorf("checked until %v, want two days after the submission", d.Until)
	}
	w.do("GET", "/"+token).want(t, 200, "We look for the record until <time datetime=\""+d.Until.Format(time.RFC3339)+"\"")
}

// TestFrames checks that only listed pages may have the page in a frame.
func TestFrames(t *testing.T) {
	w := newWorld(t, PageSettings{Frames: []string{"https://app.example.com", "http://localhost:8080"}})
	got := w.do("GET", "/"+w.link(time.Hour))
	if policy := got.Header.Get("Content-Security-Policy"); !strings.HasSuffix(policy,
		"; frame-ancestors https://app.example.com http://localhost:8080") || got.Header.Get("X-Frame-Options") != "" {
		t.Errorf("policy %q, X-Frame-Options %q", policy, got.Header.Get("X-Frame-Options"))
	}
}

// TestInvalidLinks checks that all links that are not valid have one answer, which does not lead to
// another address.
func TestInvalidLinks(t *testing.T) {
	w := newWorld(t, PageSettings{})
	token := w.link(time.Hour)
	w.do("GET", "/"+token).want(t, 200)
	other := key{1}
	claimOf := func() claim {
		c, err := unseal(w.links.keys.Get(), token, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	sealed := func(k key, change func(*claim)) string {
		c := claimOf()
		change(&c)
		text, err := k.seal(c)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	own := w.links.keys.Get()[0]
	gone := claimOf() // of a domain that no run has any more
	gone.ID = "ord_9"
	if err := w.rdb.Set(t.Context(), nonceKey(gone.DomainName), gone.nonce[:], time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	// Of the last character the token needs two bits: the others are 0.
	const base64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := len(token) - 1
	unused := strings.IndexByte(base64url, token[last]) | 1
	paths := map[string]string{
		"bits that are not used": "/" + token[:last] + base64url[unused:unused+1],
		"no token":               "/", "nonsense": "/nonsense",
		"another page": "/v1/domains", "below": "/" + token + "/check",
		"a slash at the end": "/" + token + "/", "two slashes": "//" + token, "a way back": "/x/../" + token,
		"a dot": "/./" + token, "padded": "/" + token + "=", "long": "/" + strings.Repeat("A", 1<<13),
		"only a signature":      "/" + base64.RawURLEncoding.EncodeToString(own.mac(nil)),
		"another key":           "/" + sealed(other, func(*claim) {}),
		"expired":               "/" + sealed(own, func(c *claim) { c.expires = time.Now() }),
		"another nonce":         "/" + sealed(own, func(c *claim) { c.nonce[0]++ }),
		"another tenant":        "/" + sealed(own, func(c *claim) { c.Tenant = "other" }),
		"another organization":  "/" + sealed(own, func(c *claim) { c.Organization = "org_2" }),
		"another domain":        "/" + sealed(own, func(c *claim) { c.ID = "ord_2" }),
		"a domain that is gone": "/" + sealed(own, func(c *claim) { *c = gone }),
	}
	for i := range token {
		for _, with := range []string{"A", "-", "="} {
			if token[i:i+1] != with {
				paths[fmt.Sprintf("%s at %d", with, i)] = "/" + token[:i] + with + token[i+1:]
			}
		}
		paths[fmt.Sprintf("cut at %d", i)] = "/" + token[:i]
	}
	want := w.do("GET", "/nonsense")
	want.want(t, 404, "This link is not valid, or no longer.")
	same := func(name string, got answer) {
		t.Helper()
		for _, header := range []http.Header{got.Header, want.Header} {
			header.Del("X-Request-Id")
			header.Del("Allow") // of another method
		}
		if diff := cmp.Diff(want.body, got.body) + cmp.Diff(want.Header, got.Header); diff != "" || got.StatusCode != 404 {
			t.Errorf("%s: status %d, and differs (-want +got):\n%s", name, got.StatusCode, diff)
		}
	}
	for name, path := range paths {
		same(name, w.do("GET", path))
		same("POST "+name, w.do("POST", path))
	}
	same("PUT", w.do("PUT", "/"+token))
	same("POST a file", w.do("POST", "/page.css"))
	w.do("GET", "/"+token).want(t, 200)

	if err := Revoke(t.Context(), w.rdb, claimOf().DomainName); err != nil {
		t.Fatal(err)
	}
	same("revoked", w.do("GET", "/"+token))
	again := w.link(time.Hour)
	same("revoked, with a newer one", w.do("POST", "/"+token))
	w.do("GET", "/"+again).want(t, 200)
	redistest.Empty(t)
	w.waits("b", schema.StatusPending)
	same("of an emptied Redis", w.do("GET", "/"+again))
}

// TestRedisIsNotQueried checks that a token without a valid signature reaches no Redis.
func TestRedisIsNotQueried(t *testing.T) {
	w := newWorld(t, PageSettings{})
	token := w.link(time.Hour)
	if err := w.rdb.Close(); err != nil {
		t.Fatal(err)
	}
	w.do("GET", "/"+token[1:]).want(t, 404)
	w.do("GET", "/"+token).want(t, 503, "cannot be shown at the moment")
}

// TestSecondLink checks that a link leaves former ones valid, and that they are kept as long as the
// longest.
func TestSecondLink(t *testing.T) {
	w := newWorld(t, PageSettings{})
	long := w.link(48 * time.Hour)
	short := w.link(time.Hour)
	w.do("GET", "/"+long).want(t, 200)
	w.do("GET", "/"+short).want(t, 200)
	if left := w.rdb.PTTL(t.Context(), redistest.Keys(t, "*:link:ord_1")[0]).Val(); left < 47*time.Hour {
		t.Errorf("links are kept for %s", left)
	}
	w.links.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	w.do("GET", "/"+short).want(t, 404)
	w.do("GET", "/"+long).want(t, 200)
}

// TestRotation checks that links of a former key are valid while the key is named.
func TestRotation(t *testing.T) {
	w := newWorld(t, PageSettings{})
	former := w.link(time.Hour)
	keys, newer := w.links.keys.Get(), key{7}
	for _, c := range []struct {
		name string
		keys []key
		want int
	}{{"before", keys, 200}, {"both", []key{newer, keys[0]}, 200}, {"after", []key{newer}, 404}} {
		if _, err := unseal(c.keys, former, time.Now()); (err == nil) != (c.want == 200) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestLongNames(t *testing.T) {
	k := key{1}
	c := claim{expires: time.Unix(2_000_000_000, 0)}
	c.Tenant, c.Organization, c.ID = strings.Repeat("t", 255), strings.Repeat("o", 255), strings.Repeat("i", 255)
	token, err := k.seal(c)
	if err != nil || len(token) > longestToken {
		t.Fatalf("%d bytes, %v", len(token), err)
	}
	got, err := unseal([]key{k}, token, time.Now())
	if err != nil || got.DomainName != c.DomainName || !got.expires.Equal(c.expires) {
		t.Errorf("%+v, %v", got, err)
	}
	c.ID += "i"
	if _, err := k.seal(c); err == nil {
		t.Error("a name of 256 bytes is in a link")
	}
}

// TestCheckNow checks that a check makes the open row due, and that a day allows thirty.
func TestCheckNow(t *testing.T) {
	w := newWorld(t, PageSettings{})
	token := w.link(time.Hour)
	w.do("POST", "/"+token).want(t, 200, "The record is checked now.")
	w.do("POST", "/"+token).want(t, 200) // it counts too: the row is checked again in the next minute
	released, err := w.ledger.Release(t.Context(), w.segment, ledger.Quota{First: 9, Check: 9, Ready: 9})
	if err != nil || len(released.Rows) != 1 {
		t.Errorf("released %+v, %v; want one row", released.Rows, err)
	}
	for i := 2; ; i++ {
		w.rdb.Del(t.Context(), redistest.Keys(t, "*:checks:????")...)
		got := w.do("POST", "/"+token)
		if got.StatusCode == 200 && i < 30 {
			continue
		}
		got.want(t, 429, "It was checked many times already.", "<code>token-1</code>")
		if i != 30 || got.Header.Get("Retry-After") == "" {
			t.Errorf("refused after %d checks, Retry-After %q", i, got.Header.Get("Retry-After"))
		}
		break
	}
}

// TestRowForALink checks that a row is submitted for as long as the link is valid, once, if none is
// open.
func TestRowForALink(t *testing.T) {
	w := newWorld(t, PageSettings{})
	w.link(3 * time.Hour)
	if open, err := w.ledger.OpenSingles(t.Context(), "acme"); err != nil || len(open) != 0 {
		t.Fatalf("open rows %+v, %v; want none beside that of the run", open, err)
	}
	if err := w.ledger.Cancel(t.Context(), "acme", "a"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		w.do("GET", "/"+w.link(3*time.Hour)).want(t, 200, "<strong>Next check</strong>: in a moment.")
	}
	open, err := w.ledger.OpenSingles(t.Context(), "acme")
	if err != nil || len(open) != 1 || open[0].GiveUp != 3*time.Hour || open[0].Caller != "ada" {
		t.Fatalf("open rows %+v, %v; want one for three hours", open, err)
	}
	cancelled := open[0].ID // a later link begins another one
	if err := w.ledger.Cancel(t.Context(), "acme", cancelled); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		w.do("GET", "/"+w.link(3*time.Hour)).want(t, 200, "<strong>Next check</strong>: in a moment.")
	}
	open, err = w.ledger.OpenSingles(t.Context(), "acme")
	open = slices.DeleteFunc(open, ledger.Run.Ended)
	if err != nil || len(open) != 1 || open[0].ID == cancelled {
		t.Errorf("after the row was cancelled, open rows %+v, %v; want another one", open, err)
	}
}

// TestTokensAreNotLogged checks that no token is logged or stored.
func TestTokensAreNotLogged(t *testing.T) {
	w := newWorld(t, PageSettings{})
	token := w.link(time.Hour)
	for _, path := range []string{token, token[1:], "/" + token, token + "/check"} {
		w.do("GET", "/"+path)
		w.do("POST", "/"+path)
		w.do("BREW", "/"+path)
	}
	w.do("GET", "/"+token).want(t, 200)
	if err := w.rdb.Close(); err != nil {
		t.Fatal(err)
	}
	w.do("POST", "/"+token).want(t, 503)
	text := w.log.String()
	if part := token[30:50]; strings.Contains(text, part) || !strings.Contains(text, `route="POST /{token}"`) {
		t.Errorf("the log has the token, or no request:\n%s", text)
	}
}

func TestSettings(t *testing.T) {
	readable, short := keyFile(t), keyFile(t)
	if err := errors.Join(os.Chmod(readable, 0o604), os.WriteFile(short, []byte("0123abcd"), 0o600)); err != nil {
		t.Fatal(err)
	}
	good := keyFile(t)
	for name, c := range map[string]struct {
		Settings
		want string
	}{
		"no key":       {Settings{LinkURL: address}, "link-keys: name a file"},
		"no file":      {Settings{[]string{good, "none.key"}, address}, "link-keys: none.key: no such file"},
		"for everyone": {Settings{[]string{readable}, address}, "every user of this machine can read the key"},
		"short":        {Settings{[]string{short}, address}, "want 64 hexadecimal digits"},
		"no address":   {Settings{[]string{good}, ""}, "link-url: want the address"},
		"a path":       {Settings{[]string{good}, address + "/x"}, "without a path"},
		"plain HTTP":   {Settings{[]string{good}, "http://verify.example.com"}, "link-url: want"},
		"a password":   {Settings{[]string{good}, "https://a:b@verify.example.com"}, "link-url: want"},
	} {
		_, err := c.Open(nil, nil, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "0123abcd") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for _, at := range []string{address, address + "/", "http://127.0.0.1:8084"} {
		if _, err := (Settings{[]string{good}, at}).Open(nil, nil, slog.New(slog.DiscardHandler)); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
	for _, s := range []PageSettings{{Color: "blue"}, {Color: "#12345"}, {Color: "#12345g"}, {Color: ""},
		{Color: "#000000", Frames: []string{"*"}}, {Color: "#000000", Frames: []string{"https://*.example.com"}},
		{Color: "#000000", Frames: []string{"http://example.com"}},
		{Color: "#000000", Frames: []string{"https://example.com/; script-src *"}}} {
		if _, err := s.look(); err == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
}

func TestParseLife(t *testing.T) {
	for text, want := range map[string]time.Duration{"": UsualLife, "14d": UsualLife, "30d": mostLife,
		"36h": 36 * time.Hour, "90s": 90 * time.Second, "720h": mostLife} {
		if got, err := ParseLife(text); err != nil || got != want {
			t.Errorf("%q: %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"31d", "721h", "30s", "-1h", "-1d", "1.5d", "d", "14", "14 d", "999999999999d"} {
		if got, err := ParseLife(text); err == nil {
			t.Errorf("%q: %s, want an error", text, got)
		}
	}
}

// TestButtonTextIsReadable checks that the text on the button can be read in all colors: WCAG 2.2
// wants a contrast of 4.5.
func TestButtonTextIsReadable(t *testing.T) {
	light := []string{"#ffffff", "#ffee00", "#00ff00", "#777777", "#ff0000"}
	for _, color := range append(slices.Clone(light), "#000000", "#0b57b4", "#1a7033", "#0000ff") {
		l, err := PageSettings{Color: color}.look()
		if want := slices.Contains(light, color); err != nil || (l.Ink == "#000000") != want {
			t.Errorf("%s: text %s, %v", color, l.Ink, err)
		}
	}
}

// TestOneLinkLeavesPlacesToOthers has one link with as many requests in progress as the page has
// places: another link is served, and so are the files of the page.
func TestOneLinkLeavesPlacesToOthers(t *testing.T) {
	w := newWorld(t, PageSettings{})
	token := w.link(time.Hour)
	c := claim{expires: time.Now().Add(time.Hour)}
	c.Tenant, c.Organization, c.ID = "acme", "org_2", "ord_2"
	another, err := w.links.keys.Get()[0].seal(c)
	if err != nil {
		t.Fatal(err)
	}
	held, release := make(chan struct{}), make(chan struct{})
	w.rdb.AddHook(redistest.Around(func(_ context.Context, run func() error, cmds ...redis.Cmder) error {
		if cmds[0].Name() == "get" && cmds[0].Args()[1] == nonceKey(status.DomainName{Tenant: "acme", ID: "ord_1"}) {
			held <- struct{}{}
			<-release
		}
		return run()
	}))
	refused := make(chan answer, mostPages)
	var all sync.WaitGroup
	for range mostPages {
		all.Go(func() {
			if got := w.do("GET", "/"+token); got.StatusCode != 200 {
				refused <- got
			}
		})
	}
	for range mostOfLink {
		<-held
	}
	for range mostPages - mostOfLink {
		select {
		case got := <-refused:
			got.want(t, 429, "This page cannot be shown at the moment")
		case <-held:
			t.Errorf("one link has more than %d requests in progress", mostOfLink)
		}
	}
	w.do("GET", "/"+another).want(t, 404, "This link is not valid") // as its domain is unknown: it was served
	w.do("GET", "/page.css").want(t, 200)
	close(release)
	all.Wait()
}
