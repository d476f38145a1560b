package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// Running is an execution that has rows of a segment in progress.
type Running struct {
	Segment Segment
	Nonce   Nonce
	Rows    []Row
}

// Running returns the executions of a session that have rows of the segments in progress.
// The rows of one whose end was lost can be given back with its nonce, by [Ledger.End]:
// that has no effect on any other execution. Segments without such rows take one round
// trip together. If some segments fail it returns the others and an error.
func (l *Ledger) Running(ctx context.Context, of SessionID, segs ...Segment) (all []Running, failed error) {
	if len(segs) == 0 {
		return nil, nil
	}
	sessions, failed := l.sessionsOf(ctx, segs)
	for i, seg := range segs {
		if !slices.Contains(sessions[i], of) {
			continue
		}
		found, err := l.running(ctx, of, seg)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("segment %s: read rows in progress: %w", seg, err))
		}
		all = append(all, found...)
	}
	return all, failed
}

// running returns the executions of a session in one segment. While rows begin and end
// it may miss some.
func (l *Ledger) running(ctx context.Context, of SessionID, seg Segment) (all []Running, err error) {
	places := map[Nonce]int{}
	for from := 0; from >= 0; {
		a, err := l.onSegment(ctx, runningScript, seg, from, scriptRows, string(of))
		if err != nil {
			return all, err
		}
		from = int(a.int(1))
		for pair := range slices.Chunk(a.list(2).texts(), 2) {
			row, err := strconv.Atoi(pair[0])
			if err != nil {
				return all, fmt.Errorf("number of a row: %w", err)
			}
			nonce := Nonce(pair[1])
			place, known := places[nonce]
			if !known {
				place = len(all)
				places[nonce], all = place, append(all, Running{Segment: seg, Nonce: nonce})
			}
			all[place].Rows = append(all[place].Rows, Row(row))
		}
	}
	return all, nil
}
