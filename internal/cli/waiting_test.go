package cli_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/cli"
	"orgops/internal/redistest"
	"orgops/internal/runs"
)

func TestWaiting(t *testing.T) {
	ledger := runs.New(redistest.New(t))
	if _, _, err := ledger.Create(t.Context(), runs.Run{ID: "a", Kind: "domain:verify", Tenant: "default"}); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	item := int64(0)
	note := func(n int, reason string, next time.Time) {
		for i := range n {
			text := reason
			if strings.Contains(reason, "%") {
				text = fmt.Sprintf(reason, i)
			}
			if err := ledger.Note(t.Context(), "a", 0, []int64{item}, text, next); err != nil {
				t.Fatal(err)
			}
			if !next.IsZero() {
				next = next.Add(time.Second)
			}
			item++
		}
	}
	note(4, `not_yet: There is no TXT record at _ss-verification.org_%d.example: the name does not exist.`, at)
	note(3, `not_yet: The TXT record at _ss.org_A%d.example holds another value than the expected one: "v=spf1 \"-all" (and 1 more).`, at.Add(time.Minute))
	note(2, `blocked: PATCH /organizations/o%d/discovery-domains/d: 403 Forbidden: Insufficient scope`, time.Time{})
	note(1, "paced: one", at.Add(-time.Second))
	note(1, "paced: two", at)
	note(1, "transient: three", at)
	note(1, "transient: zero", at)
	if err := ledger.StoreRows(t.Context(), "a", 0, slices.Repeat([][]byte{[]byte("{}")}, int(item+5))); err != nil {
		t.Fatal(err)
	}
	if err := ledger.Seal(t.Context(), "a", item+5); err != nil {
		t.Fatal(err)
	}
	run, err := ledger.Get(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	w, err := cli.WaitingOf(t.Context(), ledger, run, cli.WaitingSample)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := w.Write(&out); err != nil {
		t.Fatal(err)
	}
	const text = `
its open rows wait for:
  4 rows: not_yet: There is no TXT record at …: the name does not exist. (next check 2031-02-03T04:05:06Z)
  3 rows: not_yet: The TXT record at … holds another value than the expected one. (next check 2031-02-03T04:06:06Z)
  2 rows: blocked: PATCH …: 403 Forbidden: Insufficient scope
  1 row: paced: one (next check 2031-02-03T04:05:05Z)
  1 row: paced: two (next check 2031-02-03T04:05:06Z)
  2 rows: other reasons
  5 rows: a worker
`
	if diff := cmp.Diff(text, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestWaitingOfASample: what is told of many rows is an estimate, and says so.
func TestWaitingOfASample(t *testing.T) {
	w := cli.Waiting{
		Looked: 100, Noted: 1000, Unnoted: 7, Further: 1,
		Reasons: []cli.WaitingFor{{Reason: "not_yet: There is no TXT record at ….", Rows: 99}},
	}
	var out strings.Builder
	if err := w.Write(&out); err != nil {
		t.Fatal(err)
	}
	const want = "\nits open rows wait for (estimated from 100 of 1000):\n  about 990 rows: not_yet: There is no TXT record at ….\n  about 10 rows: other reasons\n  7 rows: a worker\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
