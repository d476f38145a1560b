package intake

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/redisconn"
)

// reservedRow is the memory in bytes that is reserved for an open row before its submission is
// accepted: that of a waiting row (docs/operations/sizing.md), and a margin.
const reservedRow = 625

// RoomError says that rows are refused because Redis has no room for them while they wait.
// Nothing has happened.
type RoomError struct {
	Rows int64 // of the input
	// Need is the memory that they may take, and Free the rest of Max, in bytes. Max is the
	// limit maxmemory of Redis, of all masters of a Cluster together.
	Need, Free, Max int64
}

// Error returns the amounts and what to do.
func (e *RoomError) Error() string {
	return fmt.Sprintf(
		"%d rows may take %s of Redis' memory while they wait, and %s of %s are left for them (maxmemory, less the memory that is used, or reserved for the open rows of other runs): "+
			"raise maxmemory by %s, submit the rows in parts one after the other, or delete runs",
		e.Rows, megabytes(e.Need), megabytes(e.Free), megabytes(e.Max), megabytes(e.Need-e.Free))
}

// megabytes returns an amount in MB, rounded up.
func megabytes(bytes int64) string { return strconv.FormatInt((bytes+999_999)/1_000_000, 10) + " MB" }

// room is how many bytes a run may take in Redis.
type room struct {
	free, most int64 // most is 0 if there is no limit
}

// holds reports whether so many rows fit.
func (r room) holds(rows int64) bool { return r.most == 0 || rows*reservedRow <= r.free }

// refusal returns the error for so many rows.
func (r room) refusal(rows int64) error {
	return &RoomError{Rows: rows, Need: rows * reservedRow, Free: r.free, Max: r.most}
}

// room reads how much memory a run of so many rows or more may take: maxmemory without the
// memory that is used now, or that the open rows of other runs take while they wait, whichever
// is more. For less than a segment of rows the latter, which takes longer to read, is not
// read. There is no limit if Redis has none, or does not report it, and none for a run that is
// committed already.
func (i Intake) room(ctx context.Context, t ledger.Tenant, run ledger.RunID, rows int64) (room, error) {
	used, most := memoryOf(ctx, i.Redis)
	if most == 0 {
		return room{}, nil
	}
	have, err := i.Ledger.Run(ctx, t, run)
	if err == nil && !have.Staged() {
		return room{}, nil
	}
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return room{}, err
	}
	open := int64(0)
	if rows >= ledger.SegmentRows {
		if open, err = i.openRows(ctx, t, run); err != nil {
			return room{}, err
		}
	}
	return room{free: max(0, most-max(used, open*reservedRow)), most: most}, nil
}

// openRows returns how many rows of other runs are open, single rows among them. Of a staged run
// they are the rows of full segments.
func (i Intake) openRows(ctx context.Context, t ledger.Tenant, except ledger.RunID) (rows int64, err error) {
	singles, err := i.Ledger.CountSingles(ctx)
	if err != nil {
		return 0, err
	}
	for _, n := range singles {
		rows += n
	}
	all, err := i.Ledger.OpenRuns(ctx)
	for _, run := range all {
		switch {
		case run.Tenant == t && run.ID == except:
		case run.Staged():
			rows += int64(run.Reserved) * ledger.SegmentRows
		default:
			rows += max(0, run.Rows-run.Settled())
		}
	}
	return rows, err
}

// memoryOf returns the memory that Redis uses, and its limit, in bytes; of a Cluster the sums
// over its masters. The limit is 0 if there is none, or if Redis does not report it.
func memoryOf(ctx context.Context, rdb redis.Cmdable) (used, most int64) {
	if rdb == nil {
		return 0, 0
	}
	masters, err := redisconn.Masters(ctx, rdb)
	if err != nil {
		return 0, 0
	}
	for _, node := range masters {
		u, m := memoryOfNode(node.Info(ctx, "memory").Val())
		if m == 0 {
			return 0, 0
		}
		used += u
		most += m
	}
	return used, most
}

// memoryOfNode returns used_memory and maxmemory of the answer to INFO.
func memoryOfNode(info string) (used, most int64) {
	used, _ = strconv.ParseInt(redisconn.InfoValue(info, "used_memory"), 10, 64) // 0 if it is not reported
	most, _ = strconv.ParseInt(redisconn.InfoValue(info, "maxmemory"), 10, 64)
	return used, most
}
