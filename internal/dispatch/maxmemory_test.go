package dispatch_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"orgops/internal/redistest"
	"orgops/tasks/handlers"
)

// TestAtMaxmemory has Redis refuse writes: the dispatcher tries once a second, and goes on
// when memory is there again.
func TestAtMaxmemory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client()
	s := newSiteOn(t, rdb)
	s.submit("a", handlers.Update, s.domains(100))
	d := s.dispatcher()
	round(t, d) // the scripts are there
	limit := func(bytes string) {
		t.Helper()
		if err := rdb.ConfigSet(t.Context(), "maxmemory", bytes).Err(); err != nil {
			t.Fatal(err)
		}
	}
	limit("1mb")
	if err := rdb.Del(t.Context(), "asynq:{"+queue+"}:pending").Err(); err != nil { // as if all had started
		t.Fatal(err)
	}
	stop := s.dispatch(d)
	begun, before := time.Now(), commands(t, rdb.Info(t.Context(), "stats").Val())
	time.Sleep(3 * time.Second)
	n := commands(t, rdb.Info(t.Context(), "stats").Val()) - before
	if took := time.Since(begun); float64(n) > 100*took.Seconds() { // those inside scripts included
		t.Errorf("%d commands in %v", n, took)
	}
	if n := s.pending(); n != 0 {
		t.Errorf("%d tasks were enqueued", n)
	}
	limit("0")
	s.await("rows are released", func() bool { return s.pending() > 0 }) // fewer than places after a slow round
	stop()
}

// commands returns the number of commands that Redis has processed.
func commands(t *testing.T, stats string) int {
	t.Helper()
	_, rest, _ := strings.Cut(stats, "total_commands_processed:")
	digits, _, _ := strings.Cut(rest, "\r\n")
	n, err := strconv.Atoi(digits)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
