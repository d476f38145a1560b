package dispatch_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/dispatch"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/tasks/handlers"
)

// slowly has a hook by which a Redis needs a time for each command, and executes one after
// the other.
type slowly struct {
	// turn has the one place of the command that is executed. A bubble's time would stop while
	// commands wait for a mutex.
	turn chan struct{}
	took time.Duration
}

func (s *slowly) execute(commands int) {
	s.turn <- struct{}{}
	time.Sleep(time.Duration(commands) * s.took)
	<-s.turn
}

func (s *slowly) hook() redistest.Around {
	return func(_ context.Context, run func() error, cmds ...redis.Cmder) error {
		s.execute(len(cmds))
		return run()
	}
}

// releases counts the rows that are released and have not begun.
type releases struct{ now, most atomic.Int64 }

type releasing struct {
	dispatch.Ledger
	*releases
}

func (r releasing) Release(ctx context.Context, seg ledger.Segment, q ledger.Quota) (ledger.Release, error) {
	released, err := r.Ledger.Release(ctx, seg, q)
	n := r.now.Add(int64(len(released.Rows)))
	for most := r.most.Load(); n > most && !r.most.CompareAndSwap(most, n); most = r.most.Load() {
	}
	return released, err
}

type beginning struct {
	engine.Ledger
	*releases
}

func (b beginning) Begin(ctx context.Context, seg ledger.Segment, e ledger.Execution,
	rows ...ledger.Row) (ledger.Begun, error) {
	begun, err := b.Ledger.Begin(ctx, seg, e, rows...)
	b.now.Add(-int64(len(rows)))
	return begun, err
}

// TestSlowRedis has 300 places and a slow Redis, with which as many tasks could not all
// begin before their releases lapse: fewer are released.
func TestSlowRedis(t *testing.T) {
	t.Parallel()
	onSite(t, func(t *testing.T, s *site) {
		s.submit("a", handlers.Update, s.domains(300))
		var counted releases
		s.start(func(o *options) {
			o.dispatch.Redis.AddHook((&slowly{turn: make(chan struct{}, 1), took: 15 * time.Millisecond}).hook())
			o.dispatch.Ledger, o.engine.Ledger = releasing{o.dispatch.Ledger, &counted}, beginning{o.engine.Ledger, &counted}
			o.places, o.dispatch.Places = 300, 300
		})
		s.await("100 domains", func() bool { return len(s.patches()) >= 100 })
		if n := counted.most.Load(); n > 64 {
			t.Errorf("%d rows were released that had not begun", n)
		}
	})
}
