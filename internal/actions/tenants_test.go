package actions_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"orgops/internal/actions"
	"orgops/internal/activity"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
	"orgops/internal/tenant"
)

// TestReassignTenant checks that a name is given up only while nothing of the former tenant is
// served or open.
func TestReassignTenant(t *testing.T) {
	id := tenant.Identity{BaseURL: "https://acme.example/api/v2", Audience: "https://acme.example/api/v2/"}
	serves := func(name ledger.Tenant) func(*testing.T, redis.Cmdable) {
		return func(t *testing.T, rdb redis.Cmdable) {
			s := ledger.Session{ID: ledger.NewSessionID(), Host: "host-7", Tenants: []ledger.Tenant{name}}
			if _, err := ledger.New(rdb).Renew(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
	}
	has := func(name ledger.Tenant, rows ...string) func(*testing.T, redis.Cmdable) {
		return func(t *testing.T, rdb redis.Cmdable) {
			ledgertest.Submit(t, ledger.New(rdb), ledger.NewRun{ID: "job", Tenant: name}, rows...)
		}
	}
	single := func(t *testing.T, rdb redis.Cmdable) {
		run := ledger.NewRun{ID: "one", Tenant: "acme", Kind: "domain:verify"}
		if _, _, err := ledger.New(rdb).SubmitRow(t.Context(), run, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name    string
		before  func(*testing.T, redis.Cmdable)
		keep    bool
		refused string // a part of the error; empty: the name is given up
	}{
		{"nothing is open", nil, false, ""},
		{"another tenant is served and has rows", has("other", "{}"), false, ""},
		{"a living worker of it", serves("acme"), false, "tenant acme is served by worker "},
		{"a living worker of it, the same tenant", serves("acme"), true, "on host-7"},
		{"a living worker of another", serves("other"), false, ""},
		{"open rows", has("acme", "{}"), false, "tenant acme has runs that are not finished: job"},
		{"open rows, the same tenant", has("acme", "{}"), true, ""},
		{"an open single row", single, false, "tenant acme has rows that are not finished: 1 single row"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rdb := redistest.New(t)
			if err := tenant.Claim(t.Context(), rdb, "acme", id); err != nil {
				t.Fatal(err)
			}
			if tc.before != nil {
				tc.before(t, rdb)
			}
			by := activity.Author{Redis: rdb, Name: "ada"}
			effect, err := actions.ReassignTenant(t.Context(), by, ledger.New(rdb), "acme", tc.keep)
			stored, noIdentity := tenant.ReadIdentity(t.Context(), rdb, "acme")
			if noIdentity != nil {
				t.Fatal(noIdentity)
			}
			entries, _, noActivity := activity.Page(t.Context(), rdb, activity.Query{Tenants: []string{"acme"}, Limit: 10})
			if noActivity != nil {
				t.Fatal(noActivity)
			}
			if tc.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refused) {
					t.Errorf("%q, %v; want it refused: %s", effect, err, tc.refused)
				}
				if stored.GivenUp || len(entries) != 0 {
					t.Errorf("stored %+v, activity %+v; want nothing changed", stored, entries)
				}
				return
			}
			if err != nil || !strings.Contains(effect, id.BaseURL) {
				t.Errorf("%q, %v; want the former base URL", effect, err)
			}
			if want := (tenant.StoredIdentity{Identity: id, GivenUp: true, Same: tc.keep}); *stored != want {
				t.Errorf("stored %+v, want %+v", stored, want)
			}
			if len(entries) != 1 || entries[0].Action != activity.Reassigned || entries[0].By != "ada" {
				t.Errorf("activity %+v, want that ada has reassigned it", entries)
			}
		})
	}
}
