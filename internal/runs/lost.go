package runs

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// OpenWindow is a part of a run: its rows from First up to Past, and those among
// them that are not settled, in their order.
type OpenWindow struct {
	First, Past int64
	Open        []int64
}

// OpenWindows returns the run's rows below past in windows of size, a multiple of
// 8 that divides 250,000, the last one shorter; those without an open row are left
// out. It reads a page of 250,000 rows at a time: what is settled meanwhile may
// still be among the open ones. Of a run of the core there are none: no task can be
// missing.
func (l *Ledger) OpenWindows(ctx context.Context, run string, past, size int64) iter.Seq2[OpenWindow, error] {
	const page = 250_000 / 8 // bytes
	return func(yield func(OpenWindow, error) bool) {
		if err := checkID(run); err != nil {
			yield(OpenWindow{}, err)
			return
		}
		if _, found, err := l.inCore(ctx, run); err != nil || found {
			if err != nil {
				yield(OpenWindow{}, err)
			}
			return
		}
		var settled []byte
		for first := int64(0); first < past; first += size {
			start := first / 8 / page * page
			if first == start*8 {
				var err error
				if settled, err = l.bits(ctx, run, "settled", start, page); err != nil {
					yield(OpenWindow{}, err)
					return
				}
			}
			w := OpenWindow{First: first, Past: min(first+size, past)}
			for item := w.First; item < w.Past; item++ {
				if !isSet(settled, item-start*8) {
					w.Open = append(w.Open, item)
				}
			}
			if len(w.Open) > 0 && !yield(w, nil) {
				return
			}
		}
	}
}

// Marked says of each of the rows whether it is settled, and what Looked keeps of it
// under that name, empty if nothing: in one step, or [ErrNotFound].
func (l *Ledger) Marked(ctx context.Context, run, name string, items []int64) (settled []bool, marks []string, err error) {
	if err := checkID(run); err != nil {
		return nil, nil, err
	}
	args, err := rowArgs(run, items, name)
	if err != nil {
		return nil, nil, fmt.Errorf("run %s: read intents: %w", run, err)
	}
	_, rest, err := l.do(ctx, markedScript, run, nil, args...)
	if err != nil {
		return nil, nil, fmt.Errorf("run %s: read intents: %w", run, err)
	}
	bits, _ := rest[0].(string)
	if len(bits) != len(items) {
		return nil, nil, fmt.Errorf("run %s: read intents: redis answered for %d of %d rows", run, len(bits), len(items))
	}
	settled, marks = make([]bool, len(items)), make([]string, len(items))
	for i := range items {
		settled[i] = bits[i] == '1'
	}
	kept, _ := rest[1].([]any)
	for i, mark := range kept {
		marks[i], _ = mark.(string)
	}
	return settled, marks, nil
}

// OutcomesOf returns the outcome of each of the rows as far as one is kept, as it
// is of all that are not plainly "done"; empty where none is.
func (l *Ledger) OutcomesOf(ctx context.Context, run string, items []int64) ([]string, error) {
	switch core, found, err := l.inCore(ctx, run); {
	case err != nil:
		return nil, err
	case found:
		return l.coreOutcomes(ctx, core, items)
	}
	outcomes := make([]string, 0, len(items))
	for page := range slices.Chunk(items, hashPage) {
		texts, err := l.fields(ctx, run, "fates", page)
		if err != nil {
			return nil, err
		}
		for _, text := range texts {
			kept, _ := text.(string)
			outcome, _, _ := strings.Cut(kept, ":")
			outcomes = append(outcomes, outcome)
		}
	}
	return outcomes, nil
}

// NoteLost says how many open rows of the run no task stands for, and whether none
// stands for its walk. Of a run that has ended or is paused it is not kept.
func (l *Ledger) NoteLost(ctx context.Context, run string, rows int64, walk bool) error {
	if err := checkID(run); err != nil {
		return err
	}
	switch _, found, err := l.inCore(ctx, run); {
	case err != nil:
		return err
	case found:
		return nil
	}
	flag := 0
	if walk {
		flag = 1
	}
	if _, _, err := l.do(ctx, lostScript, run, nil, rows, flag); err != nil {
		return fmt.Errorf("run %s: note lost rows: %w", run, err)
	}
	return nil
}

// Open is what is open of one tenant.
type Open struct {
	Runs int64 // that have not ended, single rows among them
	Rows int64 // of these runs, submitted and not settled
	Lost int64 // of these rows, those that [Ledger.NoteLost] was told of
}

// OpenByTenant adds up the runs that have not ended, for each tenant that has one. It
// costs two round trips, and one more for each 500 such runs, of which it reads
// counters alone: 1,000 runs take some milliseconds. Of the core it reads the headers of
// each tenant's open runs.
func (l *Ledger) OpenByTenant(ctx context.Context) (map[string]Open, error) {
	ids, err := l.perhapsOpen(ctx)
	if err != nil {
		return nil, fmt.Errorf("list open runs: %w", err)
	}
	open := map[string]Open{}
	for page := range slices.Chunk(ids, listPage) {
		if err := ctx.Err(); err != nil { // a client may pay no heed to it
			return nil, fmt.Errorf("read open runs: %w", err)
		}
		said := make([]*redis.SliceCmd, len(page))
		_, err := l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, id := range page {
				said[i] = p.HMGet(ctx, key(id, "run"), "tenant", "ended_at", "sealed", "total", "stored", "settled", "lost")
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read open runs: %w", err)
		}
		for _, one := range said {
			values := one.Val()
			tenant, there := values[0].(string)
			if !there || values[1] != nil {
				continue // deleted, or ended
			}
			o := open[tenant]
			o.Runs++
			rows := number(values[4])
			if values[2] == "1" {
				rows = number(values[3])
			}
			o.Rows += max(0, rows-number(values[5]))
			o.Lost += number(values[6])
			open[tenant] = o
		}
	}
	if err := l.addOpenCore(ctx, open); err != nil {
		return nil, fmt.Errorf("read open runs: %w", err)
	}
	return open, nil
}

// perhapsOpen are the ids among which are all runs that have not ended: those that
// were not told to have ended, and those that are sealed.
func (l *Ledger) perhapsOpen(ctx context.Context) ([]string, error) {
	var sets [2]*redis.StringSliceCmd
	_, err := l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, set := range []string{untoldKey, sealedKey} {
			sets[i] = p.SMembers(ctx, set)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	ids := slices.Concat(sets[0].Val(), sets[1].Val())
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// number is a counter of a run, 0 where it is not there.
func number(field any) int64 {
	text, _ := field.(string)
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// TakeTurn says whether it is the caller's turn to look for lost rows: of all who
// ask, one gets it, and nobody else until that time has passed.
func (l *Ledger) TakeTurn(ctx context.Context, period time.Duration) (bool, error) {
	err := l.rdb.SetArgs(ctx, turnKey, 1, redis.SetArgs{Mode: "NX", TTL: period}).Err()
	if errAbsent(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("take turn to search for lost rows: %w", err)
	}
	return true, nil
}
