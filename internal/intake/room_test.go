package intake_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/tasks"
)

// memory are amounts of a Redis.
type memory struct{ used, most int64 }

// limited submits to the test's Redis, whose INFO has the amounts.
func (m memory) limited(t *testing.T) intake.Intake {
	rdb := redistest.New(t)
	rdb.AddHook(redistest.Around(func(_ context.Context, run func() error, cmds ...redis.Cmder) error {
		if info, ok := cmds[0].(*redis.StringCmd); ok && info.Name() == "info" {
			info.SetVal(fmt.Sprintf("# Memory\r\nused_memory:%d\r\nmaxmemory:%d\r\n", m.used, m.most))
			return nil
		}
		return run()
	}))
	return intake.New(rdb, ledger.New(rdb))
}

// removals are rows of so many clients, from a number on.
func removals(first, n int) string {
	var b strings.Builder
	b.WriteString("organization_id,client_id\n")
	for i := range n {
		fmt.Fprintf(&b, "o,c%d\n", first+i)
	}
	return b.String()
}

// TestSubmitNeedsFreeMemory submits rows to a Redis that has room for 16,000 waiting rows, at 625
// bytes each.
func TestSubmitNeedsFreeMemory(t *testing.T) {
	redistest.Single(t, "of a Cluster each node is asked for its memory")
	const mb = 1_000_000
	for _, tt := range []struct {
		name   string
		memory memory
		others int // rows of another open run
		rows   int
		refuse string
	}{
		{"no limit", memory{used: 90 * mb}, 0, 30_000, ""},
		{"they fit", memory{used: 90 * mb, most: 100 * mb}, 0, 16_000, ""},
		{"one too many", memory{used: 90 * mb, most: 100 * mb}, 0, 16_001,
			"16001 rows may take 11 MB of Redis' memory while they wait, and 10 MB of 100 MB are left for them"},
		{"a few", memory{used: 99 * mb, most: 100 * mb}, 0, 1600, ""},
		{"too many of a few", memory{used: 99 * mb, most: 100 * mb}, 0, 1601, "1601 rows may take 2 MB"},
		{"together with the reserve of others", memory{used: 1 * mb, most: 20 * mb}, 16_000, 16_000, ""},
		{"too many together with the reserve of others", memory{used: 1 * mb, most: 20 * mb}, 16_000, 16_001,
			"raise maxmemory by 1 MB, submit the rows in parts one after the other, or delete runs"},
		{"more is used already", memory{used: 30 * mb, most: 20 * mb}, 0, 1,
			"1 rows may take 1 MB of Redis' memory while they wait, and 0 MB of 20 MB are left"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := taker(t)
			if tt.others > 0 {
				if _, err := i.Submit(t.Context(), input(t, tasks.TypeRemove, removals(0, tt.others), tasks.Defaults{}),
					ledger.NewRun{ID: "other", Tenant: "other"}); err != nil {
					t.Fatal(err)
				}
			}
			in := input(t, tasks.TypeRemove, removals(0, tt.rows), tasks.Defaults{})
			_, err := tt.memory.limited(t).Submit(t.Context(), in, runA)
			run, failed := i.Ledger.Get(t.Context(), "", "a")
			if tt.refuse == "" {
				if err != nil || failed != nil || run.Total() != int64(tt.rows) {
					t.Errorf("%v; run %+v, %v", err, run, failed)
				}
				return
			}
			room, ok := errors.AsType[*intake.RoomError](err)
			if !ok || room.Rows != int64(tt.rows) || !strings.Contains(err.Error(), tt.refuse) {
				t.Errorf("%v, want %q", err, tt.refuse)
			}
			if !errors.Is(failed, ledger.ErrNotFound) {
				t.Errorf("run %+v, %v: want none", run, failed)
			}
		})
	}
}

// TestRepeatedSubmitNeedsNoMemory submits rows again whose run is committed: no more memory is
// needed.
func TestRepeatedSubmitNeedsNoMemory(t *testing.T) {
	redistest.Single(t, "of a Cluster each node is asked for its memory")
	text := removals(0, 10_000)
	if _, err := taker(t).Submit(t.Context(), input(t, tasks.TypeRemove, text, tasks.Defaults{}), runA); err != nil {
		t.Fatal(err)
	}
	sum, err := memory{used: 10, most: 10}.limited(t).Submit(t.Context(),
		input(t, tasks.TypeRemove, text, tasks.Defaults{}), runA)
	if err != nil || sum.Created || sum.Rows != 10_000 {
		t.Errorf("%+v, %v", sum, err)
	}
}
