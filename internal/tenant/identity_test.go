package tenant_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/redistest"
	"orgops/internal/sweep"
	tenants "orgops/internal/tenant"
)

var (
	production = tenants.Identity{BaseURL: "https://acme.example/api/v2", Audience: "https://acme.example/api/v2/"}
	staging    = tenants.Identity{BaseURL: "https://staging.example/api/v2", Audience: "https://staging.example/api/v2/"}
)

// TestClaim checks which worker may serve a name after others have.
func TestClaim(t *testing.T) {
	audience := tenants.Identity{BaseURL: production.BaseURL, Audience: "urn:other"}
	giveUp := func(same bool) func(context.Context, redis.Cmdable) error {
		return func(ctx context.Context, rdb redis.Cmdable) error {
			_, err := tenants.GiveUp(ctx, rdb, "acme", same)
			return err
		}
	}
	for _, tc := range []struct {
		name    string
		before  func(context.Context, redis.Cmdable) error
		id      tenants.Identity
		refused string // a part of the error; empty: the worker may serve the name
		forgets bool   // what is known of the former tenant
	}{
		{"the same again", nil, production, "", false},
		{"another base URL", nil, staging, production.BaseURL + ", and not for " + staging.BaseURL, false},
		{"another audience", nil, audience, "audience " + production.Audience + ", and not urn:other", false},
		{"another one, after it was given up", giveUp(false), staging, "", true},
		{"the same one, after it was given up", giveUp(false), production, "", false},
		{"its new address", giveUp(true), staging, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rdb := redistest.New(t)
			if err := tenants.Claim(t.Context(), rdb, "acme", production); err != nil {
				t.Fatal(err)
			}
			known := knownOfAcme(t, rdb)
			if tc.before != nil {
				if err := tc.before(t.Context(), rdb); err != nil {
					t.Fatal(err)
				}
			}
			err := tenants.Claim(t.Context(), rdb, "acme", tc.id)
			want := tc.id
			if tc.refused != "" {
				want = production
				_, other := errors.AsType[*tenants.OtherTenantError](err)
				if !other || !strings.Contains(err.Error(), tc.refused) ||
					!strings.Contains(err.Error(), "run enqueue tenant reassign acme") {
					t.Errorf("got %v, want the refusal %s, and what to do", err, tc.refused)
				}
			} else if err != nil {
				t.Error(err)
			}
			stored, err := tenants.ReadIdentity(t.Context(), rdb, "acme")
			if err != nil || stored == nil || *stored != (tenants.StoredIdentity{Identity: want}) {
				t.Errorf("stored %+v, %v; want %+v", stored, err, want)
			}
			left := rdb.Exists(t.Context(), known...).Val()
			if tc.forgets && left != 0 || !tc.forgets && left != int64(len(known)) {
				t.Errorf("%d of %d keys about the former tenant are left; want that they are removed: %t",
					left, len(known), tc.forgets)
			}
			if n := rdb.Exists(t.Context(), "orgops:v3:{tenant:acme}:watch:domain:dom_1").Val(); n != 1 {
				t.Error("the state of a domain was removed, which no other tenant has")
			}
		})
	}
}

// knownOfAcme stores what a tenant's sweeps and rows have found, and returns the keys that are
// about the tenant as a whole.
func knownOfAcme(t *testing.T, rdb redis.Cmdable) []string {
	t.Helper()
	store, now := sweep.NewStore(rdb, "acme"), time.Now()
	_, err := store.SetDomain(t.Context(), sweep.DomainWrite{ID: "dom_1", Value: []byte("{}"), Watched: true})
	if err == nil {
		_, err = store.CountRevocation(t.Context(), "one", now, 10)
	}
	if err == nil {
		_, err = store.SetState(t.Context(), sweep.SummaryState, nil, []byte(`{"lost":3}`))
	}
	var ticks sweep.Ticks
	if err == nil {
		ticks, err = store.Ticks(t.Context())
	}
	if err == nil {
		ticks.Tick = now.Unix()
		_, err = store.SetTicks(t.Context(), &ticks)
	}
	if err == nil {
		err = rdb.ZAdd(t.Context(), "orgops:v3:{tenant:acme}:names", redis.Z{Member: "a"}).Err()
	}
	if err == nil {
		err = rdb.HSet(t.Context(), "orgops:v3:{tenant:acme}:ids", "a", "b").Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{
		"orgops:v3:{tenant:acme}:watch:watched", "orgops:v3:{tenant:acme}:watch:revocations",
		"orgops:v3:{tenant:acme}:watch:state:summary", "orgops:v3:{tenant:acme}:watch:state:ticks",
		"orgops:v3:{tenant:acme}:names", "orgops:v3:{tenant:acme}:ids",
	}
	if n := rdb.Exists(t.Context(), keys...).Val(); n != int64(len(keys)) {
		t.Fatalf("%d of %d keys are stored", n, len(keys))
	}
	return keys
}

// TestFirstClaims has workers of two tenants claim a name at the same time: those of one serve it.
func TestFirstClaims(t *testing.T) {
	rdb := redistest.New(t)
	claims := make([]error, 20)
	var all sync.WaitGroup
	for i := range claims {
		id := production
		if i%2 == 1 {
			id = staging
		}
		all.Go(func() { claims[i] = tenants.Claim(t.Context(), rdb, "acme", id) })
	}
	all.Wait()
	stored, err := tenants.ReadIdentity(t.Context(), rdb, "acme")
	if err != nil || stored == nil {
		t.Fatalf("stored %v, %v", stored, err)
	}
	for i, err := range claims {
		_, other := errors.AsType[*tenants.OtherTenantError](err)
		isStaging := i%2 == 1
		if refused := isStaging != (stored.Identity == staging); other != refused || !refused && err != nil {
			t.Errorf("claim %d: %v, while the name stands for %s", i, err, stored)
		}
	}
}

// TestIdentityOfSettings checks that one tenant that is spelled in two ways is one.
func TestIdentityOfSettings(t *testing.T) {
	for _, url := range []string{"https://Acme.Example", "https://acme.example/", "https://acme.example/api/v2"} {
		s := tenants.Default()
		s.BaseURL, s.TokenEnv = url, "TOKEN"
		if err := s.Complete(func(string) string { return "a.b.c" }); err != nil {
			t.Fatal(err)
		}
		if got := s.Identity(); got != production {
			t.Errorf("%s: %+v, want %+v", url, got, production)
		}
	}
}

// TestGiveUpWithoutAnIdentity checks that a name without an identity, or with one that cannot be
// read, is left as it is.
func TestGiveUpWithoutAnIdentity(t *testing.T) {
	rdb := redistest.New(t)
	if _, err := tenants.GiveUp(t.Context(), rdb, "acme", false); err == nil {
		t.Error("a name without an identity was given up")
	}
	key := "orgops:v3:{tenant:acme}:identity"
	rdb.Set(t.Context(), key, "no JSON", 0)
	for what, err := range map[string]error{
		"claim": tenants.Claim(t.Context(), rdb, "acme", production),
		"read":  func() error { _, err := tenants.ReadIdentity(t.Context(), rdb, "acme"); return err }(),
		"give up": func() error {
			_, err := tenants.GiveUp(t.Context(), rdb, "acme", false)
			return err
		}(),
	} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v, want an error that names the key", what, err)
		}
	}
	if text := rdb.Get(t.Context(), key).Val(); text != "no JSON" {
		t.Errorf("it was replaced by %s", text)
	}
}
