package ledger

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"orgops/internal/redistest"
)

// arguments is a hook that records the largest number of arguments of a script.
type arguments struct{ most int }

func (a *arguments) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a *arguments) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") {
			a.most = max(a.most, len(cmd.Args()))
		}
		return next(ctx, cmd)
	}
}

func (a *arguments) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// TestCloseManySegments closes more segments than one script takes, with those that are
// closed already left out, and opens them again.
func TestCloseManySegments(t *testing.T) {
	rdb := redistest.New(t)
	a := &arguments{}
	rdb.AddHook(a)
	l := New(rdb)
	run, _, err := l.Create(t.Context(), NewRun{ID: "a", Tenant: "acme", Kind: "test"})
	if err != nil {
		t.Fatal(err)
	}
	err = rdb.HSet(t.Context(), headerKeys("a")[0], "committed_at", 1, "sealed", 1, "rows", MaxSegments,
		"segments", MaxSegments, "reserved", MaxSegments, "flags", cancelledFlag).Err()
	if err == nil {
		run, err = l.Get(t.Context(), "a")
	}
	if err != nil {
		t.Fatal(err)
	}
	lost := Progress{Run: run}
	for n := range MaxSegments {
		lost.Missing = append(lost.Missing, n)
	}
	if ended, err := l.conclude(t.Context(), lost, ""); err != nil || !ended {
		t.Errorf("ended %v, %v, want true", ended, err)
	}
	if a.most < scriptNumbers || a.most > scriptNumbers+20 {
		t.Errorf("close: %d arguments, want %d segments at a time", a.most, scriptNumbers)
	}
	bits, err := l.closedBits(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	a.most = 0
	if ended, err := l.conclude(t.Context(), lost, bits); err != nil || ended {
		t.Errorf("ended again %v, %v", ended, err)
	}
	if a.most > 20 {
		t.Errorf("close again: %d arguments, want no segment", a.most)
	}
	if err := l.reopenSegments(t.Context(), run, lost.Missing); err != nil {
		t.Fatal(err)
	}
	if a.most > scriptNumbers+20 {
		t.Errorf("reopen: %d arguments", a.most)
	}
	if run, err = l.Get(t.Context(), "a"); err != nil || run.Ended() {
		t.Errorf("run %+v, %v, want it open", run, err)
	}
}
