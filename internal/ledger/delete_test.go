package ledger_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

func TestDeleteLeavesNoKeys(t *testing.T) {
	tests := []struct {
		name string
		make func(*worker) ledger.Run
	}{
		{"a staged run", func(w *worker) ledger.Run {
			run := w.create("a")
			for n := range 3 {
				if _, err := w.StageGrouped(w.t.Context(), run, n, content(0, 5), groupOf, nil, nil); err != nil {
					w.t.Fatal(err)
				}
			}
			return run
		}},
		{"an ended run", func(w *worker) ledger.Run {
			run := w.submit("a", 20, 5)
			w.settleAll(segment(run, 0))
			w.settleAll(segment(run, 1))
			return run
		}},
		{"a cancelled run", func(w *worker) ledger.Run {
			run := w.submit("a", 20, 5)
			w.release(segment(run, 0), ledger.Quota{First: 3})
			w.must(w.Cancel, "a")
			return run
		}},
		{"a finished run", func(w *worker) ledger.Run {
			run := w.submit("a")
			w.must(w.Finish, "a")
			return run
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorker(t)
			run := tt.make(w)
			w.remove(run)
			if runs, err := w.Runs(t.Context(), tenant); err != nil || len(runs) > 0 {
				t.Errorf("runs %+v, %v", runs, err)
			}
			if _, err := w.Get(t.Context(), "", "a"); !errors.Is(err, ledger.ErrNotFound) {
				t.Errorf("get: %v, want %v", err, ledger.ErrNotFound)
			}
		})
	}
}

// TestDeleteRefusesOpenRuns deletes an open run, and a cancelled one of which a row is in progress.
func TestDeleteRefusesOpenRuns(t *testing.T) {
	w := newWorker(t)
	run := w.submit("a", 3, 4)
	e, row := w.take(segment(run, 0))
	for range 2 {
		if err := w.Delete(t.Context(), tenant, "a"); !errors.Is(err, ledger.ErrOpen) {
			t.Fatalf("delete: %v, want %v", err, ledger.ErrOpen)
		}
		w.must(w.Cancel, "a")
	}
	want(t, w.settle(segment(run, 0), e, row), ledger.RowWritten)
	w.remove(run)
}

// TestRunOfAnEarlierIncarnationIsFencedOut deletes a cancelled run of the wrong clients, and
// submits the right ones under the same ID. A task of the former run is still in the queue. The
// segment of a single row is in the header: only the incarnation tells the two apart.
func TestRunOfAnEarlierIncarnationIsFencedOut(t *testing.T) {
	for name, submit := range map[string]func(*worker) ledger.Run{
		"rows":         func(w *worker) ledger.Run { return w.submit("nightly", 3) },
		"a single row": func(w *worker) ledger.Run { run, _ := w.submitRow(single("nightly")); return run },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorker(t)
			wrong := segment(submit(w), 0)
			r := w.release(wrong, ledger.Quota{First: 1})
			w.must(w.Cancel, "nightly")
			w.must(w.Delete, "nightly")
			right := segment(submit(w), 0)

			begin := ledger.Execution{Token: r.Token, Nonce: ledger.NewNonce(), Session: w.session}
			_, begun := w.Begin(t.Context(), wrong, begin, 0)
			_, settled := w.Settle(t.Context(), wrong, begin.Nonce, ledger.Result{Outcome: ledger.Done}, 0)
			_, released := w.Release(t.Context(), wrong, all)
			for what, err := range map[string]error{"begin": begun, "settle": settled, "release": released} {
				if !errors.Is(err, ledger.ErrNotFound) {
					t.Errorf("%s of the former run: %v, want %v", what, err, ledger.ErrNotFound)
				}
			}
			want(t, w.begin(right, r.Token, 0).Receipt, ledger.RowSuperseded)
			if s := w.segments("nightly")[0]; s.Settled != 0 {
				t.Errorf("segment %+v: want no row settled", s)
			}
		})
	}
}

