package console

import (
	"cmp"
	"slices"

	"orgops/internal/ledger"
)

// segment is a part of a run's bar: its rows of one outcome, or those that are open. The legend
// below the bar repeats name and number of each.
type segment struct {
	Name  string
	Rows  int64
	Tone  string // a class of ops.css; empty: open, or cancelled
	Open  bool
	X     int64 // of the bar's width
	Width int64
}

const (
	// barWidth is the width of a bar, in units of its own.
	barWidth = 1000
	// leastSegment is how wide a segment is at least, so that one row of a million is seen.
	leastSegment = 8
)

// barOf returns the bar of a run: successful outcomes first, then the others, and open rows last.
func barOf(r ledger.Run) (bar []segment) {
	for outcome, rows := range r.Counts {
		if rows > 0 {
			bar = append(bar, segment{Name: string(outcome), Rows: rows, Tone: toneOf(outcome)})
		}
	}
	tones := []string{"good", "wait", "bad", ""}
	slices.SortFunc(bar, func(a, b segment) int {
		return cmp.Or(cmp.Compare(slices.Index(tones, a.Tone), slices.Index(tones, b.Tone)), cmp.Compare(a.Name, b.Name))
	})
	if open := r.Rows - r.Settled(); open > 0 {
		bar = append(bar, segment{Name: "open", Rows: open, Open: true})
	}

	// Each has its least width, and its share of the rest.
	all := int64(0)
	for _, part := range bar {
		all += part.Rows
	}
	rest := barWidth - leastSegment*int64(len(bar))
	before := int64(0)
	for i := range bar {
		part := &bar[i]
		part.X = leastSegment*int64(i) + rest*before/all
		before += part.Rows
		part.Width = leastSegment*int64(i+1) + rest*before/all - part.X
	}
	return bar
}

// toneOf returns a class of ops.css for an outcome.
func toneOf(outcome ledger.Outcome) string {
	switch outcome {
	case ledger.Done, ledger.Unchanged:
		return "good"
	case ledger.AtRisk:
		return "wait"
	case ledger.Cancelled:
		return ""
	}
	return "bad"
}
