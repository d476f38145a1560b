package runs

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Walk is how far the walk is that finds a run's rows. It goes step by step: each
// adds rows, and says where the next one goes on.
type Walk struct {
	// Step is the number of steps that were made, and that of the next one.
	Step int64
	// Enqueued: every row below it has been enqueued. Those above are the next
	// step's to enqueue, or were found by the last one.
	Enqueued int64
	// Told is what the walk has to tell of itself, as it wrote it.
	Told []byte
	// Note is why it has not gone on, empty if it has, and Next when it tries again.
	Note string
	Next time.Time
	// LostAt is when no task stood for it; zero: one did.
	LostAt time.Time
}

// Walking says that a walk may still find rows of the run.
func (r Run) Walking() bool { return r.Walk != nil && !r.Sealed && r.CancelledAt.IsZero() }

// Rows is the number of rows that are known: of all once the run is sealed.
func (r Run) Rows() int64 {
	if r.Sealed {
		return r.Total
	}
	return r.Stored
}

func parseWalk(hash map[string]string, read *numbers) *Walk {
	if _, walked := hash["walk_step"]; !walked {
		return nil
	}
	w := &Walk{Step: read.int("walk_step"), Enqueued: read.int("walk_enqueued"), Told: []byte(hash["walk_told"]), LostAt: read.time("walk_lost_at")}
	next, reason, _ := strings.Cut(hash["walk_note"], ":")
	if ms, err := strconv.ParseInt(next, 10, 64); err == nil {
		w.Note, w.Next = reason, fromMillis(ms)
	}
	return w
}

// WalkAt is where the walk of a run stands: the number of its next step, the rows
// that its last one may not have enqueued, from enqueued on up to stored, what is
// told of it, and where it goes on, empty before the first step. The error is
// [ErrNotFound] where there is no such run, or it has no scan.
func (l *Ledger) WalkAt(ctx context.Context, run string) (step, enqueued, stored int64, told, cursor []byte, err error) {
	if err := checkID(run); err != nil {
		return 0, 0, 0, nil, nil, err
	}
	var hash *redis.MapStringStringCmd
	var at *redis.StringCmd
	_, err = l.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		hash, at = p.HGetAll(ctx, key(run, "run")), p.Get(ctx, key(run, "walk"))
		return nil
	})
	if err != nil && !errAbsent(err) {
		return 0, 0, 0, nil, nil, fmt.Errorf("run %s: read its scan: %w", run, err)
	}
	if len(hash.Val()) == 0 {
		return 0, 0, 0, nil, nil, fmt.Errorf("run %s: %w", run, ErrNotFound)
	}
	r, err := parseRun(run, hash.Val())
	if err == nil && r.Walk == nil {
		err = fmt.Errorf("run %s: it has no scan: %w", run, ErrNotFound)
	}
	if err != nil {
		return 0, 0, 0, nil, nil, err
	}
	return r.Walk.Step, r.Walk.Enqueued, r.Stored, r.Walk.Told, []byte(at.Val()), nil
}

// StaleStep stands against a step that was made already: another execution was
// faster, or the run is sealed.
const StaleStep = "stale"

// WalkStep makes the step of that number, all of it or nothing: it adds the rows
// behind those that are there, keeps of each what Looked would keep under that name
// (empty: nothing), and replaces what is told of the walk and where it goes on. It
// also says that all rows which were there before are enqueued.
//
// against is what stands against it, as [Ledger.Standing] says it for a task of that
// generation, or [StaleStep]; empty: nothing, and the step is made. An
// [ErrTooManyRows] says that the run cannot have so many.
func (l *Ledger) WalkStep(ctx context.Context, run string, generation int, step int64, told, cursor []byte, rows [][]byte, name string, kept [][]byte) (against string, err error) {
	if err := checkMark(run, 0, name); err != nil {
		return "", err
	}
	stored, err := l.extent(ctx, run, "stored")
	if err != nil {
		return "", err
	}
	if stored+int64(len(rows)) > MaxRows {
		return "", fmt.Errorf("run %s: %w", run, ErrTooManyRows)
	}
	chunks, err := l.grown(ctx, run, stored, rows)
	if err != nil {
		return "", fmt.Errorf("run %s: step %d of its scan: %w", run, step, err)
	}
	args := append([]any{generation, step, stored, len(rows), told, cursor, name, len(chunks) / 2}, chunks...)
	for i, value := range kept {
		if len(value) > 0 {
			args = append(args, stored+int64(i), value)
		}
	}
	_, rest, err := l.do(ctx, walkScript, run, nil, args...)
	if err != nil {
		return "", fmt.Errorf("run %s: step %d of its scan: %w", run, step, err)
	}
	against, _ = rest[0].(string)
	return against, nil
}

// ErrTooManyRows says that a walk has found more rows than a run can have.
var ErrTooManyRows = errors.New("more rows than a run can have")

// grown are the chunks that hold the rows, behind those stored: each as its first
// row and the chunk. The first of them replaces one that was not full. Should that
// be another than was read, the step is a stale one.
func (l *Ledger) grown(ctx context.Context, run string, stored int64, rows [][]byte) (chunks []any, err error) {
	if len(rows) == 0 {
		return nil, nil
	}
	start := stored - stored%ChunkRows
	all := rows
	if start < stored {
		before, err := l.chunk(ctx, run, start)
		if err != nil {
			return nil, err
		}
		if int64(len(before)) < stored-start {
			return nil, fmt.Errorf("rows from %d on: %w", start+int64(len(before)), ErrGap)
		}
		all = append(before[:stored-start:stored-start], rows...)
	}
	for ; len(all) > 0; start += ChunkRows {
		n := min(len(all), ChunkRows)
		plain := join(all[:n])
		packed, err := deflate(plain)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(plain)
		chunks = append(chunks, start, append(sum[:], packed...))
		all = all[n:]
	}
	return chunks, nil
}

// NoteWalk says why the walk does not go on, and when it tries again.
func (l *Ledger) NoteWalk(ctx context.Context, run string, generation int, reason string, next time.Time) error {
	if err := checkID(run); err != nil {
		return err
	}
	if _, _, err := l.do(ctx, walkNoteScript, run, nil, generation, toMillis(next), quote(reason, maxDetail)); err != nil {
		return fmt.Errorf("run %s: note on its scan: %w", run, err)
	}
	return nil
}
