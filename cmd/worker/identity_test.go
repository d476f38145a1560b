package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/logtest"
	"orgops/internal/redisconn"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/internal/tenant"
	"orgops/tasks"
)

// creations returns the number of requests that create a template.
func creations(box *sandbox.Sandbox) (n int) {
	for _, r := range box.Requests() {
		if r.Operation == sandbox.OpCreateTemplate {
			n++
		}
	}
	return n
}

// TestTwoTenantsOfOneName starts workers of production and staging with one name of a tenant and
// one Redis: the second one ends, before it executes a row of the first.
func TestTwoTenantsOfOneName(t *testing.T) {
	t.Parallel()
	production, staging := startBox(t, sandbox.Options{}), startBox(t, sandbox.Options{})
	d := newDesk(t)
	first := begin(t, pointedAt(production, redistest.URL(t), nil))
	first.says("worker started", nil)
	d.handIn(ledger.NewRun{ID: "before"}, tasks.TypeCreate, production.SeedTemplates(20))
	d.well("before", 20)
	first.stop()
	d.handIn(ledger.NewRun{ID: "open"}, tasks.TypeCreate, production.SeedTemplates(20))

	for _, with := range [][]string{nil, {"--drain"}} {
		second := begin(t, pointedAt(staging, redistest.URL(t), nil), with...)
		if status := second.wait(); status != 1 {
			t.Errorf("%q: status %d, want 1", with, status)
		}
		for _, want := range []string{
			"in this Redis tenant default stands for " + production.BaseURL() + ", and not for " + staging.BaseURL(),
			"run enqueue tenant reassign default",
		} {
			if text := second.stderr.String(); !strings.Contains(text, want) {
				t.Errorf("%q: the worker says %s; want %s", with, text, want)
			}
		}
	}
	if n := len(staging.Requests()); n != 0 {
		t.Errorf("%d requests to the other tenant: %+v", n, staging.Requests())
	}
	doctor := begin(t, pointedAt(staging, redistest.URL(t), nil), "doctor")
	if status := doctor.wait(); status != 1 || !strings.Contains(doctor.stdout.String(),
		"wrong    tenant default: in this Redis tenant default stands for "+production.BaseURL()) {
		t.Errorf("doctor: status %d, %s", status, &doctor.stdout)
	}

	begin(t, pointedAt(production, redistest.URL(t), nil)).says("worker started", nil)
	d.well("open", 20)
	if here, there := creations(production), creations(staging); here != 40 || there != 0 {
		t.Errorf("%d templates in the tenant of the rows, %d in the other one; want 40 and none", here, there)
	}
}

// TestOtherTenantInFile changes the base URL of a tenant in the file of a worker: the former
// settings stay in force.
func TestOtherTenantInFile(t *testing.T) {
	t.Parallel()
	box, other := startBox(t, sandbox.Options{}), startBox(t, sandbox.Options{})
	d := newDesk(t)
	f := newTenantFile(t, box)
	f.write(f.entry("one", ", rate: unlimited"))
	p := f.begin()
	moved := f
	moved.box = other
	f.write(moved.entry("one", ", rate: unlimited"))
	hangUp(t)
	line := p.says("settings refused: the former ones stay in force", nil)
	if text := names(line, "error"); !strings.Contains(text, "tenant one stands for "+box.BaseURL()) {
		t.Errorf("refused for %s", text)
	}
	await(t, "readiness with a note", func() bool {
		_, body := p.page("probe-addr", "/readyz")
		return strings.Contains(body, "the changed file of tenants is refused")
	})
	d.handIn(ledger.NewRun{ID: "rows", Tenant: "one"}, tasks.TypeCreate, box.SeedTemplates(3))
	d.well("rows", 3)
	if here, there := creations(box), len(other.Requests()); here != 3 || there != 0 {
		t.Errorf("%d templates in the tenant, and %d requests to the other one; want 3 and none", here, there)
	}
}

// TestRedisOfOtherTenant replaces the data in Redis by that of another tenant while a worker runs.
func TestRedisOfOtherTenant(t *testing.T) {
	t.Parallel()
	box, rdb := startBox(t, sandbox.Options{}), redistest.New(t)
	log := new(logtest.Buffer)
	w, err := newWorker(t.Context(), settings{HTTPAddr: off, ProbeAddr: off},
		redisconn.Config{URL: redistest.URL(t), AllowURLPassword: true}, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	w.schemaEvery = 10 * time.Millisecond
	one := sandboxTenant(box)
	if err := one.Complete(func(string) string { return box.ClientSecret() }); err != nil {
		t.Fatal(err)
	}
	err = w.work(t.Context(), []tenant.Settings{one}, func(ctx context.Context) error {
		// An emptied Redis gets the identity again.
		redistest.Empty(t)
		await(t, "the identity", func() bool {
			stored, err := tenant.ReadIdentity(ctx, rdb, one.Name)
			return err == nil && stored != nil && stored.Identity == one.Identity()
		})

		rdb.Set(ctx, "orgops:v3:{tenant:default}:identity", `{"base_url":"https://other.example/api/v2","audience":"a"}`, 0)
		<-ctx.Done()
		return nil
	})
	if _, other := errors.AsType[*tenant.OtherTenantError](err); !other {
		t.Errorf("got %v, want that the name stands for another tenant", err)
	}
	if !strings.Contains(log.String(), "stopping: the data in Redis was replaced") {
		t.Errorf("log:\n%s", log)
	}
}
