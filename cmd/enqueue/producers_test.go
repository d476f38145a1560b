package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
	"time"

	"orgops/internal/cli"
	"orgops/internal/httpapi"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/tenant"
	"orgops/producer"
	"orgops/tasks"
)

// TestProducersStoreWhatTheRowSays submits rows by each producer. Each stores the give-up that its
// caller gave: the worker applies the tenant's to rows without one, of every producer.
func TestProducersStoreWhatTheRowSays(t *testing.T) {
	const row = `{"organization_id":"org_1","discovery_domain_id":"dom_1"}`
	client := redistest.New(t)
	l := ledger.New(client)
	announced := tenant.Announced{Tenant: tasks.DefaultTenant, Rate: "2/s", GiveUp: cli.Duration(5 * time.Hour)}
	if _, err := tenant.Announce(t.Context(), client, announced); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(httpapi.New(httpapi.Config{Redis: client, Ledger: l, Version: "test",
		Logger: slog.New(slog.DiscardHandler), Intake: intake.New(client, l)}))
	defer server.Close()

	// Each submits the row and returns the id of its run.
	byCommand := func(giveUp time.Duration) string {
		args := []string{"domains", "verify"}
		if giveUp > 0 {
			args = append(args, "--give-up", giveUp.String())
		}
		status, id, stderr := typed(t.Context(), t, row, args...)
		if status != 0 {
			t.Fatalf("exit status %d: %s", status, stderr)
		}
		return strings.TrimSpace(id)
	}
	byHTTP := func(giveUp time.Duration) string {
		query := ""
		if giveUp > 0 {
			query = "?give_up=" + giveUp.String()
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/v1/runs/domain:verify"+query,
			strings.NewReader(row))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", "after-"+giveUp.String())
		answer, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusAccepted {
			t.Fatalf("status %d, want 202", answer.StatusCode)
		}
		return path.Base(answer.Header.Get("Location"))
	}
	byService := func(giveUp time.Duration) string {
		r := producer.Row{Kind: producer.Verify, Row: []byte(row), GiveUp: giveUp}
		id, err := producer.New(client).Submit(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}

	for name, submit := range map[string]func(giveUp time.Duration) string{
		"enqueue": byCommand, "HTTP": byHTTP, "Go": byService,
	} {
		for _, giveUp := range []time.Duration{0, time.Hour} {
			run, err := l.Get(t.Context(), tasks.DefaultTenant, ledger.RunID(submit(giveUp)))
			if err != nil || run.GiveUp != giveUp {
				t.Errorf("%s: stored is %s, %v; want %s", name, run.GiveUp, err, giveUp)
			}
		}
	}
}