// TestInterruptedDeletionIsCompleted interrupts a deletion at each of its commands.
func TestInterruptedDeletionIsCompleted(t *testing.T) {
	complete := map[string]func(*worker) error{
		"by DeleteOld": func(w *worker) error {
			_, err := w.DeleteOld(w.t.Context(), tenant)
			return err
		},
		"by a new run of the id": func(w *worker) error {
			if _, err := w.DeleteOld(w.t.Context(), "other"); err != nil {
				return err
			}
			run, created, err := w.Create(w.t.Context(), ledger.NewRun{ID: "a", Tenant: tenant, Kind: kind})
			if err == nil && !created {
				return errors.New("the former run is there")
			}
			_, deleting := w.DeleteOld(w.t.Context(), tenant)
			return errors.Join(err, deleting, w.Delete(w.t.Context(), tenant, run.ID))
		},
	}
	for name, complete := range complete {
		t.Run(name, func(t *testing.T) {
			w := newWorker(t)
			lossy, f := faulty(t)
			for n, lost := 0, true; lost; n++ {
				run := w.submit("a", 3, 3)
				w.must(w.Cancel, "a")
				f.arm(n, n%2 == 0)
				err := lossy.Delete(t.Context(), tenant, "a")
				if lost = f.disarm(); lost == (err == nil) {
					t.Fatalf("delete: %v, connection lost: %v", err, lost)
				}
				if _, err := w.Get(t.Context(), "", "a"); err == nil {
					w.must(w.Delete, "a") // the command had no effect at all
				}
				if err := complete(w); err != nil {
					t.Fatal(err)
				}
				if keys := keysOf(t, run); len(keys) > 0 {
					t.Fatalf("interrupted at command %d: keys %q remain", n, keys)
				}
			}
		})
	}
}

// TestForgottenDeletion has Redis lose that a run was cancelled and deleted: the run is there again
// as a whole, is executed, and is deleted again.
func TestForgottenDeletion(t *testing.T) {
	for _, lost := range []string{"", "{tenant:"} { // Redis, or the node of the tenant
		w := newWorker(t)
		run := w.submit("a", 3, 3)
		w.settleAll(segment(run, 0))
		before := remember(t, w.rdb)
		w.must(w.Cancel, "a")
		w.gone(run)
		before.restore(t, w.rdb, lost)
		w.settleAll(segment(run, 1))
		if now := w.get("a"); now.Incarnation != run.Incarnation || now.Counts[ledger.Done] != 6 || !now.Ended() {
			t.Errorf("run %+v, want it ended", now)
		}
		w.gone(run)
	}
}

func TestDeleteOldDeletesAbandonedStagedRuns(t *testing.T) {
	for segments := range 3 {
		w := newWorker(t)
		run := w.create("a")
		for number := range segments {
			w.stage(run, number)
		}
		if n := w.deleteOld(); n != 0 {
			t.Fatalf("%d runs deleted before they were abandoned", n)
		}
		w.abandon(run)
		if n := w.deleteOld(); n != 1 {
			t.Errorf("%d runs of %d segments deleted, want it", n, segments)
		}
		if keys := keysOf(t, run); len(keys) > 0 {
			t.Errorf("keys %q remain", keys)
		}
	}
}

