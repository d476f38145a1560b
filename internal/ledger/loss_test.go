package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// TestRunIsListedAgain loses the lists of runs and of tenants. Staging, Verify, Sync and each
// control restore them.
func TestRunIsListedAgain(t *testing.T) {
	for _, by := range []string{"verify", "sync", "pause", "the next segment"} {
		t.Run(by, func(t *testing.T) {
			w := newWorker(t)
			saved := remember(t, w.rdb)
			run := w.create("a")
			s := w.fill(run, content(0, 3))
			if by != "the next segment" {
				w.commit(s)
			}
			saved.restore(t, w.rdb, "tenant")
			switch by {
			case "the next segment":
				w.stage(run, 0, false)
			case "verify":
				if err := s.Verify(t.Context()); err != nil {
					t.Fatal(err)
				}
			case "sync":
				w.sync("a")
			default:
				w.must(w.Pause, "a")
			}
			open, err := w.OpenRuns(t.Context(), tenant)
			if err != nil || len(open) != 1 {
				t.Errorf("open runs %v, %v: want the run", open, err)
			}
			tenants, err := w.Tenants(t.Context())
			if err != nil || len(tenants) != 1 || tenants[0] != tenant {
				t.Errorf("tenants %v, %v: want %s", tenants, err, tenant)
			}
		})
	}
}

// TestFinishedRunIsNotListedAsOpen adds a run to the lists that was finished meanwhile.
func TestFinishedRunIsNotListedAsOpen(t *testing.T) {
	w := newWorker(t)
	run := w.submit("a", 1)
	w.settleAll(segment(run, 0))
	early := remember(t, w.rdb)
	w.retain("a")
	early.restore(t, w.rdb, "{run:a}") // as Create has read it
	if _, _, err := w.Create(t.Context(), ledger.NewRun{ID: "a", Tenant: tenant, Kind: kind}); err != nil {
		t.Fatal(err)
	}
	open, err := w.OpenRuns(t.Context(), tenant)
	if err != nil || len(open) != 0 {
		t.Errorf("open runs %v, %v: want none", open, err)
	}
}

// TestCommitKeepsControl commits a run again whose header was lost back to before the
// commit. The pause that its segments have wins.
func TestCommitKeepsControl(t *testing.T) {
	w := newWorker(t)
	s := w.fill(w.create("a"), content(0, 3))
	saved := remember(t, w.rdb)
	run := w.commit(s)
	w.must(w.Pause, "a")
	saved.restore(t, w.rdb, "{run:a}")
	if err := s.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !w.get("a").Paused {
		t.Error("the run is not paused any more")
	}
	if rows := numbers(w.release(segment(run, 0), all)); len(rows) != 0 {
		t.Errorf("released %v, want none", rows)
	}
}

// unreachable is a hook that loses the connection at each command for a key that
// contains the text.
type unreachable struct{ text string }

func (u *unreachable) DialHook(next redis.DialHook) redis.DialHook { return next }

func (u *unreachable) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.Contains(fmt.Sprint(cmd.Args()...), u.text) {
			cmd.SetErr(errFault)
			return errFault
		}
		return next(ctx, cmd)
	}
}

func (u *unreachable) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// TestControlReachesOtherNodes cancels a run while the node of one segment is away. Every
// other segment is cancelled, and the error names the failure.
func TestControlReachesOtherNodes(t *testing.T) {
	w := newWorker(t)
	run := w.submit("a", slices.Repeat([]int{2}, 40)...)
	rdb := redistest.New(t)
	rdb.AddHook(&unreachable{text: "{" + string(run.Incarnation) + ".3}"})
	lossy := ledger.New(rdb)
	check := func(operation string, err error) {
		t.Helper()
		if !errors.Is(err, errFault) {
			t.Errorf("%s: %v, want %v", operation, err, errFault)
		}
		for n := range 40 {
			if n != 3 && len(w.release(segment(run, n), all).Rows) > 0 {
				t.Errorf("%s: segment %d is not stopped", operation, n)
			}
		}
	}
	check("pause", lossy.Pause(t.Context(), "a"))
	w.must(w.Resume, "a")
	check("cancel", lossy.Cancel(t.Context(), "a"))
	if !w.get("a").Cancelled {
		t.Error("the header is not cancelled")
	}
	if p := w.sync("a"); !p.Run.Ended() { // the node is back
		t.Errorf("the run has not ended: %+v", p.Run)
	}
}

