package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"orgops/internal/engine"
	"orgops/internal/enginetest"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// jumped is a ledger on a Redis whose clock is three days ahead until a time.
type jumped struct {
	engine.Ledger

	t     *testing.T
	until time.Time
}

func (l jumped) Begin(ctx context.Context, seg ledger.Segment, e ledger.Execution,
	rows ...ledger.Row) (ledger.Begun, error) {
	b, err := l.Ledger.Begin(ctx, seg, e, rows...)
	if time.Now().Before(l.until) {
		b.Now = b.Now.Add(72 * time.Hour)
	}
	return b, err
}

// End checks that rows wait by this machine's time.
func (l jumped) End(ctx context.Context, seg ledger.Segment, n ledger.Nonce,
	ends ...ledger.RowEnd) (ledger.Receipt, error) {
	for _, end := range ends {
		if ahead := time.Until(end.Now); ahead > time.Minute || ahead < -time.Minute {
			l.t.Errorf("the end of row %d is said to be %s from now", end.Row, ahead)
		}
	}
	return l.Ledger.End(ctx, seg, n, ends...)
}

// TestNothingExpiresByAJumpOfTheClock: a handler that decides by Redis' time whether a row has
// expired is called once Redis' clock is right again, or else not at all: the row waits, and no
// attempt is counted.
func TestNothingExpiresByAJumpOfTheClock(t *testing.T) {
	for name, c := range map[string]struct {
		lasts time.Duration
		want  ledger.Phase
	}{
		"for three seconds": {3 * time.Second, ledger.PhaseSettled},
		"for hours":         {5 * time.Hour, ledger.PhaseWaiting},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.InBubble(t, func(t *testing.T, _ *redistest.Outside) {
				s := enginetest.New(t)
				until := time.Now().Add(c.lasts)
				e, _ := s.Worker(handler(func(_ context.Context, x *engine.Execution, _ *engine.Row) *engine.Consequence {
					if x.Now().Sub(x.Submitted) > 24*time.Hour {
						return engine.Expire("its time is up", nil)
					}
					return engine.Settle(ledger.Result{})
				}), func(cfg *engine.Config) {
					cfg.Ledger, cfg.ClocksDiffer = jumped{cfg.Ledger, t, until}, 10*time.Second
				})
				s.Submit("test", `{}`)
				_ = e.ProcessTask(t.Context(), s.NextTask())
				row := s.Row(0)
				if row.Phase != c.want || row.Result.Outcome == ledger.Expired || row.Checkpoint.Attempts > 0 {
					t.Errorf("the row is %s, %+v, with %d attempts; want it %s", row.Phase, row.Result, row.Checkpoint.Attempts,
						c.want)
				}
				note := ledger.ParseNote(row.Checkpoint.Memo).Reason
				if c.want == ledger.PhaseWaiting && !strings.Contains(note, "redis' clock differs by 72h") {
					t.Errorf("the reason of the row is %q", note)
				}
			})
		})
	}
}
