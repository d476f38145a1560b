package tenant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ids"
	"orgops/internal/ledger"
	"orgops/internal/sweep"
)

// Identity says which tenant of the platform a name stands for.
type Identity struct {
	BaseURL  string `json:"base_url"`
	Audience string `json:"audience"`
}

// Identity returns the identity of the settings.
func (t Settings) Identity() Identity {
	return Identity{BaseURL: canonical(t.BaseURL), Audience: canonical(t.Audience)}
}

// canonical spells a URL in one way: a host has no case.
func canonical(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return text
	}
	u.Host = strings.ToLower(u.Host)
	return u.String()
}

// StoredIdentity is the identity that a name has in Redis. The first worker of the name stores it.
type StoredIdentity struct {
	Identity
	// GivenUp says that the name gets the identity of the worker that is started next. With Same
	// that is the same tenant of the platform at another address.
	GivenUp bool `json:"given_up,omitempty"`
	Same    bool `json:"same_tenant,omitempty"`
}

// String returns the address of the tenant, for people.
func (s StoredIdentity) String() string {
	text := fmt.Sprintf("%s, audience %s", s.BaseURL, s.Audience)
	if s.GivenUp {
		text += "; given up: the worker that is started next decides"
	}
	return text
}

// OtherTenantError says that a name stands for another tenant of the platform than the settings
// say.
type OtherTenantError struct {
	Name        string
	Stored, Own Identity
}

// Error names both tenants, and the remedy.
func (e *OtherTenantError) Error() string { return e.What() + "; " + e.Fix() }

// What names both tenants.
func (e *OtherTenantError) What() string {
	if e.Stored.BaseURL == e.Own.BaseURL {
		return fmt.Sprintf("in this Redis tenant %s has the audience %s, and not %s as in these settings",
			e.Name, e.Stored.Audience, e.Own.Audience)
	}
	return fmt.Sprintf("in this Redis tenant %s stands for %s, and not for %s as in these settings: "+
		"its rows would be executed in the wrong tenant", e.Name, e.Stored.BaseURL, e.Own.BaseURL)
}

// Fix says what to do.
func (e *OtherTenantError) Fix() string {
	return "point this worker at another Redis, or name the tenant otherwise; if the name shall mean the other tenant: " +
		"wait until none of its rows is open, stop its workers, and run enqueue tenant reassign " + e.Name
}

// swapScript replaces a string if it is the former one, empty if there is none, and returns the
// string that is stored then.
var swapScript = redis.NewScript(`
local stored = redis.call("GET", KEYS[1]) or ""
if stored ~= ARGV[1] then return stored end
redis.call("SET", KEYS[1], ARGV[2])
return ARGV[2]`)

// Claim stores the identity of a name unless one is stored. It returns an [OtherTenantError] if the
// name has another one. A worker serves a name only after it has claimed it.
func Claim(ctx context.Context, rdb redis.Cmdable, name string, id Identity) error {
	own, _ := json.Marshal(StoredIdentity{Identity: id}) // strings always encode
	former := ""
	for {
		// Of several workers that are the first, one stores its identity, and the others read it.
		text, err := swapScript.Run(ctx, rdb, []string{identityKey(name)}, former, own).Text()
		if err != nil {
			return fmt.Errorf("claim the name of tenant %s: %w", name, err)
		}
		stored, err := parseIdentity(name, text)
		switch {
		case err != nil:
			return err
		case stored == StoredIdentity{Identity: id}:
			return nil
		case !stored.GivenUp:
			return &OtherTenantError{Name: name, Stored: stored.Identity, Own: id}
		}

		// The name was given up. Nothing that was stored about another tenant's domains may count
		// for this one. It is removed before the identity is stored, in case this worker dies.
		if stored.Identity != id && !stored.Same {
			if err := sweep.NewStore(rdb, name).DeleteTenant(ctx); err != nil {
				return fmt.Errorf("tenant %s: %w", name, err)
			}
			if err := ledger.New(rdb).ForgetNames(ctx, ledger.Tenant(name)); err != nil {
				return err
			}
		}
		former = text
	}
}

// GiveUp lets the worker of the name that is started next decide what it stands for, and returns
// what it has stood for. With same that is the same tenant of the platform at another address. Call
// it only while no worker serves the tenant.
func GiveUp(ctx context.Context, rdb redis.Cmdable, name string, same bool) (Identity, error) {
	former, err := rdb.Get(ctx, identityKey(name)).Result()
	if errors.Is(err, redis.Nil) {
		return Identity{}, fmt.Errorf("tenant %s stands for no tenant in this Redis yet: its first worker decides", name)
	}
	if err != nil {
		return Identity{}, fmt.Errorf("read the identity of tenant %s: %w", name, err)
	}
	stored, err := parseIdentity(name, former)
	if err != nil {
		return Identity{}, err
	}
	stored.GivenUp = true
	stored.Same = same
	next, _ := json.Marshal(stored) // strings always encode
	text, err := swapScript.Run(ctx, rdb, []string{identityKey(name)}, former, next).Text()
	if err == nil && text != string(next) {
		err = errors.New("a worker has just changed it: stop its workers first")
	}
	if err != nil {
		return Identity{}, fmt.Errorf("give up the identity of tenant %s: %w", name, err)
	}
	return stored.Identity, nil
}

// ReadIdentity returns the identity of a name; nil: no worker has served it yet.
func ReadIdentity(ctx context.Context, rdb redis.Cmdable, name string) (*StoredIdentity, error) {
	if err := ids.CheckTenant(name); err != nil {
		return nil, fmt.Errorf("read an identity: %w", err)
	}
	text, err := rdb.Get(ctx, identityKey(name)).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the identity of tenant %s: %w", name, err)
	}
	stored, err := parseIdentity(name, text)
	if err != nil {
		return nil, err
	}
	return &stored, nil
}

func parseIdentity(name, text string) (stored StoredIdentity, err error) {
	if err := json.Unmarshal([]byte(text), &stored); err != nil {
		return stored, fmt.Errorf("redis key %s cannot be read: %w", identityKey(name), err)
	}
	return stored, nil
}

func identityKey(name string) string { return "orgops:v3:{tenant:" + name + "}:identity" }
