package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// sweepPage is how many entries of a list [Ledger.Sweep] reads at once.
	sweepPage = 100
	// sweepFor bounds the time of a call, so that the next one advances the clock by which runs
	// are deleted. It is enough for some 10,000 runs.
	sweepFor = 30 * time.Second
)

// lossWindow is the age from which on Redis has surely not lost a write. That would be a
// second, but the nodes of a Cluster have clocks of their own.
const lossWindow = time.Minute

// Sweep deletes finished runs of a tenant after their retention, and staged runs that are
// incomplete and abandoned, and returns their number. What it does not do in half a minute is
// left for the next call. It also completes deletions that were interrupted, or that a node
// of Redis has lost. The retention of a run begins with the first sweep that is at least a
// minute after its [Ledger.Finish]. No time counts in which Sweep is not called. If it fails
// for some runs it does the others and returns an error. The dispatcher calls it once a minute.
func (l *Ledger) Sweep(ctx context.Context, t Tenant) (deleted int, err error) {
	defer wrap(&err, "sweep runs of %s", t)
	a, err := l.onTenant(ctx, clockScript, t)
	if err != nil {
		return 0, err
	}
	c := clock{steady: fromMillis(a.int(1)), now: fromMillis(a.int(2)), end: time.Now().Add(sweepFor)}
	ended, open, trash := l.sweepEnded(ctx, t, c), l.sweepOpen(ctx, t, c), l.sweepTrash(ctx, t, c)
	return ended.deleted + open.deleted,
		errors.Join(joined("runs", trash.failed), joined("runs", ended.failed), joined("runs", open.failed))
}

// swept has the results for the entries of a list.
type swept struct {
	deleted int
	failed  []error
}

// add adds the result for an entry of a list, or the error of reading it.
func (s *swept) add(what string, deleted bool, err error) {
	s.deleted += flag(deleted)
	if wrap(&err, "%s", what); !isNotFound(err) { // else deleted meanwhile
		s.failed = append(s.failed, err) // joined leaves nil out
	}
}

// clock is the time of a sweep.
type clock struct {
	// steady is the time by which runs are deleted. It counts neither jumps of Redis' clock
	// nor times without sweeps: see lua/tenant.lua.
	steady time.Time
	// now is Redis' time.
	now time.Time
	// end is when the sweep stops, in this process's time.
	end time.Time
}

// over reports whether the sweep has to stop.
func (c clock) over(ctx context.Context) bool { return ctx.Err() != nil || time.Now().After(c.end) }

// sweepTrash removes runs in the trash once more, since a node of Redis may have gone back to
// before their deletion. A run in which nothing was found leaves the trash.
func (l *Ledger) sweepTrash(ctx context.Context, t Tenant, c clock) (s swept) {
	for cursor := uint64(0); ; {
		page, next, err := l.rdb.HScan(ctx, tenantKeys(t)[trashList], cursor, "", sweepPage).Result()
		s.add("read the trash", false, err)
		for pair := range slices.Chunk(page, 2) {
			s.add("run "+quoted(pair[0]), false, l.sweepTrashed(ctx, t, pair[0], pair[1], c))
		}
		if cursor = next; cursor == 0 || c.over(ctx) { // the cursor of an error is 0
			return s
		}
	}
}

// sweepTrashed removes a run in the trash once more if it is time. Its value is <segments>:<time
// in ms>.
func (l *Ledger) sweepTrashed(ctx context.Context, t Tenant, entry, value string, c clock) error {
	count, at, _ := strings.Cut(value, ":")
	read := numbers{hash: map[string]string{"segments": count, "time": at}}
	segments, since := int(read.int("segments")), read.time("time")
	run, err := listed(t, entry)
	if err = cmp.Or(err, read.err, checkSegments("segments", segments)); err != nil {
		return err
	}
	if c.steady.Sub(since).Abs() < lossWindow {
		return nil
	}
	found, err := l.empty(ctx, run, segments)
	switch {
	case err != nil:
	case found: // it may be lost again
		err = l.trash(ctx, run, segments)
	default:
		err = l.rdb.HDel(ctx, tenantKeys(t)[trashList], entry).Err()
	}
	return err
}

func (l *Ledger) sweepEnded(ctx context.Context, t Tenant, c clock) (s swept) {
	due := &redis.ZRangeBy{Min: "-inf", Max: strconv.FormatInt(c.steady.UnixMilli(), 10), Count: sweepPage}
	for {
		entries, err := l.rdb.ZRangeByScore(ctx, tenantKeys(t)[endedList], due).Result()
		s.add("read ended runs", false, err)
		for _, entry := range entries {
			deleted, err := l.sweepEndedEntry(ctx, t, entry)
			s.add("run "+quoted(entry), deleted, err)
			due.Offset += int64(flag(err != nil)) // it stays in the list
		}
		if len(entries) < sweepPage || due.Offset >= sweepPage || c.over(ctx) {
			return s
		}
	}
}