// TestDeleteOldContinuesAfterAnError has more runs to delete than are read at once, one of which
// cannot be deleted: one call deletes the others.
func TestDeleteOldContinuesAfterAnError(t *testing.T) {
	const n = 250
	w := newWorker(t)
	for i := range n {
		run, _ := w.submitRow(single(ledger.RunID("a" + strconv.Itoa(i))))
		w.settleAll(segment(run, 0))
		w.must(w.Finish, run.ID)
	}
	w.deleteOld()
	w.age("ended", ledger.Retention+time.Minute)
	if err := w.rdb.Set(t.Context(), ledger.HeaderKey(tenant, "b"), "no hash", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := w.rdb.ZAdd(t.Context(), ledger.ListKey(tenant, "ended"),
		redis.Z{Member: "b/" + string(ledger.NewNonce())}).Err(); err != nil {
		t.Fatal(err)
	}
	if deleted, err := w.DeleteOld(t.Context(), tenant); err == nil || deleted != n {
		t.Errorf("%d runs deleted, %v; want %d and an error", deleted, err, n)
	}
	if left := w.rdb.ZCard(t.Context(), ledger.ListKey(tenant, "ended")).Val(); left != 1 {
		t.Errorf("%d runs are to be deleted, want the one that cannot be", left)
	}
}

// TestDeleteOldOfManySingles deletes many single rows after their retention, with all that is
// stored of them. It logs how long that takes, and the longest command: of 200,000 rows
// (ORGOPS_TEST_SINGLES) it is to be below 10 ms.
func TestDeleteOldOfManySingles(t *testing.T) {
	redistest.NeedsLong(t, "starts a Redis, and executes many rows")
	n := redistest.Given("ORGOPS_TEST_SINGLES", 2_000)
	w := on(t, redistest.Start(t, "--slowlog-log-slower-than", "1000").Client())
	var executors errgroup.Group
	executors.SetLimit(32)
	for i := range n {
		executors.Go(func() error {
			id := single(ledger.RunID("a" + strconv.Itoa(i)))
			id.KeepFor = time.Millisecond
			run, _, err := w.SubmitRow(t.Context(), id, content(i, 1)[0])
			if err != nil {
				return err
			}
			w.settleAll(segment(run, 0))
			return w.Finish(t.Context(), tenant, run.ID)
		})
	}
	if err := executors.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := w.rdb.SlowLogReset(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	begun, deleted := time.Now(), 0
	for deleted < n && !t.Failed() { // a call may take half a minute
		deleted += w.deleteOld()
	}
	took, longest := time.Since(begun), time.Duration(0)
	slow := w.rdb.SlowLogGet(t.Context(), -1).Val()
	for _, command := range slow {
		longest = max(longest, command.Duration)
	}
	t.Logf("%d single rows are deleted in %v, by commands of %v at most: %d of more than 1 ms", deleted, took, longest,
		len(slow))
	if left := w.rdb.DBSize(t.Context()).Val(); left > 2 { // the tenants, and the clock by which runs are deleted
		t.Errorf("%d keys remain, such as %q", left, w.rdb.RandomKey(t.Context()).Val())
	}
}

// TestDeleteOldSparesRunThatContinues has a producer continue its run while DeleteOld deletes it.
func TestDeleteOldSparesRunThatContinues(t *testing.T) {
	w := newWorker(t)
	for n, done := 0, true; done; n++ {
		run := w.create(ledger.RunID("run-" + strconv.Itoa(n)))
		w.abandon(run)
		var staged error
		l, i := interrupted(t, n, func() {
			_, staged = w.Stage(t.Context(), run, 0, content(0, 3))
		})
		if _, err := l.DeleteOld(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
		done = i.done()
		if _, err := w.Get(t.Context(), "", run.ID); done && (err == nil) != (staged == nil) {
			t.Errorf("continued at command %d: stage: %v, get: %v", n, staged, err)
		}
		if _, err := w.Get(t.Context(), "", run.ID); err == nil {
			w.must(w.Delete, run.ID)
		}
	}
}

// abandon has the last segment of a staged run staged long ago.
func (w *worker) abandon(run ledger.Run) {
	w.t.Helper()
	w.age("staged", ledger.AbandonedAfter+time.Minute)
	yesterday := run.CreatedAt.Add(-ledger.AbandonedAfter - time.Minute).UnixMilli()
	w.store(ledger.HeaderKey(tenant, run.ID), "staged_at", strconv.FormatInt(yesterday, 10))
}

// deleteOldEvery calls deleteOld at this interval until d has passed, and returns the number of
// deleted runs.
func (w *worker) deleteOldEvery(interval time.Duration, m *miniredis.Miniredis, now *time.Time,
	d time.Duration) (deleted int) {
	w.t.Helper()
	for end := now.Add(d); now.Before(end); *now = now.Add(interval) {
		m.SetTime(*now)
		deleted += w.deleteOld()
	}
	return deleted
}

// TestClockJumpDeletesNothing has Redis' clock jump while runs are staged, finished and
// retained, and jump back half an hour later. No run and no row is deleted.
func TestClockJumpDeletesNothing(t *testing.T) {
	for _, jump := range []time.Duration{365 * 24 * time.Hour, -365 * 24 * time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			w := newWorker(t)
			m, now := redistest.Mini(t), time.Now()
			m.SetTime(now)
			w.submit("retained", 3)
			w.must(w.Cancel, "retained")
			w.must(w.Finish, "retained")
			w.deleteOldEvery(time.Minute, m, &now, 5*time.Minute)
			w.submit("finished", 3)
			w.must(w.Cancel, "finished")
			w.must(w.Finish, "finished")
			w.stage(w.create("staged"), 0)
			now = now.Add(jump)
			deleted := w.deleteOldEvery(time.Minute, m, &now, 30*time.Minute)
			w.submit("meanwhile", 3)
			w.must(w.Cancel, "meanwhile")
			w.must(w.Finish, "meanwhile")
			deleted += w.deleteOldEvery(time.Minute, m, &now, 5*time.Minute)
			now = now.Add(-jump)
			deleted += w.deleteOldEvery(time.Minute, m, &now, time.Hour)
			if deleted > 0 {
				t.Errorf("%d runs deleted, want none", deleted)
			}
			for _, id := range []ledger.RunID{"retained", "finished", "staged", "meanwhile"} {
				if rows := w.rows(segment(w.get(id), 0)); len(rows) != 3 {
					t.Errorf("run %s has %d rows, want 3", id, len(rows))
				}
			}
			if open := w.open(); len(open) != 1 {
				t.Errorf("open runs %q, want the staged one", open)
			}
		})
	}
}

// TestDeleteOldAfterDowntime has Redis away for ten days. An abandoned run is deleted a day
// later.
func TestDeleteOldAfterDowntime(t *testing.T) {
	w := newWorker(t)
	m, now := redistest.Mini(t), time.Now()
	m.SetTime(now)
	w.create("abandoned")
	w.deleteOld()
	now = now.Add(10 * 24 * time.Hour)
	if n := w.deleteOldEvery(time.Duration(redistest.Stride(10))*time.Minute, m, &now, ledger.AbandonedAfter); n != 0 {
		t.Errorf("%d runs deleted, want none", n)
	}
	if n := w.deleteOldEvery(time.Minute, m, &now, 5*time.Minute); n != 1 {
		t.Errorf("%d runs deleted, want the abandoned one", n)
	}
}

func (w *worker) stage(run ledger.Run, number int) {
	w.t.Helper()
	if _, err := w.Stage(w.t.Context(), run, number, content(0, 3)); err != nil {
		w.t.Fatal(err)
	}
}

// retain finishes a run and has its retention start.
func (w *worker) retain(id ledger.RunID) {
	w.t.Helper()
	w.must(w.Finish, id)
	if n := w.deleteOld(); n != 0 {
		w.t.Fatalf("%d runs deleted, want none", n)
	}
}

func (w *worker) deleteOld() int {
	w.t.Helper()
	n, err := w.DeleteOld(context.WithoutCancel(w.t.Context()), tenant)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// age makes the times of one of the tenant's lists earlier.
func (w *worker) age(list string, d time.Duration) {
	w.t.Helper()
	if err := ledger.AgeList(w.t.Context(), w.rdb, w.tenant, list, d); err != nil {
		w.t.Fatal(err)
	}
}

// TestDeleteStaged deletes a run unless it was staged further, or committed, since it was read.
func TestDeleteStaged(t *testing.T) {
	w := newWorker(t)
	w.create("a")
	if deleted, err := w.DeleteStaged(t.Context(), w.get("a")); err != nil || !deleted {
		t.Errorf("staged: deleted %v, %v", deleted, err)
	}
	former := w.create("b")
	time.Sleep(2 * time.Millisecond)
	w.stage(former, 0)
	if deleted, err := w.DeleteStaged(t.Context(), former); err != nil || deleted {
		t.Errorf("staged since: deleted %v, %v", deleted, err)
	}
	former = w.create("c")
	if _, err := w.Commit(t.Context(), former, nil); err != nil {
		t.Fatal(err)
	}
	if deleted, err := w.DeleteStaged(t.Context(), former); err != nil || deleted {
		t.Errorf("ended since: deleted %v, %v", deleted, err)
	}
}
