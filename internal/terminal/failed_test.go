package terminal_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/dnscheck/report"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
	"orgops/internal/status"
	"orgops/internal/sweep"
	"orgops/internal/terminal"
	"orgops/tasks"
)

// TestFailedByReason has 300 failed rows among 3,000 verified ones: their mistakes are counted
// exactly, whatever values the sentences have, and the others by their reasons.
func TestFailedByReason(t *testing.T) {
	rdb := redistest.New(t)
	l := ledger.New(rdb)
	mistakes := []report.Mistake{report.MistakeQuoted, report.MistakePadded, report.MistakeCut,
		report.MistakeApex, report.MistakeDoubled, report.MistakeWWW, report.MistakeAlias}
	const rows, every = 3300, 11 // one of 11 has failed
	ledgertest.Submit(t, l, ledger.NewRun{ID: "a", Kind: "domain:verify"}, slices.Repeat([]string{"{}"}, rows)...)
	seg, nonce, all := ledgertest.Begin(t, l, "a", 250)
	for ended := 0; ; seg, nonce, all = ledgertest.Begin(t, l, "a", min(250, rows-ended)) {
		var ends []ledger.RowEnd
		for _, row := range all {
			ends = append(ends, ledger.RowEnd{Row: row, Ending: resultOf(t, int(row), every, mistakes)})
		}
		if _, err := l.End(t.Context(), seg, nonce, ends...); err != nil {
			t.Fatal(err)
		}
		if ended += len(all); ended == rows {
			break
		}
	}
	got, err := status.FailedByReason(t.Context(), rdb, l, ledgertest.Find(t, l, ledger.RunID("a")))
	if err != nil {
		t.Fatal(err)
	}
	if got.Partial() || got.Read != rows/every {
		t.Errorf("%d of %d failed rows were read, want %d", got.Read, got.Failed, rows/every)
	}
	var out strings.Builder
	if err := terminal.WriteFailedReasons(&out, got); err != nil {
		t.Fatal(err)
	}
	const want = `
its failed rows by reason:
  100 rows: expired (quoted): The value at … has quotation marks in it ("…").
  25 rows: expired (at_domain): The value at … has quotation marks in it ("…").
  25 rows: expired (at_www): The value at … has quotation marks in it ("…").
  25 rows: expired (cname): The value at … has quotation marks in it ("…").
  25 rows: expired (cut): The value at … has quotation marks in it ("…").
  25 rows: expired (domain_appended): The value at … has quotation marks in it ("…").
  25 rows: expired (padded): The value at … has quotation marks in it ("…").
  25 rows: expired: the zone gave no answer
  25 rows: refused: PATCH …: 404 Not Found
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// resultOf returns the result of a row: of those that have failed, 100 have the first mistake, 25
// each other one, 25 none, and 25 were refused.
func resultOf(t *testing.T, row, every int, mistakes []report.Mistake) ledger.Result {
	t.Helper()
	if row%every != 0 {
		return ledger.Result{Outcome: ledger.Done, Evidence: []byte("proof")}
	}
	number := row / every
	kind := max(0, number/25-3)
	switch {
	case kind == len(mistakes):
		return ledger.Result{Outcome: "expired", Detail: "the zone gave no answer"}
	case kind > len(mistakes):
		return ledger.Result{Outcome: "refused", Detail: fmt.Sprintf("PATCH /organizations/o%d/discovery-domains/d: 404 Not Found", row)}
	}
	evidence, err := evidence.Evidence{
		Evidence:  report.Evidence{State: "absent"},
		Record:    &evidence.Record{Domain: "a.example", Host: "_t.a.example", TXT: "v"},
		Diagnosis: report.Diagnosis{Findings: []report.Finding{{Mistake: mistakes[kind], Host: "_t.a.example"}}},
	}.Pack()
	if err != nil {
		t.Fatal(err)
	}
	detail := fmt.Sprintf("The value at _t.d%d.example has quotation marks in it (\"v%d\").", row, row)
	return ledger.Result{Outcome: "expired", Detail: detail, Evidence: evidence}
}

// TestFirstFailedByReason: of more failed rows than are read the counts are those of the first.
func TestFirstFailedByReason(t *testing.T) {
	f := &status.FailedReasons{Read: 10, Failed: 12, Reasons: []status.FailedReason{{Rows: 10, Outcome: "refused"}}}
	var out strings.Builder
	if err := terminal.WriteFailedReasons(&out, f); err != nil {
		t.Fatal(err)
	}
	if want := "\nits failed rows by reason (the first 10 of 12):\n  10 rows: refused\n"; out.String() != want {
		t.Errorf("%q, want %q", &out, want)
	}
}

// TestFailedByReasonOfRevoked checks that a sweep's lost domains that are revoked by now are
// counted apart and last, though they are more, with the undo.
func TestFailedByReasonOfRevoked(t *testing.T) {
	rdb := redistest.New(t)
	l := ledger.New(rdb)
	at := time.Unix(1_900_000_000, 0).UTC()
	var rows []string
	for i := range 3 {
		id := fmt.Sprintf("ord_%d", i)
		rows = append(rows, fmt.Sprintf(`{"organization_id":"org_1","discovery_domain_id":%q,"tick":1}`, id))
		state := sweep.DomainState{V: 1, OrganizationID: "org_1"}
		if i > 0 {
			state.Revoked = &sweep.Revocation{Set: sweep.SetPending, Run: "revocation", At: at, DoneAt: at}
		}
		value, err := json.Marshal(state)
		if err != nil {
			t.Fatal(err)
		}
		_, err = sweep.NewStore(rdb, "default").SetDomain(t.Context(), sweep.DomainWrite{ID: id, Value: value})
		if err != nil {
			t.Fatal(err)
		}
	}
	ledgertest.Submit(t, l, ledger.NewRun{ID: "a", Kind: tasks.TypeRecheck}, rows...)
	seg, nonce, all := ledgertest.Begin(t, l, "a", 3)
	var ends []ledger.RowEnd
	for _, row := range all {
		ends = append(ends, ledger.RowEnd{Row: row, Ending: ledger.Result{Outcome: ledger.Lost, Detail: "gone"}})
	}
	if _, err := l.End(t.Context(), seg, nonce, ends...); err != nil {
		t.Fatal(err)
	}

	got, err := status.FailedByReason(t.Context(), rdb, l, ledgertest.Find(t, l, "a"))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := terminal.WriteFailedReasons(&out, got); err != nil {
		t.Fatal(err)
	}
	const want = `
its failed rows by reason:
  1 row: lost: gone
  2 rows: lost (revoked since by run revocation): gone

2 lost domains revoked since by run revocation; to undo that: enqueue domains revoke --undo revocation --tenant default (`
	if !strings.HasPrefix(out.String(), want) {
		t.Errorf("%s", out.String())
	}
}
