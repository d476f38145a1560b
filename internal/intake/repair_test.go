package intake_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/internal/intake"
	"orgops/internal/redistest"
	"orgops/internal/runs"
	"orgops/tasks"
)

// counter is a ledger and queues with run "a", of which nothing is carried out.
type counter struct {
	t         *testing.T
	redis     redis.UniversalClient
	ledger    *runs.Ledger
	taker     intake.Intake
	inspector *asynq.Inspector
	in        intake.Input
}

func newCounter(t *testing.T, in intake.Input) *counter {
	rdb := redistest.New(t)
	ledger := runs.New(rdb)
	return &counter{t: t, redis: rdb, ledger: ledger, taker: intake.New(rdb, ledger), inspector: asynq.NewInspectorFromRedisClient(rdb), in: in}
}

// handIn hands the input in, for the first time or again.
func (c *counter) handIn() (tasks.Summary, error) {
	c.t.Helper()
	checked, err := c.in.Check()
	if err != nil {
		c.t.Fatal(err)
	}
	run, created, err := c.taker.Begin(c.t.Context(), c.in, checked, intake.Run{ID: "a", Tenant: "default"})
	if err != nil {
		c.t.Fatal(err)
	}
	sum, err := c.taker.HandIn(c.t.Context(), c.in, checked, run, created, 0)
	return sum, errors.Join(err, checked.Close())
}

func (c *counter) mustHandIn() tasks.Summary {
	c.t.Helper()
	sum, err := c.handIn()
	if err != nil {
		c.t.Fatal(err)
	}
	return sum
}

// pending are the ids of the tasks that wait in the queue.
func (c *counter) pending(queue string) (ids []string) {
	c.t.Helper()
	all, err := c.inspector.ListPendingTasks(queue, asynq.PageSize(10_000))
	if err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
		c.t.Fatal(err)
	}
	for _, task := range all {
		ids = append(ids, redistest.RelativeTaskID(task.ID))
	}
	return ids
}

