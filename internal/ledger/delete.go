package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// Delete removes a run that is staged or ended, with all its rows. The error is [ErrOpen]
// for any other: a row in progress, or one with an intent, may have a request under way, and
// [Ledger.Cancel] lets it finish. If Delete is interrupted,
// [Ledger.Sweep] does the rest.
func (l *Ledger) Delete(ctx context.Context, t Tenant, id RunID) error {
	hash, err := l.header(ctx, t, id)
	if err != nil {
		return err
	}
	err = l.delete(ctx, Run{ID: id, Incarnation: Incarnation(hash["inc"]), Tenant: t}, "", "")
	wrap(&err, "run %s: delete", id)
	return err
}

// DeleteStaged deletes a staged run, unless it was committed, or a segment was staged, since
// it was read: then another producer continues it, and deleted is false.
func (l *Ledger) DeleteStaged(ctx context.Context, run Run) (deleted bool, err error) {
	return l.deleteIf(ctx, run, "staged_at", strconv.FormatInt(run.StagedAt.UnixMilli(), 10))
}

// deleteIf deletes a staged run while a field of its header has that value.
func (l *Ledger) deleteIf(ctx context.Context, run Run, field, value string) (deleted bool, err error) {
	err = l.delete(ctx, run, field, value)
	if errors.Is(err, errChanged) {
		return false, nil
	}
	wrap(&err, "run %s: delete", run.ID)
	return err == nil, err
}

// delete deletes a run; if a field is given, only a staged one whose header has that value in it. A
// header that cannot be read whole does not prevent it.
func (l *Ledger) delete(ctx context.Context, run Run, field, value string) error {
	by, err := l.rdb.HGet(ctx, headerKey(run.Tenant, run.ID, "header"), "by").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	keys := slices.Concat(runKeys(run), []string{tenantKey(run.Tenant, callerPart(by))}, segmentKeys(run.segment(0)))
	a, err := l.do(ctx, deleteScript, keys, []any{run.entry(), field, value})
	if isNotFound(err) { // it is deleted: the client repeats a script whose answer was lost
		return nil
	}
	segments := int(a.int(1))
	if err != nil || segments < 0 {
		return err
	}
	run.Parent = RunID(a.text(2))
	return l.discard(ctx, run, segments)
}

// unlinkPage is the number of segments that are removed in one round trip, by a command for each.
const unlinkPage = 16

// discard removes a run whose deletion is stored: takes it out of the children of its parent, and
// removes its segments, then its header and its entry in the list of ended runs, which leads to it
// until then.
func (l *Ledger) discard(ctx context.Context, run Run, segments int) error {
	if err := l.disown(ctx, run.Tenant, run.Parent, run.ID); err != nil {
		return err
	}
	for past := segments; past >= 0; past -= unlinkPage {
		_, err := l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.Unlink(ctx, segmentKeys(run.segment(ScanSegment))...)
			for number := max(past-unlinkPage, 0); number < past; number++ {
				p.Unlink(ctx, segmentKeys(run.segment(number))...)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("remove its rows: %w", err)
		}
	}
	_, err := l.onHeader(ctx, unlinkScript, run)
	return err
}
