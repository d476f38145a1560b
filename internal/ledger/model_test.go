package ledger_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"orgops/internal/ledger"
)

// model is the ledger of one run as plain data, written from the documentation alone.
// Times are offsets on a clock that the simulation moves.
type model struct {
	now      time.Duration
	header   modelControl
	segments []*modelSegment
}

type modelControl struct{ paused, cancelled bool }

type modelSegment struct {
	control modelControl
	rows    []modelRow
	grouped bool
	// groups are the rows in the order of their first release.
	groups [][]ledger.Row
}

type modelRow struct {
	phase    ledger.Phase
	token    ledger.Token
	nonce    ledger.Nonce
	session  ledger.SessionID
	since    time.Duration // of the release or the begin
	due      time.Duration
	ready    bool
	attempts int
	died     int
	begun    bool   // some execution left it open
	ended    string // token or nonce of the release or execution that ended last
	memo     string
	note     string
	intent   string
	outcome  ledger.Outcome
	detail   string
}

// add adds a segment of size rows, of which some are settled and some due later. Rows whose
// numbers have the same last digit are a group if they are grouped.
func (m *model) add(size int, grouped bool, settled map[ledger.Row]ledger.Result, dues map[ledger.Row]time.Duration) {
	s := &modelSegment{rows: make([]modelRow, size), grouped: grouped}
	apart := map[ledger.Row]bool{}
	for i := range s.rows {
		s.rows[i].phase = ledger.PhaseQueued
	}
	for row, r := range settled {
		s.rows[row].settle(r.Outcome, r.Detail)
		apart[row] = true
	}
	for row, due := range dues {
		s.rows[row].phase, s.rows[row].due = ledger.PhaseWaiting, due
		apart[row] = true
		s.grouped = s.grouped || int(row) >= len(dues) // each row is a group, behind these
	}
	m.segments = append(m.segments, s)
	if !grouped {
		for i := range size {
			s.groups = append(s.groups, []ledger.Row{ledger.Row(i)})
		}
		return
	}
	for digit := range modelGroups {
		var group []ledger.Row
		for i := digit; i < size; i += modelGroups {
			if !apart[ledger.Row(i)] {
				group = append(group, ledger.Row(i))
			}
		}
		if len(group) > 0 {
			s.groups = append(s.groups, group)
		}
	}
	slices.SortStableFunc(s.groups, func(a, b []ledger.Row) int {
		return cmp.Compare(s.firstOf(a[0], apart), s.firstOf(b[0], apart))
	})
}

// modelGroups is the number of groups of a segment.
const modelGroups = 3

// modelKey returns the group of a row of the simulation.
func modelKey(content []byte) string {
	var n int
	_, _ = fmt.Sscanf(string(content), "row %d", &n)
	return fmt.Sprint(n % modelGroups)
}

// firstOf returns the first row of a row's group that is not apart.
func (s *modelSegment) firstOf(row ledger.Row, apart map[ledger.Row]bool) ledger.Row {
	for first := row % modelGroups; ; first += modelGroups {
		if !apart[first] {
			return first
		}
	}
}

func (m *model) clone() *model {
	c := &model{now: m.now, header: m.header}
	for _, s := range m.segments {
		c.segments = append(c.segments, &modelSegment{control: s.control, grouped: s.grouped, groups: s.groups,
			rows: slices.Clone(s.rows)})
	}
	return c
}

func (m *model) ended() bool {
	return !slices.ContainsFunc(m.segments, func(s *modelSegment) bool { return s.open() })
}

func (s *modelSegment) open() bool {
	return slices.ContainsFunc(s.rows, func(r modelRow) bool { return r.phase != ledger.PhaseSettled })
}

func (m *model) counts() ledger.Counts {
	c := ledger.Counts{}
	for _, s := range m.segments {
		for _, r := range s.rows {
			if r.phase == ledger.PhaseSettled {
				c[r.outcome]++
			}
		}
	}
	return c
}

// change changes the control of the run.
func (m *model) change(name string) {
	cancels := name == "cancel" && !m.header.cancelled
	switch name {
	case "cancel":
		m.header.cancelled = true
	case "pause", "resume":
		m.header.paused = name == "pause"
	}
	for _, s := range m.segments {
		s.control = m.header
		if cancels {
			s.cancel()
		}
	}
}

func (s *modelSegment) cancel() {
	for i := range s.rows {
		r := &s.rows[i]
		if r.phase != ledger.PhaseSettled && r.phase != ledger.PhaseInProgress && r.intent == "" {
			r.settle(ledger.Cancelled, "")
		}
	}
}

func (r *modelRow) settle(o ledger.Outcome, detail string) {
	*r = modelRow{phase: ledger.PhaseSettled, outcome: o, detail: detail}
}

// wait makes the row due, or settles it after a cancel.
func (s *modelSegment) wait(r *modelRow, due time.Duration) {
	if s.control.cancelled && r.intent == "" {
		r.settle(ledger.Cancelled, "")
		return
	}
	if r.phase == ledger.PhaseInProgress {
		r.begun = true
	}
	r.phase, r.due, r.token, r.nonce, r.session = ledger.PhaseWaiting, due, "", "", ""
}

