package engine

import (
	"context"
	"fmt"
	"time"

	"orgops/internal/ledger"
)

// newExecutions returns an execution of each part of the task, before its begin.
func (e *Engine) newExecutions(task Task) (all []*Execution) {
	for _, p := range task.parts() {
		all = append(all, &Execution{
			task: task.ID(), Run: p.Run, Segment: p.segment(), Kind: task.Kind, Submitted: time.UnixMilli(p.Submitted),
			GiveUp: time.Duration(p.GiveUp) * time.Millisecond, Max: p.Max, engine: e, ledger: e.cfg.Ledger,
			all: p.numbers(), answers: Answers{},
			identity: ledger.Execution{Token: p.Token, Nonce: ledger.NewNonce(), Session: e.cfg.Session},
		})
	}
	return all
}

// begin exchanges the token of the part's rows for the execution's nonce. x.Rows has those
// to which the execution was admitted.
func (e *Engine) begin(ctx context.Context, x *Execution, p Part) error {
	var begun ledger.Begun
	var differs time.Duration
	first := e.cfg.Now()
	err := e.persist(ctx, "begin", func(ctx context.Context) (err error) {
		x.answered = e.cfg.Now()
		begun, err = x.ledger.Begin(ctx, x.Segment, x.identity, x.all...)
		if err == nil {
			// The execution goes by Redis' time, and an expiry cannot be taken back. A jump of the clock may
			// last for seconds, after which the same begin is answered by the right time.
			differs = e.clockDiffers(begun.Now, x.answered)
			if differs != 0 && x.answered.Sub(first) < clockPatience {
				return fmt.Errorf("redis' clock differs by %s from this machine's", differs.Round(time.Second))
			}
		}
		if redisRefuses(err) {
			// Surely not in progress: the release lapses. The wait keeps this place from
			// taking the next task at once.
			_ = Sleep(ctx, redisPause)
			return &endedError{err}
		}
		return err
	})
	if err != nil {
		e.cfg.Logger.WarnContext(ctx, "rows not begun", "run", x.Run, "segment", x.Segment.Number, "error", err)
		return err
	}
	x.begun = begun.Now
	x.started = x.answered
	x.clock = differs
	x.learn(begun.Receipt)
	for i, b := range begun.Rows {
		if b.Status == ledger.RowAdmitted {
			x.Rows = append(x.Rows, newRow(b, p.Rows[i].Content))
		}
	}
	if len(x.Rows) == 0 {
		e.cfg.Logger.DebugContext(ctx, "task without work", "run", x.Run, "segment", x.Segment.Number,
			"status", begun.Rows[0].Status)
	}
	return nil
}

const (
	// clockPatience is how long an execution waits for a jump of Redis' clock to end, before it gives
	// its rows back.
	clockPatience = time.Minute
	// clockAgain is when they are due again.
	clockAgain = 30 * time.Second
)

// clockDiffers returns by how much Redis' time, as it was some time after asked, differs from this
// machine's; 0: not by more than is tolerated.
func (e *Engine) clockDiffers(redis, asked time.Time) time.Duration {
	ahead := redis.Sub(asked)
	took := e.cfg.Now().Sub(asked)
	most := e.cfg.ClocksDiffer
	if most > 0 && (ahead < -most || ahead-took > most) {
		return ahead
	}
	return 0
}

func newRow(b ledger.BegunRow, content []byte) *Row {
	return &Row{
		Number: b.Row, Content: content,
		Stage: b.Checkpoint.Stage, Attempts: b.Checkpoint.Attempts, Died: b.Checkpoint.Died,
		FirstBegun: b.Checkpoint.FirstBegun,
		Note:       ledger.ParseNote(b.Checkpoint.Memo), Intent: b.Intent, Intended: b.Intent != nil, damage: b.Err,
	}
}
