package ledger_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// TestAtMaxmemory checks the operations that must succeed while Redis is at maxmemory:
// settling rows, making them wait, stopping work and freeing memory.
func TestAtMaxmemory(t *testing.T) {
	type state struct {
		*worker
		run      ledger.Run
		seg      ledger.Segment
		e        execution // has rows 0 to 2
		released ledger.Token
	}
	gone := func(id ledger.RunID) func(*state) bool {
		return func(s *state) bool {
			_, err := s.Get(s.t.Context(), "", id)
			return errors.Is(err, ledger.ErrNotFound)
		}
	}
	tests := []struct {
		name string
		do   func(s *state) error
		well func(s *state) bool
	}{
		{"settle", func(s *state) error {
			_, err := s.Settle(s.t.Context(), s.seg, s.e.nonce, ledger.Result{Outcome: "refused", Detail: "why"}, 0, 1)
			return err
		}, func(s *state) bool { return s.rows(s.seg)[1].Result.Detail == "why" }},
		{"begin", func(s *state) error {
			e := ledger.Execution{Token: s.released, Nonce: ledger.NewNonce(), Session: s.session}
			_, err := s.Begin(s.t.Context(), s.seg, e, 3)
			return err
		}, func(s *state) bool { return s.rows(s.seg)[3].Phase == ledger.PhaseInProgress }},
		{"dismiss", func(s *state) error {
			_, err := s.Dismiss(s.t.Context(), s.seg, ledger.Result{Outcome: ledger.Cancelled}, 15)
			return err
		}, func(s *state) bool { return s.rows(s.seg)[15].Phase == ledger.PhaseSettled }},
		{"wait", func(s *state) error {
			_, err := s.Wait(s.t.Context(), s.seg, s.e.nonce, ledger.Waiting{Stage: ledger.StageCheck,
				Memo: make([]byte, 300)}, 0)
			return err
		}, func(s *state) bool { return s.rows(s.seg)[0].Phase == ledger.PhaseWaiting }},
		{"give back a row in progress", func(s *state) error {
			_, err := s.GiveUp(s.t.Context(), s.seg, s.e.nonce, time.Minute, 0)
			return err
		}, func(s *state) bool { return s.rows(s.seg)[0].Phase == ledger.PhaseWaiting }},
		{"give back", func(s *state) error {
			_, err := s.GiveBack(s.t.Context(), s.seg, s.released, 3)
			return err
		}, func(s *state) bool { return s.rows(s.seg)[3].Phase == ledger.PhaseWaiting }},
		{"reclaim", func(s *state) error {
			_, _, err := s.Reclaim(s.t.Context(), s.seg, s.session)
			return err
		}, func(s *state) bool { return s.rows(s.seg)[0].Phase == ledger.PhaseWaiting }},
		{"withdraw", func(s *state) error {
			_, err := s.Withdraw(s.t.Context(), s.seg, s.e.nonce, 2)
			return err
		}, func(s *state) bool { return s.rows(s.seg)[2].Intent == nil }},
		{"pause", func(s *state) error { return s.Pause(s.t.Context(), tenant, "a") },
			func(s *state) bool { return s.get("a").Paused }},
		{"resume", func(s *state) error { return s.Resume(s.t.Context(), tenant, "paused") },
			func(s *state) bool { return !s.get("paused").Paused }},
		{"cancel", func(s *state) error { return s.Cancel(s.t.Context(), tenant, "a") },
			func(s *state) bool { return s.get("a").Counts[ledger.Cancelled] == 17 }},
		{"a release after a cancel of the header alone", func(s *state) error {
			_, err := s.Release(s.t.Context(), segment(s.get("half"), 0), all)
			return err
		}, func(s *state) bool { return s.get("half").Ended() }},
		{"the last settle", func(s *state) error {
			_, err := s.Dismiss(s.t.Context(), segment(s.get("last"), 0), ledger.Result{Outcome: ledger.Done}, 0)
			return err
		}, func(s *state) bool { return s.get("last").Ended() }},
		{"finish", func(s *state) error { return s.Finish(s.t.Context(), tenant, "ended") },
			func(s *state) bool { return !s.get("ended").FinishedAt.IsZero() }},
		{"delete", func(s *state) error { return s.Delete(s.t.Context(), tenant, "ended") },
			gone("ended")},
		{"delete a staged run", func(s *state) error { return s.Delete(s.t.Context(), tenant, "staged") },
			gone("staged")},
		{"take due segments", func(s *state) error {
			due, _, err := s.TakeDue(s.t.Context(), tenant, 10)
			if len(due) == 0 {
				s.t.Error("no segment is due")
			}
			return err
		}, func(*state) bool { return true }},
		{"release of a segment without due rows", func(s *state) error {
			_, err := s.Release(s.t.Context(), s.seg, ledger.Quota{})
			return err
		}, func(*state) bool { return true }},
		{"cancel during a scan", func(s *state) error { return s.Cancel(s.t.Context(), tenant, "scan") },
			func(s *state) bool { return s.get("scan").Ended() }},
		{"renew a session", func(s *state) error {
			_, err := s.Renew(s.t.Context(), ledger.Session{ID: s.session})
			return err
		}, func(*state) bool { return true }},
		{"delete old", func(s *state) error {
			_, err := s.DeleteOld(s.t.Context(), tenant)
			return err
		}, func(*state) bool { return true }},
	}
	rdb := redistest.Start(t).Client()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := on(t, rdb)
			setMemory(t, rdb, "0")
			if err := rdb.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			w.submit("ended")
			w.submit("paused", 5)
			w.must(w.Pause, "paused")
			w.submit("last", 1)
			w.submit("half", 5)
			w.store(ledger.HeaderKey(tenant, "half"), "flags", "c")
			w.stage(w.create("staged"), 0)
			scan := w.scan("scan")
			scanner := w.takeScan(scan)
			w.step(scan, &scanner, false, foundRows(0, 3)...)
			w.endScan(scan, scanner, ledger.GiveBack{})
			s := &state{worker: w, run: w.submit("a", 20)}
			s.seg = segment(s.run, 0)
			r := w.release(s.seg, ledger.Quota{First: 3})
			s.e = w.begin(s.seg, r.Token, numbers(r)...)
			w.intend(s.seg, s.e, "PATCH", 2)
			s.released = w.release(s.seg, ledger.Quota{First: 1}).Token

			setMemory(t, rdb, "1")
			if _, err := w.Release(t.Context(), s.seg, all); !errors.Is(err, ledger.ErrNoMemory) {
				t.Fatalf("a release at maxmemory: %v, want it refused: the test shows nothing", err)
			}
			if err := tt.do(s); err != nil {
				t.Error(err)
			}
			if !tt.well(s) {
				t.Error("it had no effect")
			}
		})
	}
}

