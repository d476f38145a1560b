package ledger

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
)

// Phase is where a row is on its way.
type Phase string

// The phases of a row.
const (
	PhaseQueued     Phase = "queued"      // never released
	PhaseReleased   Phase = "released"    // not in progress yet
	PhaseInProgress Phase = "in progress" // executed by a worker
	PhaseWaiting    Phase = "waiting"     // due at a time
	PhaseSettled    Phase = "settled"
)

// RowState is the state of a row, for people to read.
type RowState struct {
	Row     Row
	Phase   Phase
	Content []byte
	// Due is that of a waiting row, in Redis' time.
	Due time.Time
	// Since is when a row was released, or its execution began, in Redis' time.
	Since time.Time
	// Session executes a row in progress.
	Session SessionID
	// Checkpoint is that of an open row.
	Checkpoint Checkpoint
	// Intent is that of an open row; nil if there is none.
	Intent *Intent
	// Result is that of a settled row.
	Result Result
	// Err says why content, checkpoint or intent cannot be read; nil if they can.
	Err error
}

// rowsPage is the largest number of rows that are read at once: to read them blocks Redis
// for 1 ms.
const rowsPage = 128

// pageBytes is the stored size from which on no more rows are read at once.
const pageBytes = 128 << 10

// Rows returns at most n rows of a segment, staged or committed, from a row on, as they are
// at one time. There are at most 128, and fewer if they are large; there is none behind the last
// row.
func (l *Ledger) Rows(ctx context.Context, seg Segment, from Row, n int) (rows []RowState, err error) {
	defer wrap(&err, "segment %s: read rows", seg)
	if err := checkRows([]Row{from}); err != nil {
		return nil, err
	}
	if n < 1 {
		return nil, fmt.Errorf("%d rows: want 1 or more", n)
	}
	a, err := l.onSegment(ctx, rowsScript, seg, int(from), min(n, rowsPage))
	if err != nil {
		return nil, err
	}
	content, err := parseContents(int(a.int(3)), a.list(4))
	if err != nil {
		return nil, err
	}
	rows = make([]RowState, len(a.list(2)))
	for i := range rows {
		rows[i] = parseRowState(from+Row(i), a.list(2).list(i), fromMillis(a.int(1)))
		bytes, err := content.row(rows[i].Row)
		rows[i].Content, rows[i].Err = bytes, cmp.Or(rows[i].Err, err)
	}
	return rows, nil
}

func parseRowState(row Row, a answer, now time.Time) RowState {
	r := RowState{Row: row}
	if a.text(0) == "s" {
		r.Phase, r.Result = PhaseSettled, resultOf(a.int(1) == 1, a.text(2))
		return r
	}
	at := fromMillis(a.int(1))
	switch a.text(0) {
	case "b":
		_, session, _ := strings.Cut(a.text(2), ",")
		r.Phase, r.Since, r.Session = PhaseInProgress, at, SessionID(session)
	case "r":
		r.Phase, r.Since = PhaseReleased, at
	case "w":
		r.Phase, r.Due = PhaseWaiting, at
	default:
		r.Phase = PhaseQueued
	}
	r.Checkpoint, r.Intent, r.Err = parseStored(row, a.text(3), a.int(4) == 1, a.text(5), now)
	return r
}

func resultOf(cancelled bool, stored string) Result {
	switch {
	case stored != "":
		return parseResult(stored)
	case cancelled:
		return Result{Outcome: Cancelled}
	}
	return Result{Outcome: Done}
}

// bit reports whether the bit of a bitmap is set.
func bit(bitmap string, n int) bool {
	return n/8 < len(bitmap) && bitmap[n/8]&(0x80>>(n%8)) != 0
}
