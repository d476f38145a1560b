package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"orgops/internal/engine"
	"orgops/internal/enginetest"
	"orgops/internal/ledger"
	"orgops/internal/logtest"
	"orgops/internal/redistest"
)

// lostAnswers is a ledger whose first answer to Begin, and whose first ones to End, are lost.
type lostAnswers struct {
	engine.Ledger
	begun, left *atomic.Int64
}

func (l lostAnswers) Begin(ctx context.Context, seg ledger.Segment, e ledger.Execution,
	rows ...ledger.Row) (ledger.Begun, error) {
	b, err := l.Ledger.Begin(ctx, seg, e, rows...)
	if err == nil && l.begun.Add(1) == 1 {
		return ledger.Begun{}, errors.New("the answer was lost")
	}
	return b, err
}

func (l lostAnswers) End(ctx context.Context, seg ledger.Segment, n ledger.Nonce,
	ends ...ledger.RowEnd) (ledger.Receipt, error) {
	r, err := l.Ledger.End(ctx, seg, n, ends...)
	if err == nil && l.left.Add(-1) >= 0 {
		return ledger.Receipt{}, errors.New("the answer was lost")
	}
	return r, err
}

// TestEndIsCountedOnce loses the answers to the writes that begin and end an execution, which are
// repeated: metrics and log have the end once, and as the ledger does.
func TestEndIsCountedOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		answer *engine.Consequence
		// during happens while the handler executes the row; nil: nothing does.
		during func(context.Context, *site, *engine.Engine) error
		want   ledger.Outcome
		open   bool // in the ledger
	}{
		{"done", engine.Settle(ledger.Result{}), nil, ledger.Done, false},
		{"refused", engine.Fail(engine.Refuse("no")), nil, ledger.Refused, false},
		{"given up", engine.Fail(errors.New("500 Internal Server Error")), nil, ledger.Failed, false},
		{"waits", engine.NotYet("not there", time.Minute), nil, ledger.NotYetFound, true},
		{"given back", engine.Fail(engine.ErrStopping), nil, ledger.Stopping, true},
		{"waits in a cancelled run", engine.NotYet("not there", time.Minute), cancelRun, ledger.Cancelled, false},
		{"done after its worker has given it back", engine.Settle(ledger.Result{}), giveBackAll, ledger.Superseded, true},
		{"waits after its worker has given it back", engine.NotYet("not there", 0), giveBackAll, ledger.Superseded, true},
	} {
		for lost := range int64(3) {
			t.Run(fmt.Sprintf("%s, %d answers are lost", c.name, lost), func(t *testing.T) {
				redistest.InBubble(t, func(t *testing.T, _ *redistest.Outside) {
					s, log, left := enginetest.New(t), &logtest.Buffer{}, &atomic.Int64{}
					var counted []ledger.Outcome
					var e *engine.Engine
					e, _ = s.Worker(handler(func(ctx context.Context, _ *engine.Execution, row *engine.Row) *engine.Consequence {
						if c.want == ledger.Failed { // it was the last attempt
							row.Attempts = engine.MaxAttempts - 1
						}
						if c.during != nil {
							if err := c.during(ctx, s, e); err != nil {
								return enginetest.End(err)
							}
						}
						left.Store(lost)
						return c.answer
					}), func(cfg *engine.Config) {
						cfg.Ledger = lostAnswers{cfg.Ledger, &atomic.Int64{}, left}
						cfg.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
						cfg.Observe = func(_ context.Context, _ ledger.Kind, o ledger.Outcome, n int, _ time.Duration) {
							for range n {
								counted = append(counted, o)
							}
						}
					})
					s.Submit("test", `{}`)
					_ = e.ProcessTask(t.Context(), s.NextTask())
					if len(counted) != 1 || counted[0] != c.want {
						t.Errorf("metrics have %v, want %s once", counted, c.want)
					}
					lines, outcome := strings.Count(log.String(), "msg=task "), "outcome="+string(c.want)
					if lines != 1 || !strings.Contains(log.String(), outcome) {
						t.Errorf("%d lines, want one with %s:\n%s", lines, outcome, log)
					}
					if strings.Contains(log.String(), "result not stored") {
						t.Errorf("the log says that a stored result is not:\n%s", log)
					}
					switch row := s.Row(0); {
					case c.open != (row.Phase == ledger.PhaseWaiting), !c.open && row.Result.Outcome != c.want,
						row.Checkpoint.Attempts > 0:
						t.Errorf("the ledger has %+v", row)
					}
				})
			})
		}
	}
}

func cancelRun(ctx context.Context, s *site, _ *engine.Engine) error {
	return s.Cancel(ctx, tenant, s.Run.ID)
}

func giveBackAll(ctx context.Context, _ *site, e *engine.Engine) error { return e.GiveBack(ctx) }