// TestSyncReachesOtherNodes syncs a run whose header alone was paused, while the node of one
// segment is away.
func TestSyncReachesOtherNodes(t *testing.T) {
	w := newWorker(t)
	run := w.submit("a", slices.Repeat([]int{2}, 40)...)
	if err := w.rdb.HSet(t.Context(), ledger.HeaderKey("a"), "flags", "p", "v", "9000000000000000").Err(); err != nil {
		t.Fatal(err)
	}
	rdb := redistest.New(t)
	rdb.AddHook(&unreachable{text: "{" + string(run.Incarnation) + ".3}"})
	if _, err := ledger.New(rdb).Sync(t.Context(), "a"); !errors.Is(err, errFault) {
		t.Errorf("sync: %v, want %v", err, errFault)
	}
	for n := range 40 {
		if n != 3 && len(w.release(segment(run, n), all).Rows) > 0 {
			t.Errorf("segment %d is not paused", n)
		}
	}
}

// TestLostEndIsFoundAfterRetention loses the end of a finished run in its header after the
// run was taken out of the open ones. Sweep has the run end again, and deletes it later.
func TestLostEndIsFoundAfterRetention(t *testing.T) {
	w := newWorker(t)
	run := w.submit("a", 1)
	saved := remember(t, w.rdb)
	w.settleAll(segment(run, 0))
	w.retain("a")
	saved.restore(t, w.rdb, "{run:a}")
	w.age(ledger.EndedKey(tenant), ledger.Retention+time.Hour)
	if n := w.sweep(); n != 0 {
		t.Errorf("%d runs deleted, want none", n)
	}
	all, err := w.Rebuild(t.Context(), tenant)
	if err != nil || len(all) != 1 || !all[0].Run.Ended() {
		t.Fatalf("rebuilt %+v, %v: want the ended run", all, err)
	}
	w.retain("a")
	w.age(ledger.EndedKey(tenant), ledger.Retention+time.Hour)
	if n := w.sweep(); n != 1 {
		t.Errorf("%d runs deleted, want the run", n)
	}
}

// TestLostEndIsRepeated has Redis lose, after a run was finished, its end or the result of a
// row. The run is open again and ends once more.
func TestLostEndIsRepeated(t *testing.T) {
	for _, part := range []string{"{run:a}", ".0}"} {
		for _, swept := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s swept %v", part, swept), func(t *testing.T) {
				w := newWorker(t)
				run := w.submit("a", 1)
				saved := remember(t, w.rdb)
				w.settleAll(segment(run, 0))
				w.must(w.Finish, "a")
				if swept {
					w.sweep() // a moment after
				}
				saved.restore(t, w.rdb, part)
				if part == ".0}" { // found by the sweep that would start the retention
					w.finishedEarlier("a")
					w.sweep()
				}
				ended := 0
				all, err := w.Rebuild(t.Context(), tenant)
				if err != nil || len(all) != 1 {
					t.Fatalf("rebuilt %+v, %v: want the run", all, err)
				}
				ended += flag(all[0].Ended)
				ended += flag(w.settleAll(segment(run, 0)).Ended)
				if ended != 1 {
					t.Errorf("the run ended %d times more, want once", ended)
				}
				w.retain("a")
				if n := len(w.open()); n != 0 {
					t.Errorf("%d open runs, want none", n)
				}
			})
		}
	}
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestControlWithoutTenantsNode pauses a run while the node of its tenant's lists is away.
func TestControlWithoutTenantsNode(t *testing.T) {
	w := newWorker(t)
	run := w.submit("a", 2)
	rdb := redistest.New(t)
	rdb.AddHook(&unreachable{text: "tenant"})
	if err := ledger.New(rdb).Pause(t.Context(), "a"); !errors.Is(err, errFault) {
		t.Errorf("pause: %v, want %v", err, errFault)
	}
	if rows := numbers(w.release(segment(run, 0), all)); len(rows) > 0 {
		t.Errorf("released %v, want none", rows)
	}
}

