package runs

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// RowEvidence is the evidence kept with a settled row: see [RowState].
type RowEvidence struct {
	Item     int64
	Evidence []byte
}

// Evidence returns the rows of a run with which evidence was kept as they were settled, in
// no order. It reads in pages; a row that is settled meanwhile may or may not be among them.
// A run that does not exist has none.
func (l *Ledger) Evidence(ctx context.Context, run string) iter.Seq2[RowEvidence, error] {
	return func(yield func(RowEvidence, error) bool) {
		if err := checkID(run); err != nil {
			yield(RowEvidence{}, err)
			return
		}
		core, found, err := l.inCore(ctx, run)
		if found {
			err = l.eachCoreEvidence(ctx, core, func(row RowEvidence) bool { return yield(row, nil) })
		}
		if err != nil {
			yield(RowEvidence{}, err)
		}
		if found || err != nil {
			return
		}
		seen := map[int64]bool{} // HSCAN may return a field twice
		for cursor := uint64(0); ; {
			page, next, err := l.rdb.HScan(ctx, key(run, "fates"), cursor, "*:"+evidenceMark, hashPage).Result()
			if err != nil {
				yield(RowEvidence{}, fmt.Errorf("run %s: read evidence: %w", run, err))
				return
			}
			for i := 0; i+1 < len(page); i += 2 {
				item, err := strconv.ParseInt(strings.TrimSuffix(page[i], ":"+evidenceMark), 10, 64)
				if err != nil || seen[item] {
					continue
				}
				seen[item] = true
				if !yield(RowEvidence{item, []byte(page[i+1])}, nil) {
					return
				}
			}
			if cursor = next; cursor == 0 {
				return
			}
		}
	}
}

// IDs returns the ids of all runs, in no order, also of single rows, which [Ledger.List]
// leaves out. Some may be deleted by now.
func (l *Ledger) IDs(ctx context.Context) ([]string, error) {
	ids, err := l.rdb.ZRange(ctx, indexKey, 0, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("list all runs: %w", err)
	}
	core, err := l.coreIDs(ctx)
	if err != nil {
		return nil, fmt.Errorf("list all runs: %w", err)
	}
	ids = append(ids, core...)
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
