package terminal_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
	"orgops/internal/terminal"
)

// down fails the first commands, as a Redis that is being restarted does.
type down struct{ left int }

func (d *down) DialHook(next redis.DialHook) redis.DialHook { return next }

func (d *down) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if d.left > 0 {
			d.left--
			return errors.New("connection refused")
		}
		return next(ctx, cmd)
	}
}

func (d *down) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestFollowDuringARestart(t *testing.T) {
	rdb := redistest.New(t)
	ledgertest.Submit(t, ledger.New(rdb), ledger.NewRun{ID: "a", Kind: "clients:remove"})
	trouble := &down{left: 2}
	rdb.AddHook(trouble)
	all, err := terminal.Follow(t.Context(), rdb, "", []string{"a"}, io.Discard, false)
	if err != nil || len(all) != 1 || !all[0].Ended() || trouble.left != 0 {
		t.Errorf("got %v, %v with %d failures to come; want the run ended", all, err, trouble.left)
	}
	if _, err := terminal.Follow(t.Context(), rdb, "", []string{"never-was"}, io.Discard,
		false); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("a run that there is not: %v", err)
	}
}

// TestFollowAmbiguous checks that an id of several tenants is an error at the first read: it is no
// failure of Redis, which following waits out.
func TestFollowAmbiguous(t *testing.T) {
	rdb := redistest.New(t)
	for _, tenant := range []ledger.Tenant{"acme", "default"} {
		ledgertest.Submit(t, ledger.New(rdb), ledger.NewRun{Tenant: tenant, ID: "a", Kind: "clients:remove"})
	}
	var reads redistest.RoundTrips
	rdb.AddHook(reads.Hook())
	_, err := terminal.Follow(t.Context(), rdb, "", []string{"a"}, io.Discard, false)
	if _, ok := errors.AsType[*ledger.AmbiguousError](err); !ok {
		t.Errorf("%v, want an AmbiguousError", err)
	}
	if reads.Load() > 5 {
		t.Errorf("%d round trips, want those of one read", reads.Load())
	}
}

// TestLineBelowABar: it never breaks in two, since it is drawn over.
func TestLineBelowABar(t *testing.T) {
	for width, want := range map[int]string{80: "  paused; wait\n", 14: "  paused; wa…\n", 1: "…\n", 0: "…\n"} {
		var out strings.Builder
		if err := terminal.WriteBelow(&out, "paused; wait", width); err != nil || out.String() != want {
			t.Errorf("%d: %q, %v, want %q", width, out.String(), err, want)
		}
	}
}