// TestControlOfLostCommit pauses a run whose header, but not the segments, lost the commit.
func TestControlOfLostCommit(t *testing.T) {
	w := newWorker(t)
	run := w.create("a")
	sum, err := w.Stage(t.Context(), run, 0, true, content(0, 3))
	if err != nil {
		t.Fatal(err)
	}
	saved := remember(t, w.rdb)
	if _, err := w.Commit(t.Context(), run, []ledger.Sum{sum}); err != nil {
		t.Fatal(err)
	}
	saved.restore(t, w.rdb, "{run:a}")
	w.must(w.Pause, "a")
	if rows := numbers(w.release(segment(run, 0), all)); len(rows) > 0 {
		t.Errorf("released %v of a paused run", rows)
	}
	w.must(w.Resume, "a")
	run, err = w.Commit(t.Context(), run, []ledger.Sum{sum})
	if err != nil {
		t.Fatal(err)
	}
	if rows := numbers(w.release(segment(run, 0), all)); len(rows) != 3 {
		t.Errorf("released %v after the run was resumed and committed again, want 3", rows)
	}
}

// TestCommitAfterLostCancel commits a run again whose header lost commit and cancel, but
// has found the cancel in a segment.
func TestCommitAfterLostCancel(t *testing.T) {
	w := newWorker(t)
	s := w.fill(w.create("a"), content(0, 3))
	saved := remember(t, w.rdb)
	run := w.commit(s)
	e, row := w.take(segment(run, 0))
	w.must(w.Cancel, "a")
	saved.restore(t, w.rdb, "{run:a}")
	if err := w.rdb.HSet(t.Context(), ledger.HeaderKey("a"), "reserved", 1).Err(); err != nil {
		t.Fatal(err)
	}
	w.must(w.Pause, "a")
	if err := s.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !w.get("a").Cancelled {
		t.Error("the cancel is forgotten")
	}
	want(t, w.settle(segment(run, 0), e, row), ledger.RowWritten)
	if !w.get("a").Ended() {
		t.Error("the run has not ended")
	}
}

// TestDeleteFindsSegmentsThatHeaderLost deletes a run whose header lost its segments.
func TestDeleteFindsSegmentsThatHeaderLost(t *testing.T) {
	w := newWorker(t)
	s := w.create("a")
	saved := remember(t, w.rdb)
	var sums []ledger.Sum
	for n := range 3 {
		sum, err := w.Stage(t.Context(), s, n, n == 2, content(0, 3))
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, sum)
	}
	run, err := w.Commit(t.Context(), s, sums)
	if err != nil {
		t.Fatal(err)
	}
	saved.restore(t, w.rdb, "{run:a}")
	w.must(w.Delete, "a")
	if keys := keysOf(t, run); len(keys) > 0 {
		t.Errorf("keys %v remain", keys)
	}
}

