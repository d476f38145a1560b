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
	// bitmapPage is how many octets of a bitmap are read at once: a million rows
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
	return func(yield func(Fate, error) bool) {
		if err := l.eachFate(ctx, run, func(f Fate) bool { return yield(f, nil) }); err != nil {
			yield(Fate{}, err)
		}
	}
}

func (l *Ledger) eachFate(ctx context.Context, run string, yield func(Fate) bool) error {
	if err := checkID(run); err != nil {
		return err
	}
	if _, err := l.extent(ctx, run, "settled"); err != nil {
		return err
	}
	for start := int64(0); ; start += bitmapPage {
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
		for page := range slices.Chunk(union(start*8, told, cancelled), hashPage) {
			texts, err := l.fields(ctx, run, "fates", page)
			if err != nil {
				return err
			}
			for i, item := range page {
				f := Fate{Item: item}
				switch text, ok := texts[i].(string); {
				case ok:
					f.Outcome, f.Detail, _ = strings.Cut(text, ":")
				case isSet(cancelled, item-start*8):
					f.Outcome = "cancelled"
				default: // Put right between the two reads: plainly done now.
					continue
				}
				if !yield(f) {
					return nil
				}
			}
		}
	}
}

// OpenRows returns the first most rows that are not settled, in their order, or
// [ErrNotFound]. Before the run is sealed these are among the rows stored so far.
func (l *Ledger) OpenRows(ctx context.Context, run string, most int) ([]OpenRow, error) {
	r, err := l.Get(ctx, run)
	if err != nil {
		return nil, err
	}
	past := r.Total
	if !r.Sealed {
		if past, err = l.extent(ctx, run, "stored"); err != nil {
			return nil, err
		}
	}
	items, err := l.openItems(ctx, run, past, most)
	if err != nil {
		return nil, err
	}
	open := make([]OpenRow, 0, len(items))
	for page := range slices.Chunk(items, hashPage) {
		notes, err := l.fields(ctx, run, "notes", page)
		if err != nil {
			return nil, err
		}
		for i, item := range page {
			row := OpenRow{Item: item}
			if text, ok := notes[i].(string); ok {
				next, reason, _ := strings.Cut(text, ":")
				ms, err := strconv.ParseInt(next, 10, 64)
				if err != nil {
					return nil, fmt.Errorf("run %s: note on row %d: %w", run, item, err)
				}
				row.Reason, row.Next = reason, fromMillis(ms)
			}
			open = append(open, row)
		}
	}
	return open, nil
}

// openItems returns the first most rows below past whose settled bit is not set.
func (l *Ledger) openItems(ctx context.Context, run string, past int64, most int) ([]int64, error) {
	var items []int64
	for start := int64(0); start*8 < past && len(items) < most; start += bitmapPage {
		settled, err := l.bitmap(ctx, run, "settled", start)
		if err != nil {
			return nil, err
		}
		for item := start * 8; item < min(past, (start+bitmapPage)*8) && len(items) < most; item++ {
			if !isSet(settled, item-start*8) {
				items = append(items, item)
			}
		}
	}
	return items, nil
}

// bitmap reads a page of a bitmap from octet start on; it is shorter, or empty,
// where the bitmap ends.
func (l *Ledger) bitmap(ctx context.Context, run, part string, start int64) ([]byte, error) {
	return l.bits(ctx, run, part, start, bitmapPage)
}

// bits reads n octets of a bitmap.
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

// isSet reads a bit as Redis numbers them: the first is an octet's highest.
func isSet(bitmap []byte, bit int64) bool {
	return bit/8 < int64(len(bitmap)) && bitmap[bit/8]&(0x80>>(bit%8)) != 0
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
