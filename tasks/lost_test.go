package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"orgops/dnscheck"
	"orgops/internal/intake"
	"orgops/internal/runs"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

func (w *world) intake() intake.Intake {
	return intake.Intake{Ledger: w.ledger, Producer: tasks.NewProducer(w.queue, w.ledger), Queue: w.queue}
}

// wantLost holds how many rows of run0 are lost; of a run that is not there, or has
// ended, none can be.
func (w *world) wantLost(want int64) {
	w.t.Helper()
	run, err := w.ledger.Get(w.t.Context(), "run0")
	if errors.Is(err, runs.ErrNotFound) || run.Ended() || (err == nil && !run.Sealed) {
		return
	}
	if err != nil {
		w.t.Fatal(err)
	}
	found, err := w.intake().Lost(w.t.Context(), run)
	if err != nil {
		w.t.Fatal(err)
	}
	if found.Lost != want {
		w.t.Errorf("%d of %d open rows are lost, want %d", found.Lost, found.Open, want)
	}
}

// repair repairs run0, and says how many rows were lost.
func (w *world) repair() (lost int64) {
	w.t.Helper()
	repaired, err := w.intake().Repair(w.t.Context(), "run0")
	if err != nil && !errors.Is(err, runs.ErrEnded) {
		w.t.Fatal(err)
	}
	return repaired.Lost
}

// goingBack is a row whose confirms see the token no more, twice.
func goingBack() scenario {
	return scenario{
		name: "verify_goes_back",
		begin: func(w *world) {
			d := w.proven(sandbox.Domain{Use: new(false)})
			rounds := 0
			w.config.DNS = flickering{w.config.DNS, func(looks bool) {
				switch {
				case looks:
					w.sandbox.SetTXT(d.Host, d.TXT)
				case rounds < 2:
					rounds++
					w.sandbox.SetTXT(d.Host, "gone")
				}
			}}
			w.reboot()
			w.submit(tasks.TypeVerify, verifyRow())
		},
		end: func(w *world) {
			w.wantEnded("run0")
			w.wantFate("run0", 0, "done")
			w.wantStatus(org, dom, "verified")
		},
		safe: func(*world) {},
	}
}

// flickering is a zone that changes between look and proof.
type flickering struct {
	tasks.DNS
	before func(looks bool)
}

func (f flickering) Look(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	f.before(true)
	return f.DNS.Look(ctx, host, token)
}

func (flickering) Disprove(context.Context, string, string) (dnscheck.Verdict, error) {
	return dnscheck.Verdict{}, errors.New("not asked for here")
}

func (flickering) Operator(context.Context, string) (string, error) { return "", nil }

func (f flickering) Prove(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	f.before(false)
	return f.DNS.Prove(ctx, host, token)
}

// TestNothingThatStandsIsLost asks before and after each call that a task makes to
// what it depends on.
func TestNothingThatStandsIsLost(t *testing.T) {
	for _, s := range append(scenarios(), goingBack()) {
		t.Run(s.name, func(t *testing.T) {
			w := s.world(t)
			asked := 0
			w.saboteur.watch = func() {
				asked++
				w.wantLost(0)
			}
			for w.step() != nil {
				w.wantLost(0)
			}
			s.end(w)
			if asked == 0 {
				t.Error("nobody asked")
			}
			if r := w.ledgerRun("run0"); r.Generation != r.First {
				t.Errorf("the run was repaired %d times", r.Generation-r.First)
			}
		})
	}
}

// busy is a queue and a ledger of which tasks run between the questions of a search:
// steps of them before each of the questions in at.
type busy struct {
	*world
	at           [2]int
	steps, asked int
}

func (b *busy) goOn() {
	if slices.Contains(b.at[:], b.asked) {
		for range b.steps {
			b.step()
		}
	}
	b.asked++
}

func (b *busy) Stand(ctx context.Context, queue string, ids []string) ([]bool, error) {
	b.goOn()
	return b.queue.Stand(ctx, queue, ids)
}

func (b *busy) Marked(ctx context.Context, run, name string, items []int64) ([]bool, []string, error) {
	b.goOn()
	return b.ledger.Marked(ctx, run, name, items)
}

// wantNotLostWhile holds that a row is not taken for lost that is handed on while its
// tasks are looked for, and says how many questions that took.
func wantNotLostWhile(t *testing.T, before, steps int, at [2]int) (asked int) {
	t.Run(fmt.Sprintf("%d_steps_then_%d_before_questions_%d", before, steps, at), func(t *testing.T) {
		w := goingBack().world(t)
		for range before {
			w.step()
		}
		b := &busy{world: w, at: at, steps: steps}
		r := w.ledgerRun("run0")
		found, err := tasks.NewProducer(w.queue, w.ledger).Lost(t.Context(), tasks.Run{
			ID: "run0", Kind: tasks.TypeVerify, Tenant: "default", CreatedAt: w.clock.now(), First: r.First, Generation: r.Generation, Floor: r.Floor, Rows: 1, Lost: &tasks.Search{Queue: b, Marks: b},
		}, tasks.Window{Past: 1, Open: []int64{0}})
		if err != nil {
			t.Fatal(err)
		}
		if found.Lost > 0 {
			t.Error("it is taken for lost")
		}
		asked = b.asked
	})
	return asked
}

