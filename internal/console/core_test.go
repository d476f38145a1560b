package console_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"orgops/internal/ledger"
)

// submitToCore submits three rows of a domain:update run to the core.
func (d *desk) submitToCore(id ledger.RunID) ledger.Run {
	d.t.Helper()
	run, _, err := d.ledger.Create(d.t.Context(),
		ledger.NewRun{ID: id, Tenant: "default", Kind: "domain:update",
			Description: ledger.Description{
				Format: "csv", Columns: []string{"organization_id", "discovery_domain_id", "status"},
			}})
	mustNot(d.t, err)
	stager, err := d.ledger.NewStager(d.t.Context(), run)
	mustNot(d.t, err)
	for _, row := range []string{
		`{"organization_id":"org_0","discovery_domain_id":"dom_0","status":"verified"}`,
		`{"organization_id":"org_1","discovery_domain_id":"dom_1","status":"verified"}`,
		`["org_2","dom_2","no status"]`,
	} {
		mustNot(d.t, stager.Add(d.t.Context(), []byte(row)))
	}
	run, err = stager.Commit(d.t.Context())
	mustNot(d.t, err)
	return run
}

// endInCore executes the first rows of the run, each with its ending.
func (d *desk) endInCore(run ledger.Run, endings ...ledger.Ending) {
	d.t.Helper()
	ctx, core := d.t.Context(), d.ledger
	seg := ledger.Segment{Tenant: run.Tenant, Run: run.ID, Incarnation: run.Incarnation}
	released, err := core.Release(ctx, seg, ledger.Quota{First: len(endings)})
	mustNot(d.t, err)
	nonce := ledger.NewNonce()
	var rows []ledger.Row
	var ends []ledger.RowEnd
	for i, row := range released.Rows {
		rows = append(rows, row.Row)
		ends = append(ends, ledger.RowEnd{Row: row.Row, Ending: endings[i]})
	}
	_, err = core.Begin(ctx, seg, ledger.Execution{Token: released.Token, Nonce: nonce,
		Session: ledger.NewSessionID()}, rows...)
	mustNot(d.t, err)
	_, err = core.End(ctx, seg, nonce, ends...)
	mustNot(d.t, err)
}

// TestRunOfTheCore checks that the pages show a run of the core like any other.
func TestRunOfTheCore(t *testing.T) {
	d := newDesk(t)
	run := d.submitToCore("a")
	d.endInCore(run, ledger.Waiting{Stage: ledger.StageCheck, After: time.Minute,
		Memo: []byte("transient\x00503 Service Unavailable\x00")}, ledger.Result{Outcome: "refused", Detail: "403 Forbidden"})
	if ids := listed(d.get("/runs?state=open")); !slices.Equal(ids, []string{"a"}) {
		t.Errorf("listed: %v", ids)
	}
	page := d.get("/runs/a")
	for _, want := range []string{"1 of 3 rows settled", "org_0 dom_0", "transient: 503 Service Unavailable",
		"org_1 dom_1", "403 Forbidden", "org_2 dom_2"} {
		if !strings.Contains(plain(page), want) {
			t.Errorf("the page lacks %q:\n%s", want, plain(page))
		}
	}
	if have := offered(page); !slices.Equal(have, []string{"pause", "cancel", "retry", "check"}) {
		t.Errorf("offered: %v", have)
	}
	d.post("/runs/a/pause", url.Values{})
	if page := plain(d.get("/runs/a")); !strings.Contains(page, "paused; before: transient") {
		t.Errorf("paused:\n%s", page)
	}
	if page := plain(d.get("/runs")); !strings.Contains(page, "paused") {
		t.Errorf("paused, in the list:\n%s", page)
	}
	if page, _ := d.post("/runs/a/resume", url.Values{}); !strings.Contains(page, "resumed; open rows: 2") {
		t.Errorf("resumed:\n%s", plain(page))
	}
	if page, _ := d.post("/runs/a/cancel", url.Values{}); !strings.Contains(page, "cancelled; rows that were open: 2") {
		t.Errorf("cancelled:\n%s", plain(page))
	}
	if page := plain(d.get("/runs?state=ended")); !strings.Contains(page, "3 of 3 rows settled") {
		t.Errorf("ended:\n%s", page)
	}
}

// TestStagedRunOfTheCore checks that a cancel ends a run that is being submitted.
func TestStagedRunOfTheCore(t *testing.T) {
	d := newDesk(t)
	_, _, err := d.ledger.Create(t.Context(), ledger.NewRun{ID: "a", Tenant: "default", Kind: "domain:update"})
	mustNot(t, err)
	if page := plain(d.get("/runs/a")); !strings.Contains(page, "being submitted") {
		t.Errorf("staged:\n%s", page)
	}
	if page, at := d.post("/runs/a/cancel", url.Values{}); at != "/runs/a" ||
		!strings.Contains(page, "cancelled: it was still being submitted") {
		t.Errorf("cancelled, at %s:\n%s", at, plain(page))
	}
}
