package terminal_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
	"orgops/internal/status"
	"orgops/internal/terminal"
)

func TestWaiting(t *testing.T) {
	l := ledger.New(redistest.New(t))
	const noted, unnoted = 13, 5
	ledgertest.Submit(t, l, ledger.NewRun{ID: "a"}, slices.Repeat([]string{"{}"}, noted+unnoted)...)
	const at = time.Hour
	note := func(n int, reason string, next time.Duration) {
		for i := range n {
			text := reason
			if strings.Contains(reason, "%") {
				text = fmt.Sprintf(reason, i)
			}
			ledgertest.Wait(t, l, "a", text, next, 1)
			next += time.Second
		}
	}
	note(4, `not_yet: There is no TXT record at _ss-verification.org_%d.example: the name does not exist.`, at)
	note(3,
		`not_yet: The TXT record at _ss.org_A%d.example holds another value than the expected one: "v=spf1 \"-all" (and 1 more).`, at+time.Minute)
	note(2, `blocked: PATCH /organizations/o%d/discovery-domains/d: 403 Forbidden: Insufficient scope`, time.Minute)
	note(1, "paced: one", at-time.Second)
	note(1, "paced: two", at)
	note(1, "transient: three", at)
	note(1, "transient: zero", at)
	run, err := l.Get(t.Context(), "", "a")
	if err != nil {
		t.Fatal(err)
	}
	w, err := status.WaitingOf(t.Context(), l, run, status.WaitingSample)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := terminal.WriteWaiting(&out, w); err != nil {
		t.Fatal(err)
	}
	times := regexp.MustCompile(`next check [0-9TZ:-]+`)
	const text = `
its open rows wait for:
  4 rows: not_yet: There is no TXT record at …: the name does not exist. (next check TIME)
  3 rows: not_yet: The TXT record at … holds another value than the expected one. (next check TIME)
  2 rows: blocked: PATCH …: 403 Forbidden: Insufficient scope (next check TIME)
  1 row: paced: one (next check TIME)
  1 row: paced: two (next check TIME)
  2 rows: other reasons
  5 rows: their turn (a worker, or a permit of the tenant's rate)
`
	if diff := cmp.Diff(text, times.ReplaceAllString(out.String(), "next check TIME")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestWaitingOfASample: counts of many rows are estimated, and said to be.
func TestWaitingOfASample(t *testing.T) {
	w := &status.Waiting{
		Read: 100, WithReason: 1000, WithoutReason: 7, Further: 1,
		Reasons: []status.WaitingFor{{Reason: "not_yet: There is no TXT record at ….", Rows: 99}},
	}
	var out strings.Builder
	if err := terminal.WriteWaiting(&out, w); err != nil {
		t.Fatal(err)
	}
	const want = "\nits open rows wait for (estimated from 100 of 1000):\n  about 990 rows: not_yet: There is no TXT record at ….\n  about 10 rows: other reasons\n  7 rows: their turn (a worker, or a permit of the tenant's rate)\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
