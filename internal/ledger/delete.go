package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// Delete removes a run that is staged or ended, with all its rows. The error is [ErrOpen]
// for any other, also for one that is incomplete: a row in progress, or one with an intent,
// may have a request under way, and [Ledger.Cancel] lets it finish. If Delete is interrupted,
// [Ledger.Sweep] does the rest.
func (l *Ledger) Delete(ctx context.Context, id RunID) error {
	hash, err := l.header(ctx, id)
	if err != nil {
		return err
	}
	run := Run{ID: id, Incarnation: Incarnation(hash["inc"]), Tenant: Tenant(hash["tenant"])}
	if err := l.delete(ctx, run, ""); err != nil {
		return fmt.Errorf("run %s: delete: %w", id, err)
	}
	return nil
}

// DeleteStaged deletes a staged run, unless it was committed, or a segment was staged, since
// it was read: then another producer continues it, and deleted is false.
func (l *Ledger) DeleteStaged(ctx context.Context, run Run) (deleted bool, err error) {
	err = l.delete(ctx, run, strconv.FormatInt(run.StagedAt.UnixMilli(), 10))
	if errors.Is(err, errChanged) {
		return false, nil
	}
	wrap(&err, "run %s: delete", run.ID)
	return err == nil, err
}

// delete deletes a run; with the time of its last staged segment in ms only if no
// segment was staged since. A header that cannot be read whole does not prevent it.
func (l *Ledger) delete(ctx context.Context, run Run, stagedAt string) error {
	a, err := l.onHeader(ctx, deleteScript, run, stagedAt)
	if err != nil {
		return err
	}
	read := numbers{hash: a.hash(1)}
	run.Reserved, run.Segments = int(read.int("reserved")), int(read.int("segments"))
	err = cmp.Or(read.err, checkSegments("reserved", run.Reserved), checkSegments("segments", run.Segments))
	if err != nil {
		return fmt.Errorf("stored header: %w", err)
	}
	_ = json.Unmarshal([]byte(a.hash(1)["about"]), &run.Description) // has the parent, if it can be read
	return l.discard(ctx, run)
}

// discard removes a run whose deletion is stored, and takes it out of the children of its
// parent. It stores the run in the tenant's trash before it removes anything, so that an
// interruption leaves no segment that no list leads to.
func (l *Ledger) discard(ctx context.Context, run Run) error {
	if err := l.disown(ctx, run.Parent, run.ID); err != nil {
		return err
	}
	segments := max(run.Reserved, run.Segments)
	if err := l.trash(ctx, run, segments); err != nil {
		return err
	}
	_, err := l.empty(ctx, run, segments)
	return err
}

// trash moves a run from its tenant's lists to the trash, with the present time.
func (l *Ledger) trash(ctx context.Context, run Run, segments int) error {
	_, err := l.onTenant(ctx, tenantTrashScript, run.Tenant, run.entry(), segments)
	return err
}

// empty removes the header and the segments of a run in the trash, and reports whether
// any of them existed. After the segments that the header knows it removes others, which
// Redis has lost there, until none of unlinkPage in a row exists. The last go first: an
// interruption leaves no gap.
func (l *Ledger) empty(ctx context.Context, run Run, segments int) (found bool, err error) {
	a, err := l.onHeader(ctx, unlinkScript, run)
	if err != nil {
		return false, err
	}
	keys := a.int(1)
	for first := segments; first < MaxSegments; first += unlinkPage {
		n, err := l.unlink(ctx, run, first, first+unlinkPage)
		if err != nil {
			return false, err
		}
		if n == 0 {
			break
		}
		keys += n
	}
	for past := segments; past > 0; past -= unlinkPage {
		n, err := l.unlink(ctx, run, max(past-unlinkPage, 0), past)
		if err != nil {
			return false, err
		}
		keys += n
	}
	return keys > 0, nil
}

// unlinkPage is the number of segments that are removed in one round trip, by a command
// for each.
const unlinkPage = 16

// unlink removes the segments from first on, up to past, and returns the number of keys.
func (l *Ledger) unlink(ctx context.Context, run Run, first, past int) (keys int64, err error) {
	cmds := make([]*redis.IntCmd, 0, unlinkPage)
	_, err = l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for number := first; number < past; number++ {
			cmds = append(cmds, p.Unlink(ctx, segmentKeys(run.segment(number))...))
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("delete segments %d to %d: %w", first, past-1, err)
	}
	for _, cmd := range cmds {
		keys += cmd.Val()
	}
	return keys, nil
}
