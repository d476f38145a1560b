package scan

import (
	"encoding/json"
	"fmt"
	"slices"

	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/scan/progress"
	"orgops/internal/untrusted"
)

const (
	// maxLate is how many organizations are put off to the end because they could not be
	// read: beyond that they are not the cause.
	maxLate = 100
	// maxPages bounds the pages of one organization's domains: it has at most a hundred
	// domains, which are one page.
	maxPages = 100
)

// position is where the next step begins, stored as JSON: the content of the scan's row. That of a
// scan which has not begun is its progress alone.
type position struct {
	progress.Scan
	Step int64 `json:"step,omitempty"`

	From    string         `json:"from,omitempty"`     // the checkpoint of the next page of organizations
	Through bool           `json:"through,omitempty"`  // there is no such page
	Left    []organization `json:"left,omitempty"`     // of the pages before, to be read
	Late    []organization `json:"late,omitempty"`     // that could not be read, to be tried again at the end
	WhyGone string         `json:"why_gone,omitempty"` // why the first organization that is gone counts as gone

	Pages int64  `json:"pages,omitempty"`
	Mark  string `json:"mark,omitempty"` // an earlier checkpoint

	// Of the removal of a client everywhere: a bit for each row of the list whose organization still
	// has the client, the number of those that are not in the list with the ids of the first, and the
	// row of the list that the next step takes.
	Still []byte   `json:"still,omitempty"`
	New   int64    `json:"new,omitempty"`
	First []string `json:"first,omitempty"`
	Next  int64    `json:"next,omitempty"`
}

// through reports whether there is no other step.
func (p position) through() bool {
	taken := p.List == "" || p.Next >= p.Counted
	return p.Through && len(p.Left)+len(p.Late) == 0 && taken
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
func (p *position) follow(next string) error {
	p.From = next
	p.Through = next == ""
	p.Pages++
	switch {
	case p.Through:
		return nil
	case next == p.Mark:
		return engine.Refuse("the list of organizations never ends: a checkpoint was returned twice")
	case p.Pages&(p.Pages-1) == 0:
		p.Mark = next
	}
	return nil
}

// readPosition reads the content of a scan's row.
func readPosition(content []byte) (p position, err error) {
	err = engine.Decode(content, &p)
	if id := p.Organization; id != "" && p.Step == 0 {
		p.Through = true
		p.Left = []organization{{ID: id}}
	}
	return p, err
}

// outcome is the result of a step: the position behind it, and the rows that it found.
type outcome struct {
	position
	rows []ledger.FoundRow
}

// step returns the step whose outcome this is.
func (o *outcome) step() (s ledger.ScanStep, err error) {
	o.Ended = o.Early != "" || o.through()
	if o.Ended {
		o.doubtGone()
	}
	s = ledger.ScanStep{Number: o.Step, Rows: o.rows, Last: o.Ended}
	o.Step++
	if s.Progress, err = json.Marshal(o.Scan); err == nil {
		s.Position, err = json.Marshal(o.position)
	}
	if err != nil {
		err = fmt.Errorf("write the scan's position: %w", err)
	}
	return s, err
}

// givenUp returns the outcome of the last step of a scan that ends early.
func (p position) givenUp(why string) outcome {
	o := outcome{position: p}
	o.Left = nil
	o.Late = nil
	o.Through = true
	for _, org := range slices.Concat(p.Left, p.Late) {
		o.miss(org.ID, why)
	}
	if !p.Through || p.Client != "" {
		o.Early = untrusted.Clip(why, maxReason)
	}
	return o
}

// miss counts an organization that is not read.
func (p *position) miss(organization, why string) {
	p.missed(fmt.Sprintf("organization %s: %s", organization, why))
}

// missed counts an organization that why names.
func (p *position) missed(why string) {
	p.Missed++
	if p.Why == "" {
		p.Why = untrusted.Clip(why, maxReason)
	}
}

// goneSince counts an organization that was deleted since it was listed.
func (p *position) goneSince(organization, why string) {
	p.Gone++
	if p.WhyGone == "" {
		p.WhyGone = untrusted.Clip(fmt.Sprintf("organization %s: %s", organization, why), maxReason)
	}
}

// doubtGone counts those that are gone as missed at the end, if no other organization was
// read: rather their domains cannot be read where they are requested.
func (p *position) doubtGone() {
	if p.Gone == 0 || p.Read > 0 {
		return
	}
	p.Missed += p.Gone
	p.Gone = 0
	if p.Why == "" {
		p.Why = p.WhyGone
	}
}
