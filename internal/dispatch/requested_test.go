package dispatch_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/release"
)

// TestRequestedChecksUseUpNoAttempts: the API answers 500 for some minutes, and a customer or the
// support requests "check now" each second. The row is not given up for that: attempts last three
// hours, as without requests.
func TestRequestedChecksUseUpNoAttempts(t *testing.T) {
	const kind ledger.Kind = "k"
	onSite(t, func(t *testing.T, s *site) {
		run := s.submit("a", kind, [][]byte{[]byte(`{"n":1}`)})
		s.start(func(o *options) {
			o.dispatch.Kinds = map[ledger.Kind]release.Kind{kind: {}}
			o.engine.Handlers = map[ledger.Kind]engine.Handler{
				kind: engine.One(func(context.Context, *engine.Execution, *engine.Row) *engine.Consequence {
					return engine.Fail(errors.New("500 Internal Server Error"))
				}),
			}
		})
		seg := ledger.Segment{Tenant: tenant, Run: run.ID, Incarnation: run.Incarnation}
		const seconds = 120
		for range seconds {
			time.Sleep(time.Second)
			if _, err := s.MakeDue(t.Context(), seg, 0, time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		rows, err := s.Rows(t.Context(), seg, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		// Backoffs of 1, 2, 4 s and so on, each a tenth shorter at most: eight attempts take 114 s.
		if rows[0].Phase == ledger.PhaseSettled || rows[0].Checkpoint.Attempts > 8 {
			t.Errorf("after %d s the row is %s with %d attempts: %s", seconds, rows[0].Phase, rows[0].Checkpoint.Attempts,
				rows[0].Result.Detail)
		}
	})
}
