package tenant_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/cli"
	"orgops/internal/redistest"
	tenants "orgops/internal/tenant"
)

func TestSettingsAreAnnounced(t *testing.T) {
	rdb := redistest.New(t)
	if got, ok, err := tenants.ReadAnnounced(t.Context(), rdb, "acme"); ok || err != nil {
		t.Errorf("before: %v, %v, %v", got, ok, err)
	}
	want := tenants.Announced{
		Tenant: "acme", Rate: "16/s", Burst: 50, Reserve: 20, SweepShare: 20, GiveUp: cli.Duration(72 * time.Hour),
		MaxClientsPerRequest: 100,
		Sweep:                "0 3 * * *", VerifyPending: true, Grace: cli.Duration(240 * time.Hour), AbsentChecks: 4,
		Protect:   []string{"acme.example", "org_1"},
		UpdatedAt: time.Date(2026, 11, 20, 8, 0, 0, 1, time.UTC),
	}
	for _, rate := range []string{"2/s", want.Rate} {
		s := want
		s.Rate = rate
		if changed, err := tenants.Announce(t.Context(), rdb, s); err != nil || (changed != "") != (rate != "2/s") {
			t.Fatalf("changed: %s, %v; want none the first time", changed, err)
		}
	}
	got, ok, err := tenants.ReadAnnounced(t.Context(), rdb, "acme")
	if diff := cmp.Diff(want, got); diff != "" || !ok || err != nil {
		t.Errorf("%v, %v (-want +got):\n%s", ok, err, diff)
	}
	if _, ok, _ := tenants.ReadAnnounced(t.Context(), rdb, "other"); ok {
		t.Error("another tenant has them too")
	}
}

// TestChangedSettings checks that each change is reported once, by the names of the settings alone.
func TestChangedSettings(t *testing.T) {
	rdb := redistest.New(t)
	s := tenants.Announced{Tenant: "acme", Rate: "2/s", GiveUp: cli.Duration(time.Hour), Protect: []string{"org_secret"}}
	for i, c := range []struct {
		change func()
		want   string
	}{
		{func() {}, ""},
		{func() { s.UpdatedAt = time.Now() }, ""},
		{func() { s.GiveUp, s.Protect = cli.Duration(2*time.Hour), nil }, "give_up, protect"},
		{func() { s.UpdatedAt = time.Now() }, ""},
		{func() { s.ResolverQuorum, s.Protect = 3, []string{"a"} }, "resolver_quorum, protect"},
		{func() { s.VerifyPending = true }, "verify_pending"},
	} {
		c.change()
		if changed, err := tenants.Announce(t.Context(), rdb, s); err != nil || changed != c.want {
			t.Errorf("%d: changed %q, %v; want %q", i, changed, err, c.want)
		}
	}
}

func TestSettingsOfNoTenant(t *testing.T) {
	rdb := redistest.New(t)
	for _, tenant := range []string{"", "Acme", "-a", "a}b", "a\n", strings.Repeat("a", 33)} {
		if _, err := tenants.Announce(t.Context(), rdb, tenants.Announced{Tenant: tenant}); err == nil {
			t.Errorf("announced tenant %q", tenant)
		}
		if _, _, err := tenants.ReadAnnounced(t.Context(), rdb, tenant); err == nil {
			t.Errorf("read of tenant %q", tenant)
		}
	}
	rdb.Set(t.Context(), "orgops:v1:{tenant:acme}:settings", "no JSON", 0)
	if _, _, err := tenants.ReadAnnounced(t.Context(), rdb, "acme"); err == nil ||
		!strings.Contains(err.Error(), "tenant acme") {
		t.Errorf("got %v", err)
	}
}

// TestMembersHaveOneName checks that an announced setting has the name in Redis that it has in a
// file of tenants.
func TestMembersHaveOneName(t *testing.T) {
	named := 0
	for field := range reflect.TypeFor[tenants.Announced]().Fields() {
		inFile := field.Tag.Get("yaml")
		if inFile == "-" {
			continue
		}
		named++
		if stored := field.Tag.Get("json"); stored == "" || stored != inFile {
			t.Errorf("%s is %q in Redis and %q in a file", field.Name, stored, inFile)
		}
	}
	if named == 0 {
		t.Error("no setting is announced")
	}
}