// lapse makes rows due whose release or begin has lapsed.
func (m *model) lapse(s *modelSegment) {
	for i := range s.rows {
		switch r := &s.rows[i]; {
		case r.phase == ledger.PhaseReleased && m.now-r.since >= ledger.ReleaseTimeout:
			s.wait(r, m.now)
		case r.phase == ledger.PhaseInProgress && m.now-r.since >= ledger.ExecutionLimit:
			r.attempts++
			s.wait(r, m.now)
		}
	}
}

// releasable returns the rows that may be released, by stage; of the others those that
// wait, and those that were never released.
func (m *model) releasable(s *modelSegment) (ready, check, waiting, queued []ledger.Row) {
	for i, r := range s.rows {
		row := ledger.Row(i)
		switch {
		case r.phase == ledger.PhaseWaiting && r.due <= m.now && (r.intent != "" || !s.control.paused):
			switch {
			case !r.begun:
				waiting = append(waiting, row)
			case r.ready:
				ready = append(ready, row)
			default:
				check = append(check, row)
			}
		case r.phase == ledger.PhaseQueued && !s.control.paused:
			queued = append(queued, row)
		}
	}
	return ready, check, waiting, queued
}

// firstRelease returns the rows that are released, of those that never were: up to n, in
// at most so many pieces, of most rows or fewer. others is the number of other rows in the release.
func (s *modelSegment) firstRelease(queued []ledger.Row, n, pieces, most, others int) (all []ledger.Row) {
	for _, group := range s.groups {
		var open []ledger.Row
		for _, row := range group {
			if slices.Contains(queued, row) {
				open = append(open, row)
			}
		}
		for piece := range slices.Chunk(open, most) {
			size := len(piece)
			if pieces == 0 || len(all) == n || (len(all)+others > 0 && len(all)+size > n) {
				return all
			}
			all = append(all, piece[:min(size, n)]...)
			pieces--
		}
	}
	return all
}

func (m *model) release(s *modelSegment, token ledger.Token, rows []ledger.Row) {
	for _, row := range rows {
		r := &s.rows[row]
		r.phase, r.token, r.since = ledger.PhaseReleased, token, m.now
	}
}

func (m *model) begin(s *modelSegment, e ledger.Execution, row ledger.Row) ledger.Status {
	r := &s.rows[row]
	switch {
	case r.phase == ledger.PhaseSettled:
		return ledger.RowSettled
	case r.phase == ledger.PhaseInProgress && r.nonce == e.Nonce && r.session == e.Session:
		return ledger.RowAdmitted
	case r.phase != ledger.PhaseReleased || r.token != e.Token:
		return ledger.RowSuperseded
	case s.control.paused && r.intent == "":
		s.wait(r, m.now)
		return ledger.RowStopped
	}
	r.phase, r.nonce, r.session, r.since, r.token = ledger.PhaseInProgress, e.Nonce, e.Session, m.now, ""
	return ledger.RowAdmitted
}

// owned returns the row if the nonce executes it, or the status of the write.
func (s *modelSegment) owned(n ledger.Nonce, row ledger.Row) (*modelRow, ledger.Status) {
	switch r := &s.rows[row]; {
	case r.phase == ledger.PhaseSettled:
		return nil, ledger.RowSettled
	case r.phase != ledger.PhaseInProgress || r.nonce != n:
		return nil, ledger.RowSuperseded
	default:
		return r, ledger.RowWritten
	}
}

// allowed returns whether the execution may make a request for the row.
func (s *modelSegment) allowed(n ledger.Nonce, row ledger.Row) ledger.Status {
	r, status := s.owned(n, row)
	switch {
	case r == nil:
		return status
	case r.intent == "" && s.control.cancelled:
		return ledger.RowCancelled
	case r.intent == "" && s.control.paused:
		return ledger.RowStopped
	}
	return ledger.RowAdmitted
}

// die ends the execution of a row with its worker.
func (s *modelSegment) die(r *modelRow, now time.Duration) {
	r.died++
	if r.died > 2 {
		r.attempts++
	}
	if r.died > 1 {
		now += time.Duration(min(1<<(r.died-2), 1800)) * time.Duration(500+5*int(r.nonce[0])) * time.Millisecond
	}
	s.wait(r, now)
}

func (s *modelSegment) finish(n ledger.Nonce, o ledger.Outcome, detail string, row ledger.Row) ledger.Status {
	if r := &s.rows[row]; r.phase == ledger.PhaseSettled && r.outcome == o && r.detail == detail {
		return ledger.RowEnded
	}
	r, status := s.owned(n, row)
	if r != nil {
		r.settle(o, detail)
	}
	return status
}

func (s *modelSegment) dismiss(o ledger.Outcome, detail string, row ledger.Row) ledger.Status {
	r := &s.rows[row]
	switch {
	case r.phase == ledger.PhaseSettled:
		return ledger.RowSettled
	case r.phase == ledger.PhaseInProgress || r.intent != "":
		return ledger.RowSuperseded
	}
	r.settle(o, detail)
	return ledger.RowWritten
}

