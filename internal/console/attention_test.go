package console_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"orgops/internal/console"
	"orgops/internal/health"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/sweep"
)

// TestOverviewSaysWhenAllIsWell checks that the first page says that all is well only while it is.
func TestOverviewSaysWhenAllIsWell(t *testing.T) {
	d := newDesk(t)
	d.handIn("a", "domain:verify", domains(2))
	says := func(title string, wanted ...string) {
		t.Helper()
		page := d.get("/")
		if !strings.Contains(page, "<title>"+title+" –") {
			t.Errorf("the title is not %q", title)
		}
		for _, want := range wanted {
			if text := plain(page); !strings.Contains(text, want) {
				t.Errorf("the page does not say %q: %s", want, text)
			}
		}
	}
	d.serve()
	says("Overview", "All is well 1 worker serves 1 tenant. Tenants default well 2 open rows")

	value, err := json.Marshal(sweep.Summary{Tick: 1_900_000_000, Run: "sweep-7", Lost: 12, Absent: 13, Unknown: 1})
	mustNot(t, err)
	ok, err := sweep.NewStore(d.rdb, "default").SetState(t.Context(), sweep.SummaryState, nil, value)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	d.given("default", "crm", "503")
	d.serve()
	says("(3) Overview", "Needs attention 1 worker serves 1 tenant. 3 matters need attention.",
		"The sweep of 2030-03-17 17:46:40 UTC found 12 domains lost", "Review them",
		"got no clear answer for 1 domain", "1 webhook event given up", "last sweep: 13 absent")
	if page := d.get("/"); !strings.Contains(page, `href="/runs/sweep-7?tenant=default"`) {
		t.Error("no link to the sweep")
	}

	mustNot(t, d.ledger.EndSession(t.Context(), livingWorker))
	says("(4) Overview", "No worker runs 0 workers serve 0 tenants; 1 without a worker. 4 matters need attention.",
		"No worker of tenant default",
		"Start a worker")
	if tenants := plain(d.get("/tenants")); !strings.Contains(tenants, "No worker of tenant default") {
		t.Errorf("the tenants' page does not say that no worker runs: %s", tenants)
	}
	if page := plain(d.get("/runs")); !strings.Contains(page, "4 matters need attention") {
		t.Errorf("the list of runs does not lead to the warnings: %s", page)
	}
	// Its runs need attention too.
	if page := plain(d.get("/runs?state=attention")); !strings.Contains(page, "label of a") {
		t.Errorf("the filter does not find the held run: %s", page)
	}
}

// TestRevokedDomainsAreNoLongerLost checks that pages, commands and metrics, which share these
// warnings, count lost domains that were revoked since their sweep, and warn of the others alone.
func TestRevokedDomainsAreNoLongerLost(t *testing.T) {
	d := newDesk(t)
	d.serve()
	store, ended := sweep.NewStore(d.rdb, "default"), time.Unix(1_900_000_000, 0)
	value, err := json.Marshal(sweep.Summary{Tick: ended.Unix(), At: ended, Run: "sweep-7", Lost: 2, Absent: 2})
	mustNot(t, err)
	_, err = store.SetState(t.Context(), sweep.SummaryState, nil, value)
	mustNot(t, err)
	states := sweep.States{Tenant: "default", Store: store}
	revoke := func(id string) {
		value, err := json.Marshal(sweep.DomainState{V: 1, OrganizationID: "org_1", Tick: ended.Unix(), State: "absent",
			Absence: &sweep.Absence{Lost: ended}})
		mustNot(t, err)
		_, err = store.SetDomain(t.Context(), sweep.DomainWrite{ID: id, Value: value, Watched: true})
		mustNot(t, err)
		_, err = states.Change(t.Context(), id, func(s *sweep.DomainState) {
			s.Revoked = &sweep.Revocation{Set: sweep.SetPending, Run: "job"}
			s.RevokedAt(ended.Add(time.Minute))
		})
		mustNot(t, err)
	}
	// A row that has set a domain to pending which was not lost counts as a revocation, but not here.
	_, err = store.CountRevocation(t.Context(), "update", ended.Add(time.Minute), 20)
	mustNot(t, err)
	const revoked = "; 1 more revoked since"
	page := plain(d.get("/"))
	if !strings.Contains(page, "found 2 domains lost") || strings.Contains(page, revoked) {
		t.Errorf("before a revocation the page says: %s", page)
	}
	revoke("ord_a")
	page = plain(d.get("/"))
	if !strings.Contains(page, "found 1 domain lost") || !strings.Contains(page, revoked) {
		t.Errorf("after one of two revocations the page says: %s", page)
	}
	revoke("ord_b")
	page = plain(d.get("/"))
	if strings.Contains(page, "enqueue domains revoke") || !strings.Contains(page, "All is well") {
		t.Errorf("after both revocations the page says: %s", page)
	}
}

// TestOverviewReportsLostData checks that the first page of a Redis that came back empty is not all
// well.
func TestOverviewReportsLostData(t *testing.T) {
	p := newPages(t, func(c *console.Config) {
		c.Ledger, c.Intake = ledger.New(c.Redis), intake.New(c.Redis, ledger.New(c.Redis))
		c.Faults = func() []health.Finding {
			return []health.Finding{{Level: health.Warning, Text: "Redis lost data", Fix: "compare the runs"}}
		}
	})
	page := plain(text(t, p.do(http.MethodGet, "/")))
	for _, want := range []string{"1 matter needs attention.", "This worker and its Redis Redis lost data Compare the runs"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q: %s", want, page)
		}
	}
	if strings.Contains(page, "All is well") {
		t.Error("the page says that all is well")
	}
}

// TestPausedRunsNeedAttention checks that a paused run is found by the filter.
func TestPausedRunsNeedAttention(t *testing.T) {
	d := newDesk(t)
	d.handIn("a", "domain:verify", domains(2))
	d.handIn("b", "domain:verify", domains(2))
	mustNot(t, d.ledger.Pause(t.Context(), "default", ledger.RunID("b")))
	d.serve()
	page := plain(d.get("/runs?state=attention"))
	if strings.Contains(page, "label of a") || !strings.Contains(page, "label of b") {
		t.Errorf("runs that need attention: %s", page)
	}
}