func (l *Ledger) sweepEndedEntry(ctx context.Context, t Tenant, entry string) (deleted bool, err error) {
	run, err := listed(t, entry)
	if err != nil {
		return false, err
	}
	switch err = l.delete(ctx, run, ""); {
	case isNotFound(err):
		return false, l.trash(ctx, run, 0)
	case errors.Is(err, ErrOpen): // its Redis has lost its end: Rebuild ends it again
		_, err = l.onTenant(ctx, tenantReopenScript, t, entry)
		return false, err
	}
	return err == nil, err
}

// trimAfter is the age at which an entry without a header goes to the trash: its producer
// was killed before it stored the header, or Redis has lost the header.
const trimAfter = time.Hour

func (l *Ledger) sweepOpen(ctx context.Context, t Tenant, c clock) (s swept) {
	err := l.eachPage(ctx, t, openList, func(page []entry) {
		unchanged := l.unchanged(ctx, finishedOf(page, c))
		for _, e := range page {
			deleted, err := false, e.err
			if _, found := unchanged[e.run.entry()]; found {
				err = l.startRetention(ctx, e.run)
			} else if err == nil && !c.over(ctx) {
				deleted, err = l.sweepEntry(ctx, e, c)
			}
			s.add("run "+quoted(e.run.entry()), deleted, err)
		}
	})
	s.add("read open runs", false, err)
	return s
}

// sweepEntry deletes the run of an entry of the open runs, or starts its retention, if it
// is time.
func (l *Ledger) sweepEntry(ctx context.Context, e entry, c clock) (deleted bool, err error) {
	switch run := e.run; {
	case !e.found:
		if c.steady.Sub(e.at).Abs() > trimAfter {
			err = l.trash(ctx, run, 0)
		}
		return false, err
	case !run.DeletingAt.IsZero():
		return true, l.discard(ctx, run)
	case run.Staged() && c.now.Sub(run.StagedAt) > AbandonedAfter && c.steady.Sub(e.at) > AbandonedAfter:
		return l.expire(ctx, run) // by both: Redis' clock may have jumped since StagedAt
	case e.retainable(c):
		return false, l.retain(ctx, run.ID)
	}
	return false, nil
}

// retainable reports whether the run was finished so long ago that its retention starts.
func (e entry) retainable(c clock) bool {
	return !e.run.FinishedAt.IsZero() && c.now.Sub(e.run.FinishedAt).Abs() >= lossWindow
}

// finishedOf returns the runs of a page whose retention starts.
func finishedOf(page []entry, c clock) (runs []Run) {
	for _, e := range page {
		if e.err == nil && e.found && e.run.DeletingAt.IsZero() && e.retainable(c) {
			runs = append(runs, e.run)
		}
	}
	return runs
}

// retain takes a run that was finished a while ago out of the open runs of its tenant, and
// starts its retention. First it syncs the run once more: a node of Redis may have lost
// how rows were settled, or the end, and then the run is open again.
func (l *Ledger) retain(ctx context.Context, id RunID) error {
	p, err := l.sync(ctx, id)
	if err != nil || p.Run.FinishedAt.IsZero() {
		return err
	}
	return l.startRetention(ctx, p.Run)
}

// startRetention takes a run out of the open runs of its tenant. It is deleted after its
// retention.
func (l *Ledger) startRetention(ctx context.Context, run Run) error {
	_, err := l.onTenant(ctx, tenantFinishScript, run.Tenant, run.entry(), cmp.Or(run.KeepFor, Retention).Milliseconds())
	return err
}

// expire deletes an abandoned staged run, unless all of its segments are stored: then
// Redis may have lost its commit, and it stays until it is committed or deleted. A single row
// is deleted: no list shows it, and who submits it again stores it again.
func (l *Ledger) expire(ctx context.Context, run Run) (deleted bool, err error) {
	complete, err := l.Complete(ctx, run)
	if err != nil || complete && !run.Single {
		return false, err
	}
	return l.DeleteStaged(ctx, run)
}

// Complete reports whether every segment of a staged run is stored, up to its last.
func (l *Ledger) Complete(ctx context.Context, run Run) (bool, error) {
	heads, err := l.heads(ctx, run, run.Reserved)
	if err != nil {
		return false, fmt.Errorf("run %s: %w", run.ID, err)
	}
	for number, h := range heads {
		if h.sum == "" || h.awaits || h.last != (number == run.Reserved-1) {
			return false, nil
		}
	}
	return run.Reserved > 0, nil
}
