package ledger

import (
	"context"
	"fmt"
	"strconv"
)

// Stage is the stage of a row between its executions.
type Stage string

const (
	// StageCheck is the stage of a row that is to be checked, first or again.
	StageCheck Stage = "check"
	// StageReady is the stage of a row that was proven once and needs a permit.
	StageReady Stage = "ready"
)

// letter returns the letter by which a stage is stored; "" for one that is not known.
func (s Stage) letter() string {
	switch s {
	case StageCheck:
		return "c"
	case StageReady:
		return "r"
	}
	return ""
}

// stageOf returns the stage that is stored as a letter. That of a newer version is the
// letter itself.
func stageOf(letter string) Stage {
	switch letter {
	case "c":
		return StageCheck
	case "r":
		return StageReady
	}
	return Stage(letter)
}

// Quota bounds the number of rows to release, by sort.
type Quota struct {
	// First bounds the rows that were never begun.
	First int
	// Check and Ready bound the due rows at these stages.
	Check, Ready int
}

// Release is the answer to [Ledger.Release]: rows to be executed now.
type Release struct {
	Token Token
	Rows  []ReleasedRow
	// Receipt describes the segment after the release. It has no statuses.
	Receipt
}

// ReleasedRow is a released row with its content.
type ReleasedRow struct {
	Row Row
	// Stage is the stage of the row, and First reports whether it was never begun.
	Stage   Stage
	First   bool
	Content []byte
	// Err says why the content cannot be read; nil if it can.
	Err error
}

// Release releases due rows: first rows at stage ready, then rows at stage check, then
// rows that were never begun. Of each stage, rows with an intent come first, then the
// others in the order of their due times. The rows carry a new token, which
// [Ledger.Begin] exchanges. A row that is not begun within [ReleaseTimeout] is due again;
// so is one whose execution takes longer than [ExecutionLimit]. While the run is paused,
// held, incomplete or not yet to start, only rows with an intent are released. At most
// 250 rows of each kind are released at once. At maxmemory nothing is released and the
// segment stays as it is.
func (l *Ledger) Release(ctx context.Context, seg Segment, q Quota) (Release, error) {
	token := NewToken()
	a, err := l.onSegment(ctx, releaseScript, seg, string(token),
		min(q.First, scriptRows), min(q.Check, scriptRows), min(q.Ready, scriptRows))
	if err != nil {
		return Release{}, fmt.Errorf("segment %s: release: %w", seg, err)
	}
	r := Release{Token: token}
	if r.Receipt, err = l.receipt(ctx, seg, a); err != nil {
		return Release{}, err
	}
	if r.Rows, err = releasedRows(a.list(7)); err != nil {
		return Release{}, fmt.Errorf("segment %s: release: %w", seg, err)
	}
	return r, nil
}

// releasedRows reads rows and chunks from the values of the script.
func releasedRows(a answer) ([]ReleasedRow, error) {
	per := int(a.int(1))
	if per < 1 {
		return nil, fmt.Errorf("stored rows of a chunk: %d", per)
	}
	type chunk struct {
		rows [][]byte
		err  error
	}
	chunks := map[int]chunk{}
	for flat := a.list(2); len(flat) >= 2; flat = flat[2:] {
		number, err := strconv.Atoi(flat.text(0))
		if err != nil {
			return nil, fmt.Errorf("number of a chunk: %w", err)
		}
		rows, err := unpackChunk([]byte(flat.text(1)))
		chunks[number] = chunk{rows, err}
	}
	var released []ReleasedRow
	for flat := a.list(0); len(flat) >= 2; flat = flat[2:] {
		row, err := strconv.Atoi(flat.text(0))
		if err != nil {
			return nil, fmt.Errorf("number of a row: %w", err)
		}
		r, c := ReleasedRow{Row: Row(row), Stage: StageCheck}, chunks[row/per]
		switch flat.text(1) {
		case "f":
			r.First = true
		case "r":
			r.Stage = StageReady
		}
		switch {
		case c.err != nil:
			r.Err = c.err
		case row%per >= len(c.rows):
			r.Err = fmt.Errorf("row %d is not stored", row)
		default:
			r.Content = c.rows[row%per]
		}
		released = append(released, r)
	}
	return released, nil
}

// Return makes rows due at once that were released and not begun, for example because
// they could not be enqueued. Rows of a cancelled run it settles as cancelled.
func (l *Ledger) Return(ctx context.Context, seg Segment, t Token, rows ...Row) (Receipt, error) {
	if err := t.Validate(); err != nil {
		return Receipt{}, fmt.Errorf("segment %s: return: %w", seg, err)
	}
	return l.write(ctx, "return", returnScript, seg, rows, string(t))
}