// TestARowThatIsHandedOnIsNotLost: however far its tasks get while they are looked
// for, and wherever they were when that began. It is handed on five times.
func TestARowThatIsHandedOnIsNotLost(t *testing.T) {
	for before := range 6 {
		for steps := 1; steps <= 2; steps++ {
			for first, most := 0, 1; first < most; first++ {
				most = first
				for second := first; second <= most; second++ {
					most = max(most, wantNotLostWhile(t, before, steps, [2]int{first, second}))
				}
			}
		}
	}
}

// TestLostAnywhere kills the worker before and after each call that a task makes,
// and loses every task. What is put back brings the rows to their end, once.
func TestLostAnywhere(t *testing.T) {
	for _, s := range append(scenarios(), goingBack()) {
		t.Run(s.name, func(t *testing.T) {
			calls := len(callsOf(t, s))
			for k := range calls {
				for _, after := range []bool{false, true} {
					t.Run(fmt.Sprintf("%d_after_%t", k, after), func(t *testing.T) {
						w := s.world(t)
						w.saboteur.at, w.saboteur.after = k, after
						for !w.saboteur.done && w.step() != nil {
							continue
						}
						run, err := w.ledger.Get(t.Context(), "run0")
						if err != nil {
							t.Fatal(err)
						}
						w.queue.lose()
						w.wantLost(run.Total - run.Settled)
						if lost := w.repair(); lost != run.Total-run.Settled {
							t.Errorf("%d rows put back, want %d", lost, run.Total-run.Settled)
						}
						w.wantLost(0)
						if lost := w.repair(); lost != 0 {
							t.Errorf("repaired again: %d rows put back", lost)
						}
						w.drain()
						s.end(w)
						s.safe(w)
					})
				}
			}
		})
	}
}

// TestLostAfterACancel: what had begun before it is found out all the same.
func TestLostAfterACancel(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			left := 0
			for k := range callsOf(t, s) {
				t.Run(fmt.Sprint(k), func(t *testing.T) {
					w := s.world(t)
					w.saboteur.at, w.saboteur.after = k, true
					for !w.saboteur.done && w.step() != nil {
						continue
					}
					if _, err := w.ledger.Cancel(t.Context(), "run0"); err != nil {
						t.Fatal(err)
					}
					run, err := w.ledger.Get(t.Context(), "run0")
					if err != nil {
						t.Fatal(err)
					}
					w.queue.lose()
					open := run.Total - run.Settled
					left += int(open)
					if lost := w.repair(); lost != open {
						t.Errorf("%d rows put back, want %d", lost, open)
					}
					w.drain()
					w.wantEnded("run0")
					s.safe(w)
				})
			}
			if begins := strings.HasPrefix(s.name, "create") || s.name == "verify"; begins && left == 0 {
				t.Error("no row had begun at any of the calls")
			}
		})
	}
}

// updates is a run0 of so many rows.
func updates(t *testing.T, rows int) *world {
	w := newWorld(t)
	d := w.proven(sandbox.Domain{})
	w.submit(tasks.TypeUpdate, slices.Repeat([]string{row("organization_id", org, "discovery_domain_id", d.ID, "use_for_organization_discovery", false)}, rows)...)
	return w
}

func (w *world) wantUpdated(rows int) {
	w.t.Helper()
	w.drain()
	if n := len(w.requests("update_discovery_domain")); n != rows {
		w.t.Errorf("%d requests, want one a row", n)
	}
	if r := w.wantEnded("run0"); r.Counts["done"] != int64(rows) {
		w.t.Errorf("counts %v, want %d done", r.Counts, rows)
	}
}

// loseItems loses the tasks of these rows.
func (w *world) loseItems(items ...int64) {
	w.queue.tasks = slices.DeleteFunc(w.queue.tasks, func(q *queued) bool {
		e, err := tasks.ReadEnvelope(q.payload)
		if err != nil {
			w.t.Fatal(err)
		}
		return slices.Contains(items, e.Rows()[0])
	})
}

