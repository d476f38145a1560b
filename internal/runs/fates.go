package runs

import (
	"context"
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Fate is what became of a row.
type Fate struct {
	Item    int64
	Outcome string
	// Detail is the reason, or the id that was created, in words.
	Detail string
}

// Well says whether the row became what it asked for.
func (f Fate) Well() bool { return f.Outcome == "done" || f.Outcome == "unchanged" }

// OpenRow is a row that is not settled.
type OpenRow struct {
	Item int64
	// Reason is why it was last left open, empty if it was never noted.
	Reason string
	// Next is when it is looked at next; zero if that is not known.
	Next time.Time
}

const (
	// bitmapPage is how many bytes of a bitmap are read at once: a million rows
	// are four of them.
	bitmapPage = 32 << 10
	// hashPage is how many fields are read at once, at 2 KB of detail at most.
	hashPage = 1000
)

// Fates returns the rows whose outcome has been kept, in their order: all that
// are not plainly "done", and those with a detail. It reads in pages; what is
// settled meanwhile may or may not be among them. An error, such as
// [ErrNotFound], ends it.
func (l *Ledger) Fates(ctx context.Context, run string) iter.Seq2[Fate, error] {
	return l.FatesFrom(ctx, run, 0)
}

// FatesFrom is Fates from row first on; nothing is read of those before it.
func (l *Ledger) FatesFrom(ctx context.Context, run string, first int64) iter.Seq2[Fate, error] {
	return func(yield func(Fate, error) bool) {
		if err := l.eachFate(ctx, run, max(first, 0), func(f Fate) bool { return yield(f, nil) }); err != nil {
			yield(Fate{}, err)
		}
	}
}

func (l *Ledger) eachFate(ctx context.Context, run string, first int64, yield func(Fate) bool) error {
	switch core, found, err := l.inCore(ctx, run); {
	case err != nil:
		return err
	case found:
		return l.eachCoreFate(ctx, core, first, yield)
	}
	if err := checkID(run); err != nil {
		return err
	}
	if _, err := l.extent(ctx, run, "settled"); err != nil {
		return err
	}
	for start := first / 8; ; start += bitmapPage {
		told, err := l.bitmap(ctx, run, "told", start)
		if err != nil {
			return err
		}
		cancelled, err := l.bitmap(ctx, run, "cancelled", start)
		if err != nil {
			return err
		}
		if len(told) == 0 && len(cancelled) == 0 {
			return nil
		}
		items := slices.DeleteFunc(union(start*8, told, cancelled), func(item int64) bool { return item < first })
		for page := range slices.Chunk(items, hashPage) {
			if err := ctx.Err(); err != nil {
				return err // whatever the client makes of its commands' contexts
			}
			texts, err := l.fields(ctx, run, "fates", page)
			if err != nil {
				return err
			}
			for i, item := range page {
				f := fateOf(item, texts[i], isSet(cancelled, item-start*8))
				if f.Outcome == "done" && f.Detail == "" {
					continue // put right between the two reads: plainly done now
				}
				if !yield(f) {
					return nil
				}
			}
		}
	}
}

// fateOf is what became of a settled row. What is kept of it is a string, or nil.
func fateOf(item int64, kept any, cancelled bool) Fate {
	f := Fate{Item: item, Outcome: "done"}
	if text, ok := kept.(string); ok {
		f.Outcome, f.Detail, _ = strings.Cut(text, ":")
	} else if cancelled {
		f.Outcome = "cancelled"
	}
	return f
}

// OpenRows returns the first most rows that are not settled, as [Ledger.Open]
// tells them, or [ErrNotFound].
func (l *Ledger) OpenRows(ctx context.Context, run string, most int) ([]OpenRow, error) {
	open := []OpenRow{}
	for row, err := range l.Open(ctx, run) {
		if err != nil {
			return nil, err
		}
		if len(open) == most {
			break
		}
		open = append(open, row)
	}
	return open, nil
}

// Open returns the rows that are not settled, in their order. Before the run is
// sealed these are among the rows stored so far. It reads in pages; what settles
// meanwhile may or may not be among them. An error, such as [ErrNotFound], ends it.
func (l *Ledger) Open(ctx context.Context, run string) iter.Seq2[OpenRow, error] {
	return l.OpenFrom(ctx, run, 0)
}

// OpenFrom is Open from row first on; nothing is read of those before it.
func (l *Ledger) OpenFrom(ctx context.Context, run string, first int64) iter.Seq2[OpenRow, error] {
	return func(yield func(OpenRow, error) bool) {
		if err := l.eachOpen(ctx, run, max(first, 0), func(row OpenRow) bool { return yield(row, nil) }); err != nil {
			yield(OpenRow{}, err)
		}
	}
}

func (l *Ledger) eachOpen(ctx context.Context, run string, first int64, yield func(OpenRow) bool) error {
	switch core, found, err := l.inCore(ctx, run); {
	case err != nil:
		return err
	case found:
		return l.eachCoreOpen(ctx, core, first, yield)
	}
	r, err := l.get(ctx, run)
	if err != nil {
		return err
	}
	past := r.Total
	if !r.Sealed {
		if past, err = l.extent(ctx, run, "stored"); err != nil {
			return err
		}
	}
	for start := first / 8; start*8 < past; start += bitmapPage {
		settled, err := l.bitmap(ctx, run, "settled", start)
		if err != nil {
			return err
		}
		items := slices.DeleteFunc(unset(settled, start*8, min(past, (start+bitmapPage)*8)), func(item int64) bool { return item < first })
		for page := range slices.Chunk(items, hashPage) {
			notes, err := l.fields(ctx, run, "notes", page)
			if err != nil {
				return err
			}
			for i, item := range page {
				row, err := openRow(run, item, notes[i])
				if err != nil {
					return err
				}
				if !yield(row) {
					return nil
				}
			}
		}
	}
	return nil
}

// openRow is a row with its note, a string, or nil where it has none.
func openRow(run string, item int64, note any) (OpenRow, error) {
	text, ok := note.(string)
	if !ok {
		return OpenRow{Item: item}, nil
	}
	next, reason, _ := strings.Cut(text, ":")
	ms, err := strconv.ParseInt(next, 10, 64)
	if err != nil {
		return OpenRow{}, fmt.Errorf("run %s: note on row %d: %w", run, item, err)
	}
	return OpenRow{Item: item, Reason: reason, Next: fromMillis(ms)}, nil
}

// Notes returns open rows of the run that have a note, in no order, and how many
// of them there are: about most of them at the most, whichever Redis comes upon
// first, which is a fair sample of many. Of a run that there is not there are none.
func (l *Ledger) Notes(ctx context.Context, run string, most int) (rows []OpenRow, total int64, err error) {
	switch core, found, err := l.inCore(ctx, run); {
	case err != nil:
		return nil, 0, err
	case found:
		return l.coreNotes(ctx, core, most)
	}
	if err := checkID(run); err != nil {
		return nil, 0, err
	}
	if total, err = l.rdb.HLen(ctx, key(run, "notes")).Result(); err != nil {
		return nil, 0, fmt.Errorf("run %s: read notes: %w", run, err)
	}
	seen := map[int64]bool{} // a field may come twice while others come and go
	for cursor, more := uint64(0), true; more && len(rows) < most; more = cursor != 0 {
		var page []string
		page, cursor, err = l.rdb.HScan(ctx, key(run, "notes"), cursor, "", hashPage).Result()
		if err != nil {
			return nil, 0, fmt.Errorf("run %s: read notes: %w", run, err)
		}
		for pair := range slices.Chunk(page, 2) {
			item, err := strconv.ParseInt(pair[0], 10, 64)
			if err != nil || len(pair) < 2 {
				return nil, 0, fmt.Errorf("run %s: note on row %s, which is no number", run, quoted(pair[0]))
			}
			if seen[item] {
				continue
			}
			seen[item] = true
			row, err := openRow(run, item, pair[1])
			if err != nil {
				return nil, 0, err
			}
			rows = append(rows, row)
		}
	}
	return rows, total, nil
}

// bitmap reads a page of a bitmap from byte start on; it is shorter, or empty,
// where the bitmap ends.
func (l *Ledger) bitmap(ctx context.Context, run, part string, start int64) ([]byte, error) {
	return l.bits(ctx, run, part, start, bitmapPage)
}

// bits reads n bytes of a bitmap.
func (l *Ledger) bits(ctx context.Context, run, part string, start, n int64) ([]byte, error) {
	page, err := l.rdb.GetRange(ctx, key(run, part), start, start+n-1).Bytes()
	if err != nil {
		return nil, fmt.Errorf("run %s: read %s rows: %w", run, part, err)
	}
	return page, nil
}

// fields reads the rows' fields of a hash: each a string, or nil.
func (l *Ledger) fields(ctx context.Context, run, part string, items []int64) ([]any, error) {
	names := make([]string, len(items))
	for i, item := range items {
		names[i] = strconv.FormatInt(item, 10)
	}
	texts, err := l.rdb.HMGet(ctx, key(run, part), names...).Result()
	if err != nil {
		return nil, fmt.Errorf("run %s: read %s: %w", run, part, err)
	}
	return texts, nil
}

// isSet reads a bit as Redis numbers them: the first is an byte's highest.
func isSet(bitmap []byte, bit int64) bool {
	return bit/8 < int64(len(bitmap)) && bitmap[bit/8]&(0x80>>(bit%8)) != 0
}

// unset returns first plus the number of each bit that is not set, below past.
func unset(bitmap []byte, first, past int64) []int64 {
	var items []int64
	for item := first; item < past; item++ {
		if !isSet(bitmap, item-first) {
			items = append(items, item)
		}
	}
	return items
}

// union returns first plus the number of each bit that is set in a or in b.
func union(first int64, a, b []byte) []int64 {
	var items []int64
	for i := range max(len(a), len(b)) {
		var octet uint8
		if i < len(a) {
			octet |= a[i]
		}
		if i < len(b) {
			octet |= b[i]
		}
		for octet != 0 {
			bit := bits.LeadingZeros8(octet)
			items = append(items, first+int64(i)*8+int64(bit))
			octet &^= 0x80 >> bit
		}
	}
	return items
}