func (c *counter) settle(outcome string, items ...int64) {
	c.t.Helper()
	run, err := c.ledger.Get(c.t.Context(), "a")
	if err == nil {
		err = c.ledger.Settle(c.t.Context(), "a", run.Kind, 0, items, outcome, "")
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *counter) delete(queue, id string) {
	c.t.Helper()
	if err := c.inspector.DeleteTask(queue, redistest.TaskID(c.t, redistest.New(c.t), queue, id)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *counter) wantRepaired(want intake.Repaired) {
	c.t.Helper()
	got, err := c.taker.Repair(c.t.Context(), "a")
	if err != nil {
		c.t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		c.t.Errorf("repaired (-want +got):\n%s", diff)
	}
}

// mixedClients are rows of clients of three organizations, over two windows; each
// seventh repeats another, and each eleventh is bad.
func mixedClients(rows int) string {
	var b strings.Builder
	b.WriteString("organization_id,client_id\n")
	for i := range rows {
		switch {
		case i > 0 && i%7 == 0:
			fmt.Fprintf(&b, "org_%d,c%d\n", (i-1)%3, i-1)
		case i%11 == 0:
			fmt.Fprintf(&b, "org_%d,\n", i%3)
		default:
			fmt.Fprintf(&b, "org_%d,c%d\n", i%3, i)
		}
	}
	return b.String()
}

// TestBatchesAreKnownAgain: of the stored rows those batches are formed that were
// submitted, also where rows of them are settled, or were no work at all.
func TestBatchesAreKnownAgain(t *testing.T) {
	const rows, queue = 10_700, "default.api"
	in := input(t, tasks.TypeRemove, mixedClients(rows), tasks.Defaults{})
	in.SkipInvalid = true
	c := newCounter(t, in)
	sum := c.mustHandIn()
	before := c.pending(queue)
	open, _ := c.open()
	c.wantRepaired(intake.Repaired{Open: open, Standing: sum.Tasks})

	c.settle("done", 1, 2, 10_001)
	c.wantRepaired(intake.Repaired{Open: open - 3, Standing: sum.Tasks})
	if diff := cmp.Diff(before, c.pending(queue)); diff != "" {
		t.Errorf("tasks after a repair that had nothing to do (-want +got):\n%s", diff)
	}

	first, last := before[0], before[len(before)-1]
	c.delete(queue, first)
	c.delete(queue, last)
	found, err := c.taker.Repair(t.Context(), "a")
	if err != nil || found.Tasks != 2 || found.Standing != sum.Tasks-2 {
		t.Fatalf("%+v, %v; want two tasks put back", found, err)
	}
	if n := len(c.pending(queue)); n != len(before) {
		t.Errorf("%d tasks, want %d", n, len(before))
	}
	c.wantRepaired(intake.Repaired{Open: open - 3, Standing: sum.Tasks})

	// A resume forms the same batches, and finds them again.
	if err := c.ledger.Pause(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	resumed, _, err := c.taker.Resume(t.Context(), "a")
	if err != nil || resumed.Tasks != sum.Tasks {
		t.Fatalf("resumed with %+v, %v; want %d tasks", resumed, err, sum.Tasks)
	}
	c.wantRepaired(intake.Repaired{Open: open - 3, Standing: sum.Tasks})
}

// open says how many rows of the run are open.
func (c *counter) open() (open int64, run runs.Run) {
	c.t.Helper()
	run, err := c.ledger.Get(c.t.Context(), "a")
	if err != nil {
		c.t.Fatal(err)
	}
	return run.Total - run.Settled, run
}

// verifyRows are rows to verify, of which each third is bad.
func verifyRows(rows int) string {
	var b strings.Builder
	b.WriteString("organization_id,discovery_domain_id\n")
	for i := range rows {
		if i%3 == 2 {
			b.WriteString("org,\n")
			continue
		}
		fmt.Fprintf(&b, "org,dom_%d\n", i)
	}
	return b.String()
}

// TestAnOutcomeThatWasForgotten: a bad row whose outcome was lost with Redis' last
// second has no task, and gets its outcome again.
func TestAnOutcomeThatWasForgotten(t *testing.T) {
	for kind, text := range map[string]string{
		tasks.TypeVerify: verifyRows(6),
		tasks.TypeRemove: "organization_id,client_id\norg,c1\norg,\norg,c3\n",
	} {
		t.Run(kind, func(t *testing.T) {
			in := input(t, kind, text, tasks.Defaults{})
			in.SkipInvalid = true
			c := newCounter(t, in)
			sum := c.mustHandIn()
			open, run := c.open()
			if err := errors.Join(
				c.redis.Del(t.Context(), "orgops:v1:{run:a}:settled", "orgops:v1:{run:a}:fates", "orgops:v1:{run:a}:told").Err(),
				c.redis.HSet(t.Context(), "orgops:v1:{run:a}:run", "settled", 0, "count:invalid", 0).Err(),
			); err != nil {
				t.Fatal(err)
			}
			repaired, err := c.taker.Repair(t.Context(), "a")
			if err != nil || repaired.Lost != run.Settled || repaired.Standing != sum.Tasks {
				t.Errorf("%+v, %v; want %d rows found lost", repaired, err, run.Settled)
			}
			if now, after := c.open(); now != open || after.Counts["invalid"] != run.Counts["invalid"] {
				t.Errorf("%d rows are open, counts %v; want %d and %v", now, after.Counts, open, run.Counts)
			}
		})
	}
}

// TestAProducerRunAgain puts back what is lost, and nothing else.
func TestAProducerRunAgain(t *testing.T) {
	const queue = "default.dns.fast"
	c := newCounter(t, input(t, tasks.TypeVerify, strings.ReplaceAll(verifyRows(2), ",\n", ",x\n"), tasks.Defaults{}))
	c.mustHandIn()
	want := func(when string, sum tasks.Summary, ids ...string) {
		t.Helper()
		if got := c.mustHandIn(); got != sum {
			t.Errorf("%s: %+v, want %+v", when, got, sum)
		}
		if diff := cmp.Diff(ids, c.pending(queue), cmpopts.SortSlices(strings.Compare)); diff != "" {
			t.Errorf("%s: tasks (-want +got):\n%s", when, diff)
		}
	}
	both := tasks.Summary{Rows: 2, Tasks: 2}
	want("nothing is lost", both, "a-0-0", "a-1-0")
	c.delete(queue, "a-0-0")
	want("one is lost", both, "a-1-0", "a-0-1")
	want("and is back", both, "a-1-0", "a-0-1")
	// Its confirm stands for a row, long after its look is forgotten.
	confirm := redistest.TaskID(t, c.redis, queue, "a-1-0") + "c"
	c.delete(queue, "a-1-0")
	if _, err := asynq.NewClientFromRedisClient(c.redis).Enqueue(asynq.NewTask(tasks.TypeConfirm, nil), asynq.TaskID(confirm), asynq.Queue("default.api.fast")); err != nil {
		t.Fatal(err)
	}
	want("one is handed on", both, "a-0-1")
	c.settle("done", 0)
	want("one is settled", tasks.Summary{Rows: 2, Tasks: 1, Settled: 1}, "a-0-1")
}

// TestAProducerRunAgainBeforeTheSeal: a row that was handed on gets no second look,
// and one whose id is taken by a task that was archived gets another.
func TestAProducerRunAgainBeforeTheSeal(t *testing.T) {
	c := newCounter(t, input(t, tasks.TypeVerify, "organization_id,discovery_domain_id\norg,d0\norg,d1\norg,d2\n", tasks.Defaults{}))
	c.mustHandIn()
	unseal := func() {
		if err := errors.Join(
			c.redis.HSet(t.Context(), "orgops:v1:{run:a}:run", "sealed", 0, "total", 0).Err(),
			c.redis.SRem(t.Context(), "orgops:v1:runs:sealed", "a").Err(),
		); err != nil {
			t.Fatal(err)
		}
	}
	unseal()
	confirm := redistest.TaskID(t, c.redis, "default.dns.fast", "a-0-0") + "c"
	c.delete("default.dns.fast", "a-0-0")
	if _, err := asynq.NewClientFromRedisClient(c.redis).Enqueue(asynq.NewTask(tasks.TypeConfirm, nil), asynq.TaskID(confirm), asynq.Queue("default.api.fast")); err != nil {
		t.Fatal(err)
	}
	if err := c.inspector.ArchiveTask("default.dns.fast", redistest.TaskID(t, redistest.New(t), "default.dns.fast", "a-1-0")); err != nil {
		t.Fatal(err)
	}
	if sum := c.mustHandIn(); sum.Rows != 3 {
		t.Errorf("%+v, want 3 rows", sum)
	}
	if diff := cmp.Diff([]string{"a-1-1", "a-2-0"}, c.pending("default.dns.fast"), cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("looks (-want +got):\n%s", diff)
	}
	if _, run := c.open(); !run.Sealed || run.Resuming {
		t.Errorf("run is %+v, want it sealed", run)
	}
}

// TestAPausedRunIsNotRepaired: to resume it makes all tasks anew.
func TestAPausedRunIsNotRepaired(t *testing.T) {
	c := newCounter(t, input(t, tasks.TypeVerify, "organization_id,discovery_domain_id\norg,d0\n", tasks.Defaults{}))
	c.mustHandIn()
	if err := c.ledger.Pause(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.handIn(); !errors.Is(err, runs.ErrPaused) {
		t.Errorf("%v, want ErrPaused", err)
	}
}

// forgetful is a ledger in a Redis that was killed, and has forgotten rows that it
// had acknowledged.
type forgetful struct {
	*runs.Ledger
	redis redis.UniversalClient
	first int64
}

func (f forgetful) StoreRows(ctx context.Context, run string, first int64, rows [][]byte) error {
	err := f.Ledger.StoreRows(ctx, run, first, rows)
	if first == f.first {
		err = errors.Join(err, f.redis.HDel(ctx, "orgops:v1:{run:a}:rows", fmt.Sprint(first)).Err())
	}
	return err
}

// TestRowsThatRedisForgot: the producer says so, and run again completes the run.
func TestRowsThatRedisForgot(t *testing.T) {
	var b strings.Builder
	b.WriteString("organization_id,client_id\n")
	for i := range 2500 {
		fmt.Fprintf(&b, "org,c%d\n", i)
	}
	for _, first := range []int64{0, 1000, 2000} {
		t.Run(fmt.Sprint("from ", first), func(t *testing.T) {
			c := newCounter(t, input(t, tasks.TypeRemove, b.String(), tasks.Defaults{}))
			healthy := c.taker
			c.taker.Producer = tasks.NewProducer(asynq.NewClientFromRedisClient(c.redis), forgetful{c.ledger, c.redis, first})
			if _, err := c.handIn(); !errors.Is(err, runs.ErrGap) || !strings.Contains(err.Error(), fmt.Sprintf("from row %d on", first)) {
				t.Fatalf("got %v, want ErrGap from row %d", err, first)
			}
			if _, err := c.taker.Repair(t.Context(), "a"); !errors.Is(err, runs.ErrUnsealed) {
				t.Errorf("repair of it: %v, want ErrUnsealed", err)
			}
			c.taker = healthy
			if sum := c.mustHandIn(); sum.Rows != 2500 || sum.Tasks != 25 {
				t.Errorf("%+v, want 2500 rows and 25 tasks", sum)
			}
			if _, run := c.open(); !run.Sealed || run.Total != 2500 {
				t.Errorf("run is %+v, want it sealed", run)
			}
			if n := len(c.pending("default.api")); n != 25 {
				t.Errorf("%d tasks, want 25", n)
			}
			c.wantRepaired(intake.Repaired{Open: 2500, Standing: 25})
		})
	}
}

// TestOneRowOfMany looks at more rows than a window has. All but a few of them are
// the same row: the embedded Redis is slow where there are many tasks.
func TestOneRowOfMany(t *testing.T) {
	var b strings.Builder
	b.WriteString("organization_id,discovery_domain_id\n")
	for i := range 2500 {
		switch i {
		case 0, 5, 999, 1000, 2499:
			fmt.Fprintf(&b, "org,dom_%d\n", i)
		default:
			b.WriteString("org,dom\n")
		}
	}
	c := newCounter(t, input(t, tasks.TypeVerify, b.String(), tasks.Defaults{}))
	c.mustHandIn()
	for _, item := range []int{0, 999, 1000, 2499} {
		c.delete("default.dns", fmt.Sprintf("a-%d-0", item))
	}
	c.settle("done", 999, 5)
	c.wantRepaired(intake.Repaired{Open: 4, Lost: 3, Tasks: 3, Standing: 1})
	if diff := cmp.Diff([]string{"a-1-0", "a-5-0", "a-0-1", "a-1000-1", "a-2499-1"}, c.pending("default.dns"), cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("tasks (-want +got):\n%s", diff)
	}
}

func TestRepairWithoutAQueue(t *testing.T) {
	c := newCounter(t, input(t, tasks.TypeVerify, "organization_id,discovery_domain_id\norg,d0\n", tasks.Defaults{}))
	c.mustHandIn()
	c.taker.Queue = nil
	if _, err := c.taker.Repair(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "no queue to search") {
		t.Errorf("%v, want it refused", err)
	}
}

// BenchmarkLost is what it costs to look for the tasks of open rows, 100,000 of
// them, on the Redis of the tests.
func BenchmarkLost(b *testing.B) {
	const rows = 100_000
	rdb := redistest.New(b)
	ledger := runs.New(rdb)
	taker := intake.New(rdb, ledger)
	created, _, err := ledger.Create(b.Context(), runs.Run{ID: "a", Kind: tasks.TypeVerify, Tenant: "default", CreatedAt: time.Unix(1, 0)})
	if err != nil {
		b.Fatal(err)
	}
	submission, err := taker.Producer.Begin(tasks.Run{ID: "a", Kind: created.Kind, Tenant: "default", CreatedAt: created.CreatedAt, Generation: created.Generation, Rows: rows})
	if err != nil {
		b.Fatal(err)
	}
	kind, _ := tasks.KindOf(created.Kind)
	for i := range int64(rows) {
		source := fmt.Sprintf(`{"organization_id":"org","discovery_domain_id":"dom_%d"}`, i)
		row, err := kind.Parse([]byte(source), tasks.Defaults{})
		if err == nil {
			err = submission.Add(b.Context(), i, []byte(source), row)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	if _, err := submission.Finish(b.Context()); err != nil {
		b.Fatal(err)
	}
	run, err := ledger.Get(b.Context(), "a")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if found, err := taker.Lost(b.Context(), run); err != nil || found.Lost != 0 || found.Open != rows {
			b.Fatal(found, err)
		}
	}
	b.ReportMetric(rows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
