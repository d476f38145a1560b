package simulation_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// TestFleet has workers execute rows of all kinds for many tenants in virtual time, with the
// scripts of an embedded Redis: runs of files, single rows, pending domains that a scan
// finds, sweeps. Workers are killed, suspended, join and leave, Redis goes back a second and
// its clock steps, requests and answers are lost. At the end an oracle, which knows only
// the guarantees, compares the ledger with the tenants.
//
// There are 300 rows if long tests run, and otherwise fewer: each run has some.
// ORGOPS_TEST_FLEET=TENANTSxWORKERSxROWS is the size, and ORGOPS_TEST_SEED repeats the
// random numbers, though not the order in which goroutines use them.
func TestFleet(t *testing.T) {
	size := fleetSize{tenants: 2, workers: 3, rows: redistest.Amount(120, 300)}
	if text := os.Getenv("ORGOPS_TEST_FLEET"); text != "" {
		if _, err := fmt.Sscanf(text, "%dx%dx%d", &size.tenants, &size.workers, &size.rows); err != nil || size.tenants < 1 ||
			size.workers < 1 {
			t.Fatalf("ORGOPS_TEST_FLEET: want TENANTSxWORKERSxROWS, such as 10x8x20000, got %q (%v)", text, err)
		}
	}
	seed := seedOf(t)
	began := time.Now()
	var report string
	t.Cleanup(func() {
		t.Logf("%sreal time             %v\nseed                  %d", report, time.Since(began).Round(time.Second), seed)
	})
	synctest.Test(t, func(t *testing.T) { report = simulateFleet(t, size, seed) })
}

// fleetSize is the number of tenants, of workers, and of rows of all tenants.
type fleetSize struct{ tenants, workers, rows int }

// longestFleet is the virtual time after which rows that are not settled are lost.
const longestFleet = 24 * time.Hour

// fleet is a fleet of workers in the time of a bubble.
type fleet struct {
	fleetSize

	t       *testing.T
	redis   *fleetRedis
	outside *redis.Client // of producers and operators
	ledger  *ledger.Ledger
	tenants []*fleetTenant
	slots   []*fleetWorker
	all     []*fleetWorker
	start   time.Time

	background sync.WaitGroup
	done       chan struct{} // all rows are settled
	commands   atomic.Int64  // of workers
	scripts    atomic.Int64

	rolling sync.Mutex
	dice    *rand.Rand

	mu        sync.Mutex
	faults    map[string]int
	events    map[string]int
	executing map[string]*fleetWorker // by the task's id
	serving   map[ledger.Tenant][]*fleetPart
	runs      map[ledger.RunID]*fleetRun
	histories map[fleetRow]*rowHistory
	problems  []string
}

// newFleet returns a fleet with its tenants and workers, without rows.
func newFleet(t *testing.T, size fleetSize, seed uint64) *fleet {
	f := &fleet{
		fleetSize: size, t: t, redis: newFleetRedis(t), start: now(), done: make(chan struct{}),
		dice:   rand.New(rand.NewPCG(seed, 7)),
		faults: map[string]int{}, events: map[string]int{}, executing: map[string]*fleetWorker{},
		serving: map[ledger.Tenant][]*fleetPart{},
		runs:    map[ledger.RunID]*fleetRun{}, histories: map[fleetRow]*rowHistory{},
	}
	f.outside = f.redis.connect(func(_ context.Context, run func() error, cmds ...redis.Cmder) error {
		if err := f.redis.run(run); err != nil {
			return err
		}
		f.published(cmds)
		return nil
	})
	t.Cleanup(func() { _ = f.outside.Close() })
	f.ledger = ledger.New(f.outside)
	for n := range size.tenants {
		f.tenants = append(f.tenants, f.newTenant(n))
	}
	for slot := range size.workers {
		w := f.newWorker(f.tenantsOf(slot))
		f.slots, f.all = append(f.slots, w), append(f.all, w)
	}
	return f
}

func simulateFleet(t *testing.T, size fleetSize, seed uint64) (report string) {
	f := newFleet(t, size, seed)
	var submitting sync.WaitGroup
	for n, tn := range f.tenants {
		f.produce(&submitting, tn, n)
	}
	f.background.Go(f.poll)
	f.background.Go(f.disturb)
	submitting.Wait()
	f.await()
	close(f.done)
	f.calm()
	f.check()
	return f.report()
}

// tenantsOf returns the tenants that a worker serves: up to four workers serve a tenant.
func (f *fleet) tenantsOf(slot int) (all []*fleetTenant) {
	each := min(f.workers, 4)
	for n, tn := range f.tenants {
		for i := range each {
			if (n*each+i)%f.workers == slot {
				all = append(all, tn)
			}
		}
	}
	return all
}

// sleep waits, and reports whether not all rows are settled by then.
func (f *fleet) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-f.done:
		return false
	}
}

// poll makes workers find tasks that another one has enqueued without a notification.
func (f *fleet) poll() {
	for n := 0; f.sleep(time.Second); n++ {
		f.redis.mini.FastForward(time.Second) // for keys that expire
		for _, tn := range f.tenants {
			if !f.serves(tn.name) {
				tn.alone = append(tn.alone, span{now().Add(-time.Second), now()})
			}
			if n%60 == 59 {
				f.recover(tn)
			}
			if pending, _, _, _ := keysOf(tn); f.redis.mini.Exists(pending) {
				f.ring(tn.name)
			}
		}
	}
}