// end ends the execution of a row.
func (s *modelSegment) end(n ledger.Nonce, e ledger.RowEnd, now time.Duration) ledger.Status {
	if result, ok := e.Ending.(ledger.Result); ok {
		return s.finish(n, result.Outcome, result.Detail, e.Row)
	}
	r, status := s.owned(n, e.Row)
	if r == nil {
		switch left := s.rows[e.Row]; {
		case left.phase == ledger.PhaseSettled && left.outcome == ledger.Cancelled:
			return ledger.RowCancelled
		case left.ended == string(n) && left.leftBy(e.Ending):
			return ledger.RowEnded
		}
		return status
	}
	r.ended = string(n)
	switch ending := e.Ending.(type) {
	case ledger.Waiting:
		r.ready, r.memo, r.note, r.died = ending.Stage == ledger.StageReady, string(ending.Memo), "", 0
		if ending.CountAttempt {
			r.attempts++
		}
		s.wait(r, now+ending.After)
	case ledger.GiveBack:
		r.note = ending.Note
		s.wait(r, now+ending.After)
	}
	if r.phase == ledger.PhaseSettled {
		return ledger.RowCancelled
	}
	return status
}

// leftBy reports whether the open row is as the ending leaves it.
func (r modelRow) leftBy(e ledger.Ending) bool {
	switch e := e.(type) {
	case ledger.Waiting:
		return r.ready == (e.Stage == ledger.StageReady) && r.memo == string(e.Memo) && r.note == ""
	case ledger.GiveBack:
		return r.note == e.Note
	}
	return false
}

// report counts the open rows.
func (s *modelSegment) report(now time.Duration) (o ledger.OpenRows) {
	for _, r := range s.rows {
		due := flag(r.phase == ledger.PhaseWaiting && r.due <= now && (r.intent != "" || !s.control.paused))
		switch {
		case r.phase == ledger.PhaseWaiting && !r.begun && r.due > now:
			o.Later++
		case r.phase == ledger.PhaseQueued, r.phase == ledger.PhaseWaiting && !r.begun:
			o.Queued++
		case r.phase == ledger.PhaseWaiting && r.ready:
			o.Ready, o.ReadyDue = o.Ready+1, o.ReadyDue+due
		case r.phase == ledger.PhaseWaiting:
			o.Check, o.CheckDue = o.Check+1, o.CheckDue+due
		case r.phase == ledger.PhaseReleased:
			o.Released++
		case r.phase == ledger.PhaseInProgress:
			o.Running++
		}
	}
	return o
}

// describe returns a row as a line, the same for the model and the ledger.
func (m *model) describe(r modelRow) string {
	if r.phase == ledger.PhaseSettled {
		return fmt.Sprintf("settled %s %q", r.outcome, r.detail)
	}
	var b strings.Builder
	b.WriteString(string(r.phase))
	if r.phase == ledger.PhaseInProgress {
		fmt.Fprintf(&b, " by %s", r.session)
	}
	fmt.Fprintf(&b, " ready=%v attempts=%d died=%d begun=%v memo=%q note=%q intent=%q",
		r.ready, r.attempts, r.died, r.begun, r.memo, r.note, r.intent)
	if r.phase == ledger.PhaseWaiting {
		fmt.Fprintf(&b, " due=%v", r.due <= m.now)
	}
	return b.String()
}

func describeState(r ledger.RowState, now time.Time) string {
	if r.Phase == ledger.PhaseSettled {
		return fmt.Sprintf("settled %s %q", r.Result.Outcome, r.Result.Detail)
	}
	var b strings.Builder
	b.WriteString(string(r.Phase))
	if r.Phase == ledger.PhaseInProgress {
		fmt.Fprintf(&b, " by %s", r.Session)
	}
	intent := ""
	if r.Intent != nil {
		intent = string(r.Intent.Value)
	}
	c := r.Checkpoint
	fmt.Fprintf(&b, " ready=%v attempts=%d died=%d begun=%v memo=%q note=%q intent=%q", c.Stage == ledger.StageReady,
		c.Attempts, c.Died, !c.FirstBegun.IsZero(), c.Memo, c.Note, intent)
	if r.Phase == ledger.PhaseWaiting {
		fmt.Fprintf(&b, " due=%v", !r.Due.After(now))
	}
	return b.String()
}

// difference returns how the ledger differs from the model; "" if it does not.
func (m *model) difference(segments [][]ledger.RowState, now time.Time) string {
	var all []string
	for number, s := range m.segments {
		for i, r := range s.rows {
			have, want := describeState(segments[number][i], now), m.describe(r)
			if have != want {
				all = append(all, fmt.Sprintf("segment %d row %d:\n\thave %s\n\twant %s", number, i, have, want))
			}
		}
	}
	return strings.Join(all, "\n")
}

func equalCounts(a, b ledger.Counts) bool { return maps.Equal(a, b) }