// TestTrimmedEntryDeletesSegments loses the whole header of a run. Sweep deletes its
// segments after its entry in the lists.
func TestTrimmedEntryDeletesSegments(t *testing.T) {
	for _, list := range []string{ledger.OpenKey(tenant), ledger.EndedKey(tenant)} {
		t.Run(list, func(t *testing.T) {
			w := newWorker(t)
			run := w.submit("a", 3, 3)
			if list == ledger.EndedKey(tenant) {
				w.must(w.Cancel, "a")
				w.retain("a")
			}
			memory{}.restore(t, w.rdb, "{run:a}")
			w.age(list, ledger.Retention+time.Hour)
			w.sweep()
			w.ageTrash()
			w.sweep()
			if keys := keysOf(t, run); len(keys) > 0 {
				t.Errorf("keys %q remain", keys)
			}
		})
	}
}

// TestDeletionIsLost deletes a run, of which a node of Redis then goes back to before the
// deletion. Sweep deletes it again, and keeps it in the trash until nothing is found.
func TestDeletionIsLost(t *testing.T) {
	for _, part := range []string{"{run:a}", ".0}", ".1}", "{tenant:", ""} {
		t.Run(part, func(t *testing.T) {
			w := newWorker(t)
			run := w.submit("a", 3, 3)
			w.must(w.Cancel, "a")
			saved := remember(t, w.rdb)
			w.must(w.Delete, "a")
			saved.restore(t, w.rdb, part)
			if part == "" {
				w.must(w.Delete, "a")
			}
			w.age(ledger.OpenKey(tenant), 2*time.Hour)
			w.sweep()
			if n := len(w.trash()); n != 1 {
				t.Fatalf("%d runs in the trash a moment after the deletion, want 1", n)
			}
			for range 2 {
				w.ageTrash()
				w.sweep()
			}
			if keys := keysOf(t, run); len(keys) > 0 {
				t.Errorf("keys %q remain", keys)
			}
			if n := len(w.trash()); n != 0 {
				t.Errorf("%d runs in the trash, want none", n)
			}
		})
	}
}

// TestDeletedRunStaysUnlisted restores the header of a run after its deletion. No operation
// lists the run again, its segments are not due, and its id can be used.
func TestDeletedRunStaysUnlisted(t *testing.T) {
	w := newWorker(t)
	run := w.submit("a", 3)
	open := remember(t, w.rdb)
	w.must(w.Cancel, "a")
	w.must(w.Delete, "a")
	open.restore(t, w.rdb, "{run:a}")
	open.restore(t, w.rdb, "{"+string(run.Incarnation))
	w.hint(segment(run, 0), time.UnixMilli(1))
	for name, do := range map[string]func() error{
		"sync":  func() error { _, err := w.Sync(t.Context(), "a"); return err },
		"pause": func() error { return w.Pause(t.Context(), "a") },
	} {
		if err := do(); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("%s: %v, want %v", name, err, ledger.ErrNotFound)
		}
	}
	if ids := w.open(); len(ids) > 0 {
		t.Errorf("open runs %q, want none", ids)
	}
	if due, _ := w.takeDue(); len(due) > 0 {
		t.Errorf("due %v, want none", due)
	}
	if again := w.create("a"); again.Incarnation == run.Incarnation {
		t.Error("the deleted run is there again")
	}
}

// TestDeletionLeavesNoGap interrupts a deletion by losing the lists and the header as well: the
// segments are found without their number.
func TestDeletionLeavesNoGap(t *testing.T) {
	w := newWorker(t)
	run := w.submit("a", slices.Repeat([]int{1}, 100)...)
	w.must(w.Cancel, "a")
	listed := remember(t, w.rdb)
	rdb := redistest.New(t)
	f := &faults{}
	rdb.AddHook(f)
	f.arm(6, true)
	if err := ledger.New(rdb).Delete(t.Context(), "a"); err == nil {
		t.Fatal("the deletion was not interrupted: the test shows nothing")
	}
	listed.restore(t, w.rdb, "{tenant:")
	w.age(ledger.OpenKey(tenant), 2*time.Hour)
	w.sweep()
	w.ageTrash()
	w.sweep()
	if keys := keysOf(t, run); len(keys) > 0 {
		t.Errorf("%d keys remain", len(keys))
	}
}