// await waits until all runs are finished.
func (f *fleet) await() {
	for _, tn := range f.tenants {
		for {
			open, err := f.ledger.OpenRuns(f.t.Context(), tn.name)
			singles, noSingles := f.ledger.OpenSingles(f.t.Context(), tn.name)
			if err := errors.Join(err, noSingles); err != nil {
				f.t.Fatal(err)
			}
			if open = append(open, singles...); len(open) == 0 {
				break
			}
			if now().Sub(f.start) > longestFleet {
				f.problem("tenant %s: %d runs are not finished, the first is %+v", tn.name, len(open), open[0])
				break
			}
			time.Sleep(5 * time.Second)
		}
	}
}

// calm ends all workers, suspended ones after they have finished their executions, and waits
// for requests that land late.
func (f *fleet) calm() {
	for _, w := range f.all {
		if !w.isAway() {
			w.close()
		}
	}
	f.background.Wait()
	for _, w := range f.all {
		time.Sleep(time.Until(time.Unix(0, w.until.Load())))
	}
	time.Sleep(4 * requestTimeout)
	for _, w := range f.all {
		w.close()
	}
}

func (f *fleet) count(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[what]++
}

func (f *fleet) problem(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.problems = append(f.problems, fmt.Sprintf(format, args...))
}

// observe counts commands of workers.
func (f *fleet) observe(cmds []redis.Cmder) {
	f.commands.Add(int64(len(cmds)))
	for _, c := range cmds {
		if strings.HasPrefix(c.Name(), "eval") {
			f.scripts.Add(1)
		}
	}
	f.published(cmds)
}

// published wakes the dispatchers of a tenant, to which workers subscribe.
func (f *fleet) published(cmds []redis.Cmder) {
	for _, c := range cmds {
		if name, ok := c.Args()[len(c.Args())-1].(string); ok && c.Name() == "publish" {
			f.wake(ledger.Tenant(name))
		}
	}
}

// disturb injects a fault now and then.
func (f *fleet) disturb() {
	for f.sleep(f.upTo(60 * time.Second / time.Duration(max(f.workers/2, 1)))) {
		slot := int(f.roll() * float64(f.workers))
		f.mu.Lock()
		w := f.slots[slot]
		f.mu.Unlock()
		switch x := f.roll(); {
		case w.gone:
		case x < .25:
			f.strike(w, func() {
				f.count("worker killed")
				w.kill()
			})
			f.replace(slot)
		case x < .5:
			away := 16*time.Second + f.upTo(90*time.Second)
			if f.roll() < .1 {
				away += ledger.ExecutionLimit
			}
			f.strike(w, func() {
				f.count("worker suspended")
				w.until.Store(now().Add(away).UnixNano())
			})
		case x < .6:
			f.count("worker left")
			w.leaving.Go(w.leave)
			f.replace(slot)
		case x < .75:
			tn := f.tenants[int(f.roll()*float64(len(f.tenants)))]
			f.count("API troubled")
			tn.troubled.Store(now().Add(f.upTo(20 * time.Second)).UnixNano())
		case x < .82:
			f.count("Redis' clock stepped")
			ahead := f.upTo(4*time.Minute) - 2*time.Minute
			if f.roll() < .1 {
				ahead *= 3
			}
			f.redis.setClock(ahead)
		case x < .9:
			f.count("Redis went back")
			f.redis.goBack(f.upTo(time.Second))
		default:
			f.redis.fail(f.upTo(3 * time.Second))
		}
	}
}

// strike strikes a worker at one of its next points.
func (f *fleet) strike(w *fleetWorker, how func()) {
	if w.points.Load() == 0 {
		w.strike = how
		w.points.Store(1 + int64(f.roll()*100))
	}
}

// replace starts another worker in place of one that is gone.
func (f *fleet) replace(slot int) {
	f.slots[slot].gone = true
	f.background.Go(func() {
		if f.sleep(f.upTo(30 * time.Second)) {
			f.count("worker joined")
			w := f.newWorker(f.tenantsOf(slot))
			f.mu.Lock()
			defer f.mu.Unlock()
			f.slots[slot], f.all = w, append(f.all, w)
		}
	})
}

// report returns the figures.
func (f *fleet) report() string {
	var out strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&out, "\n%-21s %s", name, fmt.Sprintf(format, args...))
	}
	rows := map[ledger.Outcome]int{}
	total := 0
	for _, r := range f.runs {
		for outcome, n := range r.outcomes {
			rows[outcome] += n
			total += n
		}
	}
	requests, refused := 0, 0
	for _, tn := range f.tenants {
		requests, refused = requests+len(tn.log), refused+tn.refused
	}
	line("tenants, workers", "%d, %d (%d in all)", len(f.tenants), f.workers, len(f.all))
	line("rows", "%d in %d runs: %v", total, len(f.runs), rows)
	line("commands per row", "%.1f, of them %.1f scripts, by workers", float64(f.commands.Load())/float64(total),
		float64(f.scripts.Load())/float64(total))
	line("requests per row", "%.2f, %d refused by the API's own bucket", float64(requests)/float64(total), refused)
	line("virtual time", "%v", now().Sub(f.start).Round(time.Second))
	for i, r := range f.longest() {
		line([]string{"waited longest", ""}[min(i, 1)], "run %s: %s", r.id, r.longest)
	}
	for i, name := range slices.Sorted(maps.Keys(f.faults)) {
		line([]string{"faults", ""}[min(i, 1)], "%6d %s", f.faults[name], name)
	}
	return out.String() + "\n"
}

// longest returns the runs with the rows that waited longest.
func (f *fleet) longest() []*fleetRun {
	all := slices.SortedFunc(maps.Values(f.runs), func(a, b *fleetRun) int {
		return cmp.Compare(b.longest.total, a.longest.total)
	})
	return all[:min(len(all), 5)]
}
