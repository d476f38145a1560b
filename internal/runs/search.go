package runs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// StoredRow is a row as it was stored.
type StoredRow struct {
	Item   int64
	Source []byte
}

// chunksAtOnce is how many chunks one request reads: some 100 KB.
const chunksAtOnce = 8

// Search returns the stored rows of the run in which one of the needles stands,
// in their order. There is no index: it reads all of the run's rows, a few chunks
// at a time, and takes those apart in which a needle stands. An error, such as
// [ErrNotFound], ends it.
func (l *Ledger) Search(ctx context.Context, run string, needles ...[]byte) iter.Seq2[StoredRow, error] {
	return l.rowsWith(ctx, run, needles, func(text []byte) []byte { return text })
}

// SearchFold is Search for needles in lower case, which may stand in the rows in any.
func (l *Ledger) SearchFold(ctx context.Context, run string, needles ...[]byte) iter.Seq2[StoredRow, error] {
	return l.rowsWith(ctx, run, needles, bytes.ToLower)
}

func (l *Ledger) rowsWith(ctx context.Context, run string, needles [][]byte, fold func([]byte) []byte) iter.Seq2[StoredRow, error] {
	within := func(text []byte) bool {
		text = fold(text)
		return slices.ContainsFunc(needles, func(needle []byte) bool { return bytes.Contains(text, needle) })
	}
	return func(yield func(StoredRow, error) bool) {
		if err := l.search(ctx, run, within, func(row StoredRow) bool { return yield(row, nil) }); err != nil {
			yield(StoredRow{}, fmt.Errorf("run %s: search rows: %w", run, err))
		}
	}
}

func (l *Ledger) search(ctx context.Context, run string, within func(text []byte) bool, yield func(StoredRow) bool) error {
	if err := checkID(run); err != nil {
		return err
	}
	switch core, found, err := l.inCore(ctx, run); {
	case err != nil:
		return err
	case found:
		return l.searchCore(ctx, core, within, yield)
	}
	stored, err := l.extent(ctx, run, "stored")
	if err != nil {
		return err
	}
	for first := int64(0); first < stored; first += chunksAtOnce * ChunkRows {
		if err := ctx.Err(); err != nil {
			return err // whatever the client makes of its commands' contexts
		}
		var fields []string
		for start := first; start < min(stored, first+chunksAtOnce*ChunkRows); start += ChunkRows {
			fields = append(fields, strconv.FormatInt(start, 10))
		}
		chunks, err := l.rdb.HMGet(ctx, key(run, "rows"), fields...).Result()
		if err != nil {
			return err
		}
		for i, chunk := range chunks {
			text, ok := chunk.(string)
			if !ok || len(text) < sha256.Size {
				continue // not stored yet: chunks come in any order
			}
			plain, err := inflate([]byte(text[sha256.Size:]))
			if err != nil {
				return fmt.Errorf("chunk from row %s: %w", fields[i], err)
			}
			if !within(plain) {
				continue
			}
			rows, err := unpack([]byte(text))
			if err != nil {
				return fmt.Errorf("chunk from row %s: %w", fields[i], err)
			}
			for at, source := range rows {
				if within(source) && !yield(StoredRow{Item: first + int64(i)*ChunkRows + int64(at), Source: source}) {
					return nil
				}
			}
		}
	}
	return nil
}

// RowState is how a row stands.
type RowState struct {
	// Fate is what became of it, nil while it is open.
	Fate *Fate
	// Open says why it is open, where it is.
	Open OpenRow
	// Kept is what is kept of it under the name that was asked for, of an open row;
	// nil if nothing is.
	Kept []byte
	// Evidence is, of a row that is open or expired, what the last check found that
	// [Ledger.Looked] was called with; of another settled row, what [Ledger.SettleRow]
	// was. nil: there is none.
	Evidence []byte
}

// Row returns how a row of the run stands, and what is kept of it by that name.
// Of a run that there is not every row is open.
func (l *Ledger) Row(ctx context.Context, run string, item int64, name string) (RowState, error) {
	if err := checkID(run); err != nil {
		return RowState{}, err
	}
	if err := checkItem(run, item); err != nil {
		return RowState{}, err
	}
	switch core, found, err := l.inCore(ctx, run); {
	case err != nil:
		return RowState{}, err
	case found:
		return l.coreRow(ctx, core, item, name)
	}
	field := strconv.FormatInt(item, 10)
	var settled, cancelled *redis.IntCmd
	var fate, note, kept *redis.SliceCmd
	_, err := l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		settled, cancelled = p.GetBit(ctx, key(run, "settled"), item), p.GetBit(ctx, key(run, "cancelled"), item)
		fate, note = p.HMGet(ctx, key(run, "fates"), field, field+":"+evidenceMark), p.HMGet(ctx, key(run, "notes"), field)
		kept = p.HMGet(ctx, key(run, "kept"), field+":"+name, field+":"+evidenceMark)
		return nil
	})
	if err != nil {
		return RowState{}, fmt.Errorf("run %s: read row %d: %w", run, item, err)
	}
	if settled.Val() == 1 {
		f := fateOf(item, fate.Val()[0], cancelled.Val() == 1)
		return RowState{Fate: &f, Evidence: octets(fate.Val()[1])}, nil
	}
	state := RowState{Kept: octets(kept.Val()[0]), Evidence: octets(kept.Val()[1])}
	state.Open, err = openRow(run, item, note.Val()[0])
	return state, err
}

// bytes are those of a field; nil where it is empty or not there.
func octets(field any) []byte {
	if text, ok := field.(string); ok && text != "" {
		return []byte(text)
	}
	return nil
}
