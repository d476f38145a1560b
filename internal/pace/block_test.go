package pace_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/pace"
)

// TestBlockOutlastsPauseAndStop: while no probe may be sent a block does not expire. If it did,
// people would be told that nothing is blocked, and afterwards each row would find that out
// again.
func TestBlockOutlastsPauseAndStop(t *testing.T) {
	for _, tt := range []struct {
		name  string
		begin func(t *testing.T, c *clocked, l *pace.Limiter)
		end   func(t *testing.T, c *clocked, l *pace.Limiter)
	}{
		{"tenant paused", func(t *testing.T, _ *clocked, l *pace.Limiter) {
			l.Answered(t.Context(), "list", http.StatusTooManyRequests, nil, 600*time.Second)
		}, func(*testing.T, *clocked, *pace.Limiter) {}},
		{"tenant stopped", func(_ *testing.T, c *clocked, _ *pace.Limiter) {
			c.redis.HSet(paceKey, "stopped", `1:{"by":"ada"}`)
		}, func(t *testing.T, _ *clocked, l *pace.Limiter) {
			if _, err := l.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			c := newClocked(t, pace.Limit{Rate: pace.Rate{Count: 10, Per: time.Second}, Burst: 10})
			var changes []string
			l := c.process(func(cfg *pace.Config) {
				cfg.Changed = func(_ context.Context, how, what string) { changes = append(changes, how+" "+what) }
			})
			if err := l.Block(t.Context(), "remove", "403 Insufficient scope", "fix it"); err != nil {
				t.Fatal(err)
			}
			tt.begin(t, c, l)
			c.pass(10*time.Minute + time.Second)
			tt.end(t, c, l)
			if s, err := l.State(t.Context()); err != nil || len(s.Blocks) != 1 {
				t.Errorf("blocks %+v, want one: %v", s.Blocks, err)
			}
			c.ask(l, pace.Finish, "list") // the first permit after the pause
			c.pass(30 * time.Second)
			granted := 0
			for range 8 {
				if c.ask(l, pace.Finish, "remove") == 0 {
					granted++
				}
				c.pass(time.Second)
			}
			if granted != 1 {
				t.Errorf("%d requests of the blocked operation got permits, want one, as a probe", granted)
			}
			if diff := cmp.Diff([]string{"blocked remove: 403 Insufficient scope"}, changes); diff != "" {
				t.Error(diff)
			}
			c.pass(10 * time.Minute)
			if s, err := l.State(t.Context()); err != nil || len(s.Blocks) != 0 {
				t.Errorf("blocks %+v although nobody has probed for minutes: %v", s.Blocks, err)
			}

			// Its end is reported once, and one that has not expired stays.
			if err := l.Block(t.Context(), "read", "403", ""); err != nil {
				t.Fatal(err)
			}
			changes = nil
			for range 2 {
				if err := l.Expire(t.Context()); err != nil {
					t.Error(err)
				}
			}
			want := []string{"unblocked remove: no row needs it any more, so nothing tests it"}
			if diff := cmp.Diff(want, changes); diff != "" {
				t.Error(diff)
			}
			if s, err := l.State(t.Context()); err != nil || len(s.Blocks) != 1 || s.Blocks[0].Operation != "read" {
				t.Errorf("blocks %+v, %v; want that of read", s.Blocks, err)
			}
		})
	}
}

// TestStartTriesABlockedOperation: after a person has corrected the cause of a block, they need not
// wait for the next probe, which may be due in five minutes. One request tries, and no more.
func TestStartTriesABlockedOperation(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		c := newClocked(t, pace.Limit{Rate: pace.Rate{Count: 10, Per: time.Second}, Burst: 10})
		l := c.process()
		person := c.process()
		if ended, err := person.Start(t.Context()); err != nil || ended.Blocked {
			t.Errorf("nothing is blocked: %+v, %v", ended, err)
		}
		if err := l.Block(t.Context(), "remove", "403 Insufficient scope", "grant it"); err != nil {
			t.Fatal(err)
		}
		c.pass(time.Second)
		if c.ask(l, pace.Finish, "remove") == 0 {
			t.Error("a request got a permit before a probe is due")
		}
		if ended, err := person.Start(t.Context()); err != nil || !ended.Blocked || ended.Paused || ended.Stop != nil {
			t.Errorf("start ended %+v, %v; want a block that is tried", ended, err)
		}
		if wait := c.ask(l, pace.Finish, "remove"); wait != 0 {
			t.Errorf("the probe has to wait for %s", wait)
		}
		if c.ask(l, pace.Finish, "remove") == 0 {
			t.Error("a second request got a permit before the first was answered")
		}
		if s, err := l.State(t.Context()); err != nil || len(s.Blocks) != 1 || s.Blocks[0].Fix != "grant it" {
			t.Errorf("%+v, %v; want the block, until an answer proves that it is gone", s.Blocks, err)
		}
		l.Answered(t.Context(), "remove", http.StatusNoContent, nil, 0)
		if s, err := l.State(t.Context()); err != nil || len(s.Blocks) != 0 {
			t.Errorf("%+v, %v; want no block", s.Blocks, err)
		}
	})
}
