package ledger_test

import (
	"fmt"
	"time"

	"orgops/internal/ledger"
)

// endEach ends an execution of rows, each in its own way.
func (s *simulation) endEach() {
	seg, m := s.pick()
	rows := s.some(m, ledger.PhaseInProgress)
	n := s.execution(m, rows).Nonce
	var ends []ledger.RowEnd
	for _, row := range rows {
		ends = append(ends, ledger.RowEnd{Row: row, Ending: s.ending()})
	}
	s.attempt(fmt.Sprintf("end %+v of segment %d", ends, seg.Number), seg, m,
		func(l *ledger.Ledger) (ledger.Receipt, error) {
			return l.End(s.t.Context(), seg, n, ends...)
		}, func(m *modelSegment) (all []ledger.Status) {
			for _, e := range ends {
				all = append(all, m.end(n, e, s.model.now))
			}
			return all
		})
}

// ending returns a random ending.
func (s *simulation) ending() ledger.Ending {
	after := time.Duration(s.rand.IntN(2)) * time.Hour
	switch s.rand.IntN(3) {
	case 0:
		return ledger.Result{Outcome: outcomes[s.rand.IntN(len(outcomes))], Detail: []string{"", "why: a:b"}[s.rand.IntN(2)]}
	case 1:
		stage := []ledger.Stage{ledger.StageCheck, ledger.StageReady}[s.rand.IntN(2)]
		return ledger.Waiting{Stage: stage, After: after, CountAttempt: s.rand.IntN(2) == 0, Memo: []byte("memo")}
	}
	return ledger.GiveBack{After: after, Note: []string{"", "a;b,1:2"}[s.rand.IntN(2)]}
}

// receipt compares the reports of a receipt and of a release with the model of the segment.
func (s *simulation) receipt() {
	seg, m := s.pick()
	var rows []ledger.Row
	for row := range m.rows {
		rows = append(rows, ledger.Row(row))
	}
	r, err := s.Withdraw(s.t.Context(), seg, ledger.NewNonce(), rows...) // changes nothing
	if err != nil {
		s.fail("withdraw: %v", err)
		return
	}
	released, err := s.Release(s.t.Context(), seg, ledger.Quota{})
	if err != nil || len(released.Rows) > 0 {
		s.fail("release none: %v, %v", numbers(released), err)
		return
	}
	s.learn(seg, released.Due)
	s.model.lapse(m)
	s.note("receipt of segment %d: %+v, open %+v", seg.Number, r, released.Open)
	have, open := released.Open, m.report(s.model.now)
	if m.control.cancelled { // releases ended by the cancel remain until they lapse
		have.Released, open.Released = 0, 0
	}
	if have != open || r.Stopped != m.control.paused || r.Cancelled != m.control.cancelled {
		s.fail("receipt %+v, want %+v", r, open)
	}
}
