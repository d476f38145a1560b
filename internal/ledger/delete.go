package ledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Delete removes a run that is staged, incomplete or ended, with all its rows. The error
// is [ErrOpen] for any other. If it is interrupted, [Ledger.Sweep] does the rest.
func (l *Ledger) Delete(ctx context.Context, id RunID) error {
	run, err := l.Get(ctx, id)
	if err != nil {
		return err
	}
	if _, err := l.delete(ctx, run, ""); err != nil {
		return fmt.Errorf("run %s: delete: %w", id, err)
	}
	return nil
}

// delete deletes a run; with the time of its last staged segment in ms only if no
// segment was staged since.
func (l *Ledger) delete(ctx context.Context, run Run, stagedAt string) (deleted bool, err error) {
	a, err := l.onHeader(ctx, deleteScript, run.ID, string(run.Incarnation), stagedAt)
	if err != nil || a.status() == "changed" {
		return false, err
	}
	if run, err = parseRun(run.ID, a.hash(1)); err != nil {
		return false, err
	}
	return true, l.discard(ctx, run)
}

// discard removes a run whose header is marked for deletion. It lists the segments before
// it removes the header, so that an interruption leaves no segment unlisted.
func (l *Ledger) discard(ctx context.Context, run Run) error {
	segments := max(run.Reserved, run.Segments)
	if _, err := l.onTenant(ctx, tenantTrashScript, run.Tenant, run.entry(), segments); err != nil {
		return err
	}
	return l.empty(ctx, run, segments)
}

// empty removes a discarded run: its header, its segments, one command for each, and
// then its entry in the list of discarded runs.
func (l *Ledger) empty(ctx context.Context, run Run, segments int) error {
	if _, err := l.onHeader(ctx, unlinkScript, run.ID, string(run.Incarnation)); err != nil {
		return err
	}
	err := eachSegment(ctx, segments, func(ctx context.Context, number int) error {
		return l.rdb.Unlink(ctx, segmentKeys(run.segment(number))...).Err()
	})
	if err == nil {
		err = l.emptyBeyond(ctx, run, segments)
	}
	if err != nil {
		return fmt.Errorf("delete segments: %w", err)
	}
	return l.rdb.HDel(ctx, tenantKeys(run.Tenant)[trashList], run.entry()).Err()
}

// emptyBeyond removes segments that the header's Redis has forgotten: those after the
// ones that it knows, until several in a row do not exist.
func (l *Ledger) emptyBeyond(ctx context.Context, run Run, segments int) error {
	for number, absent := segments, 0; absent < maxGap && number < MaxSegments; number++ {
		n, err := l.rdb.Unlink(ctx, segmentKeys(run.segment(number))...).Result()
		if err != nil {
			return err
		}
		absent++
		if n > 0 {
			absent = 0
		}
	}
	return nil
}

// maxGap is the number of segments in a row that do not exist after which no more are
// expected.
const maxGap = 16

// sweepPage bounds the runs of each sort that [Ledger.Sweep] deletes in one call.
const sweepPage = 100

// Sweep deletes runs of a tenant: finished runs after their retention, and staged runs
// that are incomplete and abandoned. It also completes interrupted deletions. It returns
// the number of deleted runs, at most 300. The dispatcher calls it once a minute.
func (l *Ledger) Sweep(ctx context.Context, t Tenant) (deleted int, err error) {
	for _, sweep := range []func(context.Context, Tenant) (int, error){l.sweepTrash, l.sweepEnded, l.sweepStaged} {
		n, err := sweep(ctx, t)
		deleted += n
		if err != nil {
			return deleted, fmt.Errorf("sweep runs of %s: %w", t, err)
		}
	}
	return deleted, nil
}

func (l *Ledger) sweepTrash(ctx context.Context, t Tenant) (deleted int, err error) {
	trash, err := l.rdb.HGetAll(ctx, tenantKeys(t)[trashList]).Result()
	if err != nil {
		return 0, err
	}
	for entry, text := range trash {
		segments, err := strconv.Atoi(text)
		if err != nil {
			return deleted, fmt.Errorf("discarded run %s: %w", quoted(entry), err)
		}
		if err := l.empty(ctx, listed(t, entry), segments); err != nil {
			return deleted, err
		}
		if deleted++; deleted == sweepPage {
			break
		}
	}
	return deleted, nil
}

