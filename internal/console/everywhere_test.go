package console_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/scan/progress"
)

// TestRemoveEverywhere lists the organizations of a client by the page, has the list end with three
// of them, and removes the client only for the right number.
func TestRemoveEverywhere(t *testing.T) {
	d := newDesk(t)
	if page, _ := d.post("/clients/list", url.Values{"tenant": {"default"}, "client": {"no id"}}); !strings.Contains(page,
		"client_id") {
		t.Errorf("a bad id: %s", page)
	}
	page, at := d.post("/clients/list", url.Values{"tenant": {"default"}, "client": {"client_1"}})
	id, _, _ := strings.Cut(strings.TrimPrefix(at, "/runs/"), "?")
	if !strings.HasSuffix(id, "-list") || !strings.Contains(page, "Nothing is removed") {
		t.Fatalf("the list is at %s: %s", at, page)
	}
	list := d.run(id)
	if !intake.IsList(list) || strings.Contains(d.get(at), "do-everywhere") {
		t.Errorf("a list that has not ended: %+v\n%s", list, page)
	}

	// The list ends.
	d.find(list, progress.Scan{Client: "client_1", Ended: true, Read: 9, Entitled: 2, Protected: 1}, "org_1", "org_2",
		"org_3")
	page = plain(d.get(at))
	for _, want := range []string{"To remove it from 3 organizations, type their number", "2 of them have app entitlement",
		"1 more is protected"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}

	// Only its number removes.
	removal := strings.TrimSuffix(id, "-list")
	for number, want := range map[string]string{
		"": "type the number of organizations", "2": "lists 3 organizations, and the number given is 2",
		"4": "nothing was removed",
	} {
		page, _ = d.post("/runs/"+id+"/everywhere", url.Values{"organizations": {number}})
		if _, err := d.ledger.Get(t.Context(), "", ledger.RunID(removal)); err == nil ||
			!strings.Contains(page, want) {
			t.Errorf("%q: removed %t, want %q:\n%s", number, err == nil, want, page)
		}
	}
	page, at = d.post("/runs/"+id+"/everywhere", url.Values{"organizations": {"3"}, "reason": {"ticket 4711"}})
	run := d.run(removal)
	var of progress.Scan
	mustNot(t, json.Unmarshal(run.Scan.Progress, &of))
	if !strings.HasPrefix(at, "/runs/"+removal) || of.Client != "client_1" || of.Counted != 3 || of.List != id {
		t.Errorf("at %s: %+v\n%s", at, of, page)
	}
	if acts := plain(d.get("/activity")); !strings.Contains(acts, "removal of client client_1 from 3 organizations") ||
		!strings.Contains(acts, "ticket 4711") {
		t.Errorf("the activity has no removal with its reason:\n%s", acts)
	}
	if page, _ = d.post("/runs/"+id+"/everywhere", url.Values{"organizations": {"3"}}); !strings.Contains(page,
		"submitted before") {
		t.Errorf("again: %s", page)
	}
}

// TestIncompleteListOffersNoRemoval checks that no client is offered to be removed by a list
// without all organizations, and why.
func TestIncompleteListOffersNoRemoval(t *testing.T) {
	d := newDesk(t)
	_, at := d.post("/clients/list", url.Values{"tenant": {"default"}, "client": {"client_1"}})
	id, _, _ := strings.Cut(strings.TrimPrefix(at, "/runs/"), "?")
	d.find(d.run(id), progress.Scan{Client: "client_1", Ended: true, Missed: 1, Why: "500"}, "org_1")
	page := d.get(at)
	if strings.Contains(page, "do-everywhere") || !strings.Contains(plain(page), "1 could not be read (500)") {
		t.Errorf("the page:\n%s", plain(page))
	}
	if page, _ = d.post("/runs/"+id+"/everywhere", url.Values{"organizations": {"1"}}); !strings.Contains(page,
		"1 could not be read (500)") {
		t.Errorf("the action:\n%s", page)
	}
}

// find has the scan of a list find its rows in one step, each settled, and end.
func (d *desk) find(list ledger.Run, p progress.Scan, organizations ...string) {
	d.t.Helper()
	seg := ledger.Segment{Tenant: list.Tenant, Run: list.ID, Incarnation: list.Incarnation, Number: ledger.ScanSegment}
	released, err := d.ledger.Release(d.t.Context(), seg, ledger.Quota{First: 1})
	mustNot(d.t, err)
	nonce := ledger.NewNonce()
	_, err = d.ledger.Begin(d.t.Context(), seg, ledger.Execution{Token: released.Token, Nonce: nonce,
		Session: ledger.NewSessionID()}, 0)
	mustNot(d.t, err)
	step := ledger.ScanStep{Position: []byte("{}"), Last: true}
	step.Progress, err = json.Marshal(p)
	mustNot(d.t, err)
	for _, org := range organizations {
		step.Rows = append(step.Rows, ledger.FoundRow{Key: org, Result: ledger.Result{Outcome: ledger.Unchanged},
			Content: []byte(`{"organization_id":"` + org + `","client_id":"` + p.Client + `"}`)})
	}
	_, err = d.ledger.AddStep(d.t.Context(), seg, nonce, step)
	mustNot(d.t, err)
	_, err = d.ledger.End(d.t.Context(), seg, nonce, ledger.Ends(ledger.Result{Outcome: ledger.Done}, 0)...)
	mustNot(d.t, err)
}
