package scan

import (
	"encoding/json"
	"fmt"
	"reflect"

	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/sweep"
)

const (
	// maxLate is how many organizations are put off to the end because they could not be
	// read: beyond that they are not the cause.
	maxLate = 100
	// maxPages bounds the pages of one organization's domains: it has at most a hundred
	// domains, which are one page.
	maxPages = 100
	// maxEmptyPages is how many pages of organizations in a row may be empty: see
	// cursor.follow.
	maxEmptyPages = 100
)

// cursor is where the next step begins, stored as JSON.
type cursor struct {
	From    string         `json:"from,omitempty"`    // the checkpoint of the next page of organizations
	Through bool           `json:"through,omitempty"` // there is no such page
	Left    []organization `json:"left,omitempty"`    // of the pages before, to be read
	Late    []organization `json:"late,omitempty"`    // that could not be read, to be tried again at the end
	Gone    string         `json:"gone,omitempty"`    // why the first organization that is gone counts as gone

	Pages int64  `json:"pages,omitempty"`
	Empty int    `json:"empty,omitempty"` // the number of last pages without an organization
	Mark  string `json:"mark,omitempty"`  // an earlier checkpoint

	// Attempts is how often the next step has failed, or began and did not end.
	Attempts int `json:"attempts,omitempty"`
}

// organization is one whose domains are to be read.
type organization struct {
	ID    string `json:"id"`
	From  string `json:"from,omitempty"` // the checkpoint of the next page of its domains
	Pages int    `json:"pages,omitempty"`
}

// follow sets the next page of organizations, and makes sure that the pages come to an end:
// the next checkpoint is compared with an earlier one, which is replaced each time the
// number of pages has doubled. So a circle of any length is found, and one checkpoint is
// kept (Brent 1980).
func (c *cursor) follow(next string, organizations int) error {
	c.From, c.Through = next, next == ""
	c.Pages++
	if c.Empty++; organizations > 0 {
		c.Empty = 0
	}
	switch {
	case c.Through:
		return nil
	case next == c.Mark:
		return failed("the list of organizations never ends: a checkpoint was returned twice")
	case c.Empty > maxEmptyPages:
		return failed(fmt.Sprintf("the list of organizations does not end: %d empty pages in a row", c.Empty))
	case c.Pages&(c.Pages-1) == 0:
		c.Mark = next
	}
	return nil
}

// failed ends the scan early.
func failed(why string) error {
	return engine.Settle(ledger.Result{Outcome: engine.Failed, Detail: why})
}

// position is the state with which the next step begins.
type position struct {
	number   int64
	progress sweep.Progress
	cursor   cursor
	ended    bool
}

// readPosition reads the position of a scan. If a newer version wrote it the error is an
// [engine.UnknownError].
func readPosition(s ledger.Scan, stored []byte) (position, error) {
	at := position{number: s.Step, ended: s.Ended}
	if err := engine.Decode(s.Progress, &at.progress); err != nil {
		return at, fmt.Errorf("the scan's progress: %w", err)
	}
	if len(stored) > 0 {
		if err := engine.Decode(stored, &at.cursor); err != nil {
			return at, fmt.Errorf("the scan's cursor: %w", err)
		}
	} else if id := at.progress.Organization; id != "" {
		at.cursor = cursor{Through: true, Left: []organization{{ID: id}}}
	}
	return at, nil
}

// equals reports whether two positions are the same apart from number and attempts.
func (at position) equals(other position) bool {
	a, b := at.cursor, other.cursor
	a.Attempts, b.Attempts = 0, 0
	return at.ended == other.ended && at.progress == other.progress && reflect.DeepEqual(a, b)
}

// outcome is the result of a step: where the scan is then, and the rows that it found.
type outcome struct {
	progress sweep.Progress
	cursor   cursor
	rows     []ledger.FoundRow
}

// step returns the form in which the ledger stores the outcome of the step at a position.
func (o outcome) step(at position) (ledger.ScanStep, error) {
	o.progress.Ended = o.progress.Early != "" || o.cursor.Through && len(o.cursor.Left)+len(o.cursor.Late) == 0
	if o.progress.Ended {
		o.doubtGone()
	}
	progress, err := json.Marshal(o.progress)
	if err != nil {
		return ledger.ScanStep{}, fmt.Errorf("write the scan's progress: %w", err)
	}
	next, err := json.Marshal(o.cursor)
	if err != nil {
		return ledger.ScanStep{}, fmt.Errorf("write the scan's cursor: %w", err)
	}
	return ledger.ScanStep{Number: at.number, Progress: progress, Cursor: next, Rows: o.rows, Last: o.progress.Ended}, nil
}

// givenUp returns the outcome of the last step of a scan that ends early.
func (at position) givenUp(why string) outcome {
	o := outcome{progress: at.progress, cursor: cursor{Gone: at.cursor.Gone, Through: true}}
	for _, left := range [][]organization{at.cursor.Left, at.cursor.Late} {
		for _, org := range left {
			o.miss(org.ID, why)
		}
	}
	if !at.cursor.Through {
		o.progress.Early = engine.Clip(why, maxReason)
	}
	return o
}

// counted returns the outcome of a step that only counts attempts of the next one.
func (at position) counted(attempts int) outcome {
	o := outcome{progress: at.progress, cursor: at.cursor}
	o.cursor.Attempts = attempts
	return o
}

// miss counts an organization that is not read.
func (o *outcome) miss(organization, why string) {
	o.missed(fmt.Sprintf("organization %s: %s", organization, why))
}

// missed counts an organization that why names.
func (o *outcome) missed(why string) {
	o.progress.Missed++
	if o.progress.Why == "" {
		o.progress.Why = engine.Clip(why, maxReason)
	}
}

// gone counts an organization that was deleted since it was listed.
func (o *outcome) gone(organization, why string) {
	o.progress.Gone++
	if o.cursor.Gone == "" {
		o.cursor.Gone = engine.Clip(fmt.Sprintf("organization %s: %s", organization, why), maxReason)
	}
}

// doubtGone counts those that are gone as missed at the end, if no other organization was
// read: rather their domains cannot be read where they are requested.
func (o *outcome) doubtGone() {
	p := &o.progress
	if p.Gone == 0 || p.Read > 0 {
		return
	}
	p.Missed, p.Gone = p.Missed+p.Gone, 0
	if p.Why == "" {
		p.Why = o.cursor.Gone
	}
}