// TestScanAtMaxmemory has Redis at maxmemory from some command of a scan on. The scan continues
// once there is memory.
func TestScanAtMaxmemory(t *testing.T) {
	server := redistest.Start(t)
	w := on(t, server.Client())
	other := server.Client()
	refused := 0
	for n, done := 0, true; done; n += 3 {
		run := w.scan(ledger.RunID(fmt.Sprintf("run-%d", n)))
		rdb := server.Client()
		i := &interruption{after: n, do: func() { setMemory(t, other, "1") }}
		rdb.AddHook(i.hook())
		err := scanAll(t.Context(), ledger.New(rdb), run)
		done = i.done()
		if err != nil && !errors.Is(err, ledger.ErrNoMemory) {
			t.Errorf("at command %d: %v", n, err)
		}
		refused += flag(err != nil)
		setMemory(t, other, "0")
		w.complete(run)
		if t.Failed() {
			t.Fatalf("at command %d", n)
		}
	}
	if refused == 0 {
		t.Error("no step was refused: the test shows nothing")
	}
}

// TestResultsAtMaxmemory checks that results are refused at maxmemory like the rows that they
// belong to, and that a repeated producer stores them.
func TestResultsAtMaxmemory(t *testing.T) {
	server := redistest.Start(t)
	rdb, other := server.Client(), server.Client()
	w := on(t, rdb)
	s := w.fillSettled(w.create("a"), 9, invalid)
	i := &interruption{after: 2, do: func() { setMemory(t, other, "1") }} // after the rows
	rdb.AddHook(i.hook())
	if _, err := s.Commit(t.Context()); !i.done() || !errors.Is(err, ledger.ErrNoMemory) {
		t.Fatalf("commit: %v, want it refused", err)
	}
	setMemory(t, other, "0")
	if run := w.commit(w.fillSettled(w.get("a"), 9, invalid)); run.Counts["invalid"] != 3 {
		t.Errorf("run %+v", run)
	}
}

// TestReleaseAtMaxmemoryChangesNothing checks that a release at maxmemory is refused before it
// has changed anything, whether it would release or reopen rows.
func TestReleaseAtMaxmemoryChangesNothing(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(*worker, ledger.Segment)
	}{
		{"rows that were never released", func(*worker, ledger.Segment) {}},
		{"waiting rows", func(w *worker, seg ledger.Segment) {
			e := w.takeRows(seg, 2)
			w.end(seg, e, ledger.Ends(ledger.Waiting{Stage: ledger.StageCheck}, 0, 1)...)
			w.pass(seg, time.Minute)
		}},
		{"waiting rows with intents", func(w *worker, seg ledger.Segment) {
			e := w.takeRows(seg, 2)
			w.intend(seg, e, "PATCH", 0, 1)
			w.end(seg, e, ledger.Ends(ledger.Waiting{Stage: ledger.StageReady}, 0, 1)...)
			w.pass(seg, time.Minute)
		}},
		{"a release that lapsed", func(w *worker, seg ledger.Segment) {
			w.release(seg, ledger.Quota{First: 2})
			w.pass(seg, ledger.ReleaseTimeout)
		}},
		{"an execution that lapsed", func(w *worker, seg ledger.Segment) {
			w.takeRows(seg, 2)
			w.pass(seg, ledger.ExecutionLimit)
		}},
	}
	rdb := redistest.Start(t).Client()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			setMemory(t, rdb, "0")
			w := on(t, rdb)
			if err := rdb.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			seg := w.submitGrouped(4, nil)
			tt.prepare(w, seg)
			before := remember(t, rdb)
			setMemory(t, rdb, "1")
			r, err := w.Release(t.Context(), seg, all)
			if !errors.Is(err, ledger.ErrNoMemory) || errors.Is(err, ledger.ErrDamaged) {
				t.Errorf("released %v, %v, want it refused for want of memory alone", numbers(r), err)
			}
			if after := remember(t, rdb); !reflect.DeepEqual(before, after) {
				t.Errorf("the segment was %v and is %v", before, after)
			}
		})
	}
}