// listed returns the run that an entry of a tenant's list names.
func listed(t Tenant, entry string) Run {
	id, inc, _ := strings.Cut(entry, "/")
	return Run{ID: RunID(id), Incarnation: Incarnation(inc), Tenant: t}
}

func (l *Ledger) sweepEnded(ctx context.Context, t Tenant) (deleted int, err error) {
	now, err := l.Now(ctx)
	if err != nil {
		return 0, err
	}
	due := &redis.ZRangeBy{Min: "-inf", Max: strconv.FormatInt(now.UnixMilli(), 10), Count: sweepPage}
	entries, err := l.rdb.ZRangeByScore(ctx, tenantKeys(t)[endedList], due).Result()
	if err != nil {
		return 0, err
	}
	for _, entry := range entries {
		switch _, err := l.delete(ctx, listed(t, entry), ""); {
		case isNotFound(err):
			err = l.unlist(ctx, listed(t, entry))
			if err != nil {
				return deleted, err
			}
		case errors.Is(err, ErrOpen): // its Redis has lost its end: Rebuild ends it again
			if _, err := l.onTenant(ctx, tenantReopenScript, t, entry); err != nil {
				return deleted, err
			}
		case err != nil:
			return deleted, err
		default:
			deleted++
		}
	}
	return deleted, nil
}

// trimAfter is the age at which an entry without a header is removed: its producer was
// killed before it stored the header.
const trimAfter = time.Hour

func (l *Ledger) sweepStaged(ctx context.Context, t Tenant) (deleted int, err error) {
	now, err := l.Now(ctx)
	if err != nil {
		return 0, err
	}
	entries, err := l.rdb.ZRangeWithScores(ctx, tenantKeys(t)[openList], 0, -1).Result()
	if err != nil {
		return 0, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i], _ = e.Member.(string)
	}
	runs, err := l.headers(ctx, names)
	if err != nil {
		return 0, err
	}
	for i, run := range runs {
		switch {
		case run.ID == "":
			if now.Sub(fromMillis(int64(entries[i].Score))) > trimAfter {
				err = l.unlist(ctx, listed(t, names[i]))
			}
		case !run.DeletingAt.IsZero():
			err = l.discard(ctx, run)
			deleted++
		case run.Staged() && now.Sub(run.StagedAt) > AbandonedAfter:
			var gone bool
			gone, err = l.expire(ctx, run)
			deleted += flag(gone)
		}
		if err != nil || deleted == sweepPage {
			return deleted, err
		}
	}
	return deleted, nil
}

// expire deletes an abandoned staged run, unless all of its segments are stored: then
// Redis may have lost its commit, and it is kept until somebody commits or deletes it.
func (l *Ledger) expire(ctx context.Context, run Run) (deleted bool, err error) {
	complete, err := l.Complete(ctx, run)
	if err != nil {
		return false, err
	}
	if !complete {
		return l.delete(ctx, run, strconv.FormatInt(run.StagedAt.UnixMilli(), 10))
	}
	return false, eachSegment(ctx, run.Reserved, func(ctx context.Context, number int) error {
		_, err := l.onSegment(ctx, keepScript, run.segment(number))
		return err
	})
}

// Complete reports whether every segment of a staged run is stored, up to its last.
func (l *Ledger) Complete(ctx context.Context, run Run) (bool, error) {
	stored := make([]bool, run.Reserved)
	err := eachSegment(ctx, run.Reserved, func(ctx context.Context, number int) error {
		head, err := l.rdb.HMGet(ctx, segmentKey(run.segment(number), "head"), "sum", "last").Result()
		if err != nil {
			return err
		}
		stored[number] = head[0] != nil && (head[1] == "1") == (number == run.Reserved-1)
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("run %s: read segments: %w", run.ID, err)
	}
	for _, ok := range stored {
		if !ok {
			return false, nil
		}
	}
	return run.Reserved > 0, nil
}
