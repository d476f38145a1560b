package ledger

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// Delete removes a run that is staged or ended, with all its rows. The error is [ErrOpen]
// for any other: a row in progress, or one with an intent, may have a request under way, and
// [Ledger.Cancel] lets it finish. If Delete is interrupted,
// [Ledger.DeleteOld] does the rest.
func (l *Ledger) Delete(ctx context.Context, t Tenant, id RunID) error {
	hash, err := l.header(ctx, t, id)
	if err != nil {
		return err
	}
	_, err = l.delete(ctx, Run{ID: id, Incarnation: Incarnation(hash["inc"]), Tenant: t}, "", "")
	return err
}

// DeleteStaged deletes a staged run, unless it was committed, or a segment was staged, since
// it was read: then another producer continues it, and deleted is false.
func (l *Ledger) DeleteStaged(ctx context.Context, run Run) (deleted bool, err error) {
	return l.delete(ctx, run, "staged_at", strconv.FormatInt(run.StagedAt.UnixMilli(), 10))
}

// delete deletes a run; if a field is given, only a staged one whose header has that value in it. A
// header that cannot be read whole does not prevent it.
func (l *Ledger) delete(ctx context.Context, run Run, field, value string) (deleted bool, err error) {
	defer wrap(&err, "run %s: delete", run.ID)
	head, err := l.rdb.HMGet(ctx, headerKey(run.Tenant, run.ID, "header"), "by", "parent").Result()
	if err != nil {
		return false, err
	}
	by := answer(head).text(0)
	parent := RunID(answer(head).text(1))
	if parent.Validate() != nil {
		parent = ""
	}
	keys := append(runKeys(run), tenantKey(run.Tenant, callerPart(by)), headerKey(run.Tenant, parent, "header"))
	a, err := l.do(ctx, deleteScript, append(keys, segmentKeys(run.segment(0))...), []any{run.entry(), field, value})
	segments := int(a.int(1))
	switch {
	case isNotFound(err): // it is deleted: the client repeats a script whose answer was lost
		return true, nil
	case err != nil:
		return false, err
	case a.status() == statusChanged:
		return false, nil
	case segments < 0:
		return true, nil
	}
	err = l.discard(ctx, run, segments)
	return err == nil, err
}

// unlinkPage is the number of segments that are removed in one round trip, by a command for each.
const unlinkPage = 16

// discard removes a run whose deletion is stored: its segments, then its header and its entry in
// the list of ended runs, which leads to it until then.
func (l *Ledger) discard(ctx context.Context, run Run, segments int) error {
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
