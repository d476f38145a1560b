package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"orgops/internal/ledger"
	"orgops/internal/status"
)

// Intervals of showing progress.
const (
	barEvery  = 200 * time.Millisecond
	lineEvery = 5 * time.Second
	// estimateEvery is the interval of estimates, which read more than the run.
	estimateEvery = 2 * time.Second
	// mostMissed is how many reads in a row may fail before following ends: a minute or
	// more, with the time that each takes.
	mostMissed = 300
)

// Follow shows progress, time left and obstacles of the runs of a tenant, or of any, until all
// have ended, or ctx is done: live bars on a terminal, else a line every five seconds.
func Follow(ctx context.Context, rdb redis.Cmdable, t ledger.Tenant, ids []string, out io.Writer,
	terminal bool) ([]ledger.Run, error) {
	l := ledger.New(rdb)
	estimator := status.NewEstimator(rdb)
	show := lines(out)
	if terminal {
		b := newBars(ctx, out)
		defer b.end()
		show = b.show
	}
	tick := time.NewTicker(barEvery)
	defer tick.Stop()
	missed := 0
	at := time.Time{}
	ahead := []status.Estimate(nil)
	for {
		// The runs, and every two seconds what is to come.
		all, err := read(ctx, l, t, ids)
		_, ambiguous := errors.AsType[*ledger.AmbiguousError](err)
		switch {
		case ambiguous, errors.Is(err, ledger.ErrNotFound):
			return nil, err
		case err == nil:
			missed = 0
			if now := time.Now(); now.Sub(at) >= estimateEvery {
				at = now
				ahead = estimator.Estimate(ctx, now, all)
			}
			for i, r := range all {
				if r.Ended() {
					ahead[i] = status.Estimate{}
				}
			}
			show(all, ahead)
		default: // a Redis that restarts is back soon
			if missed++; missed == mostMissed {
				return nil, err
			}
		}
		// Until all have ended.
		if err == nil && !slices.ContainsFunc(all, func(r ledger.Run) bool { return !r.Ended() }) {
			return all, nil
		}
		select {
		case <-ctx.Done():
			return all, ctx.Err()
		case <-tick.C:
		}
	}
}

func read(ctx context.Context, l *ledger.Ledger, t ledger.Tenant, ids []string) ([]ledger.Run, error) {
	all := make([]ledger.Run, len(ids))
	for i, id := range ids {
		r, err := l.Get(ctx, t, ledger.RunID(id))
		if err != nil {
			return nil, err
		}
		all[i] = r
	}
	return all, nil
}

// lines shows progress as lines; a run that has ended has one more.
func lines(out io.Writer) func([]ledger.Run, []status.Estimate) {
	last := time.Time{}
	ended := map[ledger.Incarnation]bool{}
	return func(all []ledger.Run, ahead []status.Estimate) {
		if time.Since(last) < lineEvery {
			return
		}
		last = time.Now()
		for i, r := range all {
			if !ended[r.Incarnation] {
				progress := fmt.Sprintf("run %s: %d of %s rows, %s", r.ID, r.Settled(), status.Total(r), status.Counts(r))
				fmt.Fprintln(out, status.Joined(progress, ahead[i].Figures(), ahead[i].Waits()))
			}
			ended[r.Incarnation] = r.Ended()
		}
	}
}

// bars shows a live bar per run.
type bars struct {
	progress *mpb.Progress
	bars     map[ledger.Incarnation]*bar
}

type bar struct {
	*mpb.Bar
	text atomic.Pointer[barText]
}

// barText is the text right of a bar, and in a line of its own below it.
type barText struct{ right, below string }

func newBars(ctx context.Context, out io.Writer) *bars {
	return &bars{progress: mpb.NewWithContext(ctx, mpb.WithOutput(out), mpb.WithWidth(40), mpb.WithRefreshRate(barEvery)),
		bars: map[ledger.Incarnation]*bar{}}
}

func (b *bars) show(all []ledger.Run, ahead []status.Estimate) {
	for i, r := range all {
		one, ok := b.bars[r.Incarnation]
		if !ok {
			one = b.add(r)
		}
		one.text.Store(&barText{right: status.Joined(status.Counts(r), ahead[i].Figures()), below: ahead[i].Waits()})
		one.SetTotal(max(r.Total(), 1), false)
		one.SetCurrent(r.Settled())
		if r.Ended() {
			one.SetTotal(r.Total(), true)
		}
	}
}

func (b *bars) add(r ledger.Run) *bar {
	one := &bar{}
	one.text.Store(&barText{})
	one.Bar = b.progress.AddBar(r.Total(),
		mpb.PrependDecorators(decor.Name(string(r.Kind), decor.WCSyncSpaceR),
			decor.CountersNoUnit("%d/%d", decor.WCSyncSpace)),
		mpb.AppendDecorators(decor.Percentage(decor.WCSyncSpace), decor.Any(func(decor.Statistics) string {
			return "  " + one.text.Load().right
		})),
		mpb.BarExtender(mpb.BarFillerFunc(func(w io.Writer, s decor.Statistics) error {
			return writeBelow(w, one.text.Load().below, s.AvailableWidth)
		}), false),
	)
	b.bars[r.Incarnation] = one
	return one
}

// writeBelow writes a line, cut to the width of the terminal: a line that wrapped would not
// be drawn over later.
func writeBelow(w io.Writer, text string, width int) error {
	if text == "" {
		return nil
	}
	runes := []rune("  " + text)
	if most := max(width-1, 1); len(runes) > most {
		runes = append(runes[:most-1], '…')
	}
	_, err := io.WriteString(w, string(runes)+"\n")
	return err
}

// end leaves the bars as they are, those of open runs too.
func (b *bars) end() {
	for _, one := range b.bars {
		one.Abort(false)
	}
	b.progress.Wait()
}