func TestOnlyWhatIsLostIsPutBack(t *testing.T) {
	w := updates(t, 20)
	w.loseItems(3, 4, 17)
	w.wantLost(3)
	repaired, err := w.intake().Repair(t.Context(), "run0")
	if want := (intake.Repaired{Open: 20, Lost: 3, Tasks: 3, Standing: 17}); err != nil || repaired != want {
		t.Errorf("%+v, %v; want %+v", repaired, err, want)
	}
	if n := len(w.queue.tasks); n != 20 {
		t.Errorf("%d tasks, want one a row", n)
	}
	w.wantUpdated(20)
}

// TestRepairedTwiceAtOnce: one task a row.
func TestRepairedTwiceAtOnce(t *testing.T) {
	w := updates(t, 40)
	w.loseItems(3, 4, 17)
	ended := make(chan error, 4)
	for range cap(ended) {
		go func() {
			_, err := w.intake().Repair(t.Context(), "run0")
			ended <- err
		}()
	}
	for range cap(ended) {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if n := len(w.queue.tasks); n != 40 {
		t.Errorf("%d tasks, want one a row", n)
	}
	w.wantUpdated(40)
}

// wantOneTaskARow holds that as many tasks stand as rows are open.
func (w *world) wantOneTaskARow() {
	w.t.Helper()
	r, err := w.ledger.Get(w.t.Context(), "run0")
	if err != nil {
		w.t.Fatal(err)
	}
	stand := 0
	for _, q := range w.queue.tasks {
		if q.state == "" {
			stand++
		}
	}
	if open := int(r.Total - r.Settled); stand != open {
		w.t.Errorf("%d tasks stand for %d open rows", stand, open)
	}
}

// TestRepairKilledAndRunAgain: the second one, or a resume, completes it, also
// where a part of what the first one put back has been worked on.
func TestRepairKilledAndRunAgain(t *testing.T) {
	for _, resumed := range []bool{false, true} {
		for left := range int64(5) {
			t.Run(fmt.Sprintf("resumed_%t_after_%d", resumed, left), func(t *testing.T) {
				w := updates(t, 20)
				w.loseItems(0, 1, 2, 3, 4)
				dying := &dyingQueue{Enqueuer: w.queue}
				dying.left.Store(left)
				killed := w.intake()
				killed.Producer = tasks.NewProducer(dying, w.ledger)
				if _, err := killed.Repair(t.Context(), "run0"); err == nil {
					t.Fatal("no error where the queue died")
				}
				if r, err := w.ledger.Get(t.Context(), "run0"); err != nil || !r.Repairing() {
					t.Errorf("run is %+v, %v; want it being repaired", r, err)
				}
				for range 6 {
					w.step()
				}
				again := func() error { _, err := w.intake().Repair(t.Context(), "run0"); return err }
				if resumed {
					again = func() error { _, _, err := w.intake().Resume(t.Context(), "run0"); return err }
				}
				if err := again(); err != nil {
					t.Fatal(err)
				}
				w.wantLost(0)
				w.wantOneTaskARow()
				if r, err := w.ledger.Get(t.Context(), "run0"); err != nil || r.Resuming || r.Generation != r.First+1 {
					t.Errorf("generation %d, resuming %v, %v; want 1, and it done", r.Generation-r.First, r.Resuming, err)
				}
				w.wantUpdated(20)
			})
		}
	}
}

// TestRepairOfARepairWhoseTasksWereArchived: their ids stay taken, and are given to
// no other task.
func TestRepairOfARepairWhoseTasksWereArchived(t *testing.T) {
	w := updates(t, 20)
	w.loseItems(0, 1, 2, 3, 4)
	dying := &dyingQueue{Enqueuer: w.queue}
	dying.left.Store(3)
	killed := w.intake()
	killed.Producer = tasks.NewProducer(dying, w.ledger)
	if _, err := killed.Repair(t.Context(), "run0"); err == nil {
		t.Fatal("no error where the queue died")
	}
	for _, q := range w.queue.tasks[15:] {
		q.state = "archived"
	}
	if lost := w.repair(); lost != 5 {
		t.Errorf("%d rows put back, want 5", lost)
	}
	w.wantUpdated(20)
}

func TestRepairAndResume(t *testing.T) {
	w := updates(t, 20)
	w.loseItems(0, 1, 2)
	w.repair()
	if err := w.ledger.Pause(t.Context(), "run0"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.intake().Repair(t.Context(), "run0"); !errors.Is(err, runs.ErrPaused) {
		t.Errorf("paused: %v, want ErrPaused", err)
	}
	w.drain() // all are dropped
	sum, resumed, err := w.intake().Resume(t.Context(), "run0")
	if err != nil || !resumed || sum.Tasks != 20 {
		t.Fatalf("resumed %v with %+v, %v; want 20 tasks", resumed, sum, err)
	}
	w.wantLost(0)
	w.loseItems(7, 8)
	if lost := w.repair(); lost != 2 {
		t.Errorf("after the resume: %d rows put back, want 2", lost)
	}
	w.wantUpdated(20)
}
