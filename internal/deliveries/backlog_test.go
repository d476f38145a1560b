package deliveries_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/internal/deliveries"
	"orgops/internal/redistest"
)

// unreachable is a receiver that does not answer until it is up.
type unreachable struct {
	mu  sync.Mutex
	up  bool
	got []string // ids of the delivered events
}

func (r *unreachable) attempt(_, id string, _ time.Time, _ []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.up {
		return attemptError(attempt{})
	}
	r.got = append(r.got, id)
	return nil
}

func (r *unreachable) comeUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.up = true
}

func (r *unreachable) delivered() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := slices.Clone(r.got)
	slices.Sort(got)
	return got
}

// ids returns the ids from first to last.
func ids(first, last int) (all []string) {
	for i := first; i <= last; i++ {
		all = append(all, fmt.Sprintf("event-%03d", i))
	}
	return all
}

func (w *world) notify(n *deliveries.Notifier, ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		if err := n.Notify(w.t.Context(), lost(id)); err != nil {
			w.t.Fatal(err)
		}
	}
}

const dropped = "delivery acme crm dropped"

// TestBacklogIsBounded: while a receiver is unreachable, the newest events wait and the
// oldest are dropped. When the receiver is back, those that wait are delivered.
func TestBacklogIsBounded(t *testing.T) {
	t.Parallel()
	const bound = 8
	r := new(unreachable)
	w := newWorld(t, crm(r.attempt), bound)
	w.serve()
	n := deliveries.NewNotifier(w.cfg)
	w.notify(n, ids(1, bound)...)
	await(t, "an attempt of each", func() bool { return w.meter.count("delivery acme crm again") >= bound })
	for i := bound + 1; i <= 3*bound; i++ {
		w.notify(n, ids(i, i)...)
		// A delivery in progress is not dropped. One that begins leaves pending first.
		await(t, "the attempt", func() bool { return len(w.pending()) == 0 && len(w.active()) == 0 })
	}
	want := ids(2*bound+1, 3*bound)
	if got := w.waiting(); !slices.Equal(got, want) {
		t.Errorf("%d wait: %q, want %q", len(got), got, want)
	}
	if got := w.backlog(); !slices.Equal(got, want) {
		t.Errorf("backlog %q, want %q", got, want)
	}
	if got := w.meter.count(dropped); got != 2*bound {
		t.Errorf("%d counted as dropped, want %d", got, 2*bound)
	}
	counted, err := deliveries.Count(t.Context(), w.rdb, "acme")
	mustNot(t, err)
	if got := counted.Dropped["crm"]; got.Events != 2*bound || got.Since.After(got.Last) {
		t.Errorf("%+v is reported, want %d dropped events", got, 2*bound)
	}
	r.comeUp()
	if _, err := w.inspector.RunAllRetryTasks("acme.webhook.crm"); err != nil {
		t.Fatal(err)
	}
	await(t, "the deliveries", func() bool { return len(r.delivered()) >= bound })
	if got := r.delivered(); !slices.Equal(got, want) {
		t.Errorf("delivered %q, want %q", got, want)
	}
	await(t, "an empty backlog", func() bool { return len(redistest.Keys(t, backlogKey)) == 0 })
}

// TestDeletedByAnotherTool: deliveries that somebody deletes from asynq's queue are counted once,
// and leave the backlog. One that was notified a moment ago may have no task yet.
func TestDeletedByAnotherTool(t *testing.T) {
	t.Parallel()
	w := newWorld(t, crm(nil), 10)
	w.notify(deliveries.NewNotifier(w.cfg), ids(1, 6)...)
	for _, id := range ids(2, 6) {
		if id != "event-003" {
			mustNot(t, w.inspector.DeleteTask("acme.webhook.crm", "webhook-acme-crm-"+id))
		}
	}
	for _, id := range ids(1, 5) {
		mustNot(t, w.rdb.ZIncrBy(t.Context(), backlogKey, -6*60e6, "webhook-acme-crm-"+id).Err())
	}
	for range 2 {
		mustNot(t, deliveries.NoticeDeleted(t.Context(), w.cfg, "crm", "desk"))
	}
	want := []string{"event-001", "event-003", "event-006"}
	if got := w.backlog(); !slices.Equal(got, want) {
		t.Errorf("backlog %q, want %q", got, want)
	}
	if n := w.meter.count("delivery acme crm deleted"); n != 3 {
		t.Errorf("%d counted as deleted, want 3", n)
	}
	if log := w.log.String(); strings.Count(log, "webhook events lost") != 1 || !strings.Contains(log, "deleted=3") {
		t.Errorf("log %s", log)
	}
}

// TestRemovedQueue: after "asynq queue rm" asynq's Inspector knows no task of the queue, since the
// process that enqueues has added its name to asynq's list already. The oldest events beyond the
// bound are dropped nevertheless, and given-up ones are sent again.
func TestRemovedQueue(t *testing.T) {
	t.Parallel()
	const queue = "acme.webhook.crm"
	w := newWorld(t, crm(nil), 3)
	n := deliveries.NewNotifier(w.cfg)
	w.notify(n, ids(1, 3)...)
	mustNot(t, w.rdb.Del(t.Context(), "asynq:queues").Err())
	w.notify(n, ids(4, 5)...)
	if got := w.waiting(); !slices.Equal(got, ids(3, 5)) {
		t.Errorf("%q wait, want the newest three", got)
	}
	mustNot(t, w.inspector.ArchiveTask(queue, "webhook-acme-crm-event-004"))
	mustNot(t, w.rdb.HSet(t.Context(), "orgops:v3:{tenant:acme}:webhooks", "crm.failed", 1).Err())
	mustNot(t, w.rdb.Del(t.Context(), "asynq:queues").Err())
	if n, err := deliveries.Resend(t.Context(), w.rdb, "acme", "crm", deliveries.GivenUp); n != 1 || err != nil {
		t.Errorf("%d are sent again, %v, want one", n, err)
	}
}

func mustNot(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestFirstSuccessCallsTheOthers checks that events which were put off while their receiver rested
// are delivered once one of them has arrived, however far their next attempts are.
func TestFirstSuccessCallsTheOthers(t *testing.T) {
	var up atomic.Bool
	var arrived atomic.Int32
	w := newWorld(t, crm(func(string, string, time.Time, []byte) error {
		if !up.Load() {
			return attemptError(attempt{RetryAfter: time.Hour, Unsent: true})
		}
		arrived.Add(1)
		return nil
	}), 10)
	w.serve()
	w.notify(deliveries.NewNotifier(w.cfg), ids(1, 5)...)
	retries := func() int { return len(w.in(w.inspector.ListRetryTasks)) }
	await(t, "all to be put off", func() bool { return retries() == 5 })
	up.Store(true)
	first, err := w.inspector.ListRetryTasks("acme.webhook.crm")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.inspector.RunTask("acme.webhook.crm", first[0].ID); err != nil {
		t.Fatal(err)
	}
	await(t, "all deliveries", func() bool { return arrived.Load() == 5 && retries() == 0 })
}

// TestSendWaiting: after the receiver was fixed a person need not wait for the next attempts, which
// are hours away. Deliveries that were given up stay.
func TestSendWaiting(t *testing.T) {
	var up atomic.Bool
	var arrived atomic.Int32
	w := newWorld(t, crm(func(_, id string, _ time.Time, _ []byte) error {
		switch {
		case id == "event-001":
			return attemptError(attempt{Permanent: true, Status: 400})
		case !up.Load():
			return attemptError(attempt{RetryAfter: time.Hour, Status: 503})
		}
		arrived.Add(1)
		return nil
	}), 10)
	w.serve()
	w.notify(deliveries.NewNotifier(w.cfg), ids(1, 5)...)
	await(t, "failed attempts", func() bool {
		return len(w.in(w.inspector.ListRetryTasks)) == 4 && len(w.in(w.inspector.ListArchivedTasks)) == 1
	})
	up.Store(true)
	if n, err := deliveries.Resend(t.Context(), w.rdb, "acme", "crm", deliveries.Waiting); n != 4 || err != nil {
		t.Errorf("%d are sent now, %v; want the 4 that wait", n, err)
	}
	await(t, "all deliveries", func() bool { return arrived.Load() == 4 && len(w.in(w.inspector.ListRetryTasks)) == 0 })
	if n := len(w.in(w.inspector.ListArchivedTasks)); n != 1 {
		t.Errorf("%d are given up, want the one that was before", n)
	}
}

func (w *world) active() []string  { return w.in(w.inspector.ListActiveTasks) }
func (w *world) pending() []string { return w.in(w.inspector.ListPendingTasks) }

func (w *world) in(list func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error)) (all []string) {
	w.t.Helper()
	tasks, err := list("acme.webhook.crm", asynq.PageSize(1000))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, task := range tasks {
		all = append(all, task.ID)
	}
	return eventIDs(all)
}

// TestBacklogsAreApart: a receiver that is down costs another one nothing.
func TestBacklogsAreApart(t *testing.T) {
	w := newWorld(t, receivers{wants: map[string][]string{"crm": {"domain.lost"}, "desk": {"domain.lost"}}}, 5)
	n := deliveries.NewNotifier(w.cfg)
	w.notify(n, ids(1, 8)...)
	for _, endpoint := range []string{"crm", "desk"} {
		if got := w.meter.count("delivery acme " + endpoint + " dropped"); got != 3 {
			t.Errorf("%s: %d dropped, want 3", endpoint, got)
		}
	}
	w.cfg.Receivers = receivers{wants: map[string][]string{"crm": {"domain.lost"}, "desk": {"domain.lost"}},
		attempt: func(string, string, time.Time, []byte) error { return nil }}
	h := deliveries.NewHandler(w.cfg)
	for _, id := range ids(4, 8) {
		if err := w.process(h, "webhook-acme-desk-"+id); err != nil {
			t.Error(err)
		}
	}
	if got := redistest.Keys(t, "orgops:v3:{tenant:acme}:webhooks:desk"); len(got) > 0 {
		t.Errorf("keys %q, want that of crm alone", got)
	}
}

// process runs a waiting task in place of a server.
func (w *world) process(h *deliveries.Handler, id string) error {
	w.t.Helper()
	task, err := w.inspector.GetTaskInfo(deliveries.Queue("acme", strings.Split(id, "-")[2]), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return h.Process(w.t.Context(), asynq.NewTask(task.Type, task.Payload), id, task.Retried)
}

// TestADeliveryInProgressIsNotDropped: it is the oldest, and others are dropped in the end.
func TestADeliveryInProgressIsNotDropped(t *testing.T) {
	started, finish := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w := newWorld(t, crm(func(_, id string, _ time.Time, _ []byte) error {
		if id == "event-001" {
			once.Do(func() { close(started) })
			<-finish
			return nil
		}
		return attemptError(attempt{})
	}), 3)
	w.serve()
	n := deliveries.NewNotifier(w.cfg)
	w.notify(n, "event-001")
	<-started
	w.notify(n, ids(2, 4)...)
	if got := w.meter.count(dropped); got != 0 {
		t.Errorf("%d dropped, want none", got)
	}
	close(finish)
	await(t, "the delivery", func() bool { return w.meter.count("delivery acme crm delivered") == 1 })
	await(t, "an attempt of each", func() bool { return len(w.pending()) == 0 && len(w.active()) == 0 })
	w.notify(n, "event-005")
	if got, want := w.backlog(), ids(3, 5); !slices.Equal(got, want) {
		t.Errorf("backlog %q, want %q", got, want)
	}
}

// TestKilledBetweenBacklogAndQueue: an entry without a task counts only until it is the
// oldest, and the event that is notified again is delivered.
func TestKilledBetweenBacklogAndQueue(t *testing.T) {
	w := newWorld(t, crm(nil), 3)
	dies := w.cfg
	dies.Enqueuer = failing{errors.New("killed")}
	for _, id := range ids(1, 2) {
		if err := deliveries.NewNotifier(dies).Notify(t.Context(), lost(id)); err == nil {
			t.Fatal("no error")
		}
	}
	n := deliveries.NewNotifier(w.cfg)
	w.notify(n, ids(2, 5)...)
	if got, want := w.backlog(), ids(3, 5); !slices.Equal(got, want) {
		t.Errorf("backlog %q, want %q", got, want)
	}
	if got, want := w.waiting(), ids(3, 5); !slices.Equal(got, want) {
		t.Errorf("%q wait, want %q", got, want)
	}
	if got := w.meter.count(dropped); got != 1 {
		t.Errorf("%d dropped, want event-002 alone", got)
	}
}

// TestRedisForgetsTheBacklog: a task without an entry gets one when an attempt fails, at
// its place by age.
func TestRedisForgetsTheBacklog(t *testing.T) {
	w := newWorld(t, crm(func(string, string, time.Time, []byte) error { return attemptError(attempt{}) }), 3)
	now := time.Now()
	w.cfg.Now = func() time.Time { return now }
	n := deliveries.NewNotifier(w.cfg)
	w.notify(n, ids(1, 2)...)
	if err := w.rdb.Del(t.Context(), backlogKey).Err(); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour)
	w.notify(n, "event-003")
	h := deliveries.NewHandler(w.cfg)
	for _, id := range ids(1, 2) {
		if err := w.process(h, "webhook-acme-crm-"+id); err == nil {
			t.Fatal("delivered")
		}
	}
	if got, want := w.backlog(), ids(1, 3); !slices.Equal(got, want) {
		t.Errorf("backlog %q, want %q", got, want)
	}
	w.notify(n, "event-004")
	if got, want := w.waiting(), ids(2, 4); !slices.Equal(got, want) {
		t.Errorf("%q wait, want %q", got, want)
	}
}

// TestRedisForgetsTasks: entries without tasks are no dropped events.
func TestRedisForgetsTasks(t *testing.T) {
	w := newWorld(t, crm(nil), 3)
	n := deliveries.NewNotifier(w.cfg)
	w.notify(n, ids(1, 3)...)
	for _, id := range ids(1, 3) {
		if err := w.inspector.DeleteTask("acme.webhook.crm", "webhook-acme-crm-"+id); err != nil {
			t.Fatal(err)
		}
	}
	w.notify(n, ids(4, 6)...)
	if got := w.meter.count(dropped); got != 0 || w.log.Len() == 0 || strings.Contains(w.log.String(), "WARN") {
		t.Errorf("%d dropped, want none; log: %s", got, w.log)
	}
	if got, want := w.backlog(), ids(4, 6); !slices.Equal(got, want) {
		t.Errorf("backlog %q, want %q", got, want)
	}
}

// TestArchivedTasksAreKept: people may run a delivery again that was given up. Its entry
// has gone, and comes back if the attempt fails.
func TestArchivedTasksAreKept(t *testing.T) {
	w := newWorld(t, crm(nil), 2)
	n := deliveries.NewNotifier(w.cfg)
	w.notify(n, "event-001")
	const task = "webhook-acme-crm-event-001"
	if err := w.inspector.ArchiveTask("acme.webhook.crm", task); err != nil {
		t.Fatal(err)
	}
	w.notify(n, ids(2, 3)...)
	if info, err := w.inspector.GetTaskInfo("acme.webhook.crm", task); err != nil ||
		info.State != asynq.TaskStateArchived ||
		w.meter.count(dropped) != 0 {
		t.Errorf("task %+v, %v; %d dropped", info, err, w.meter.count(dropped))
	}
	if got, want := w.backlog(), ids(2, 3); !slices.Equal(got, want) {
		t.Errorf("backlog %q, want %q", got, want)
	}
}

// TestNotifiedAgainAfterDelivery leaves no entry, and delivers nothing twice.
func TestNotifiedAgainAfterDelivery(t *testing.T) {
	r := &unreachable{up: true}
	w := newWorld(t, crm(r.attempt), 3)
	w.serve()
	n := deliveries.NewNotifier(w.cfg)
	w.notify(n, "event-001")
	await(t, "the delivery", func() bool { return len(r.delivered()) == 1 && len(w.active()) == 0 })
	w.notify(n, "event-001")
	if got := w.backlog(); len(got) > 0 {
		t.Errorf("backlog %q, want none", got)
	}
	if got := r.delivered(); len(got) != 1 || len(w.pending()) > 0 {
		t.Errorf("delivered %q, pending %q", got, w.pending())
	}
}

// TestDropsAreLoggedOnceAMinute, with their number.
func TestDropsAreLoggedOnceAMinute(t *testing.T) {
	w := newWorld(t, crm(nil), 1)
	now := at
	w.cfg.Now = func() time.Time { return now }
	n := deliveries.NewNotifier(w.cfg)
	w.notify(n, ids(1, 4)...)
	now = now.Add(time.Minute)
	w.notify(n, "event-005")
	var lines []string
	for line := range strings.Lines(w.log.String()) {
		if strings.HasPrefix(line, "level=WARN") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	line := func(n int) string {
		return fmt.Sprintf(
			`level=WARN msg="webhook events dropped: too many wait for the endpoint" tenant=acme endpoint=crm dropped=%d backlog=1 what_to_do="bring the receiver back, or remove the endpoint from the webhooks file of all workers"`, n)
	}
	if want := []string{line(1), line(3)}; !slices.Equal(lines, want) {
		t.Errorf("warnings %q, want %q", lines, want)
	}
}

// TestALowerBound takes effect over the next events.
func TestALowerBound(t *testing.T) {
	w := newWorld(t, crm(nil), 200)
	w.notify(deliveries.NewNotifier(w.cfg), ids(1, 100)...)
	w.cfg.Backlog = 10
	n := deliveries.NewNotifier(w.cfg)
	w.notify(n, ids(101, 105)...)
	if got, want := w.backlog(), ids(96, 105); !slices.Equal(got, want) {
		t.Errorf("backlog %q, want %q", got, want)
	}
	if got, want := w.waiting(), ids(96, 105); !slices.Equal(got, want) {
		t.Errorf("%q wait, want %q", got, want)
	}
}

// TestTheBacklogExpires with its last use, and old entries before.
func TestTheBacklogExpires(t *testing.T) {
	w := newWorld(t, crm(nil), 10)
	n := deliveries.NewNotifier(w.cfg)
	old := float64(time.Now().Add(-97 * time.Hour).UnixMicro())
	if err := w.rdb.ZAdd(t.Context(), backlogKey, redis.Z{Score: old, Member: "old"}).Err(); err != nil {
		t.Fatal(err)
	}
	w.notify(n, "event-001")
	if got := w.backlog(); !slices.Equal(got, ids(1, 1)) {
		t.Errorf("backlog %q, want the event alone", got)
	}
	if ttl := w.rdb.TTL(t.Context(), backlogKey).Val(); ttl < 95*time.Hour || ttl > 96*time.Hour {
		t.Errorf("expires in %v, want four days", ttl)
	}
}

// TestNamesOfStrangers become no keys.
func TestNamesOfStrangers(t *testing.T) {
	w := newWorld(t, crm(func(string, string, time.Time, []byte) error { return attemptError(attempt{}) }), 10)
	body := `{"v":1,"tenant":"acme","created_at":"2026-11-22T01:02:03Z","endpoint":"stranger","id":"x","event":{}}`
	w.cfg.Now = func() time.Time { return at }
	if err := deliveries.NewHandler(w.cfg).Process(t.Context(),
		asynq.NewTask(deliveries.TaskType, []byte(body)), "id", 0); err == nil {
		t.Error("delivered")
	}
	if got := redistest.Keys(t, "orgops:*"); len(got) > 0 {
		t.Errorf("keys %q", got)
	}
}

// TestAtMaxmemory: a Redis without memory refuses an event, which is notified again later.
// Deliveries that wait end, and leave the backlog.
func TestAtMaxmemory(t *testing.T) {
	server := redistest.Start(t, "--maxmemory-policy", "noeviction")
	rdb := server.Client()
	t.Cleanup(func() { _ = rdb.Close() })
	r := new(unreachable)
	w := newWorldIn(t, rdb, crm(r.attempt), 3)
	n := deliveries.NewNotifier(w.cfg)
	w.notify(n, ids(1, 3)...)
	limit := func(to string) {
		t.Helper()
		if err := rdb.ConfigSet(t.Context(), "maxmemory", to).Err(); err != nil {
			t.Fatal(err)
		}
	}
	limit("1")
	if err := n.Notify(t.Context(), lost("event-004")); err == nil || !isOOM(err) {
		t.Errorf("error %v, want the refusal of Redis", err)
	}
	h := deliveries.NewHandler(w.cfg)
	if err := w.process(h, "webhook-acme-crm-event-001"); err == nil || !deliveries.IsFailure(err) {
		t.Errorf("error %v, want the attempt's", err)
	}
	r.comeUp()
	if err := w.process(h, "webhook-acme-crm-event-001"); err != nil {
		t.Error(err)
	}
	if got, want := w.backlog(), ids(2, 3); !slices.Equal(got, want) {
		t.Errorf("backlog %q, want %q", got, want)
	}
	limit("0")
	w.notify(n, ids(4, 5)...)
	if got, want := w.backlog(), ids(3, 5); !slices.Equal(got, want) {
		t.Errorf("backlog %q, want %q", got, want)
	}
}

func isOOM(err error) bool {
	answer, ok := errors.AsType[redis.Error](err)
	return ok && strings.Contains(answer.Error(), "OOM ")
}

// TestDroppingFails: the event is notified all the same, and a later one drops more.
func TestDroppingFails(t *testing.T) {
	w := newWorld(t, crm(nil), 1)
	n := deliveries.NewNotifier(w.cfg)
	w.notify(n, "event-001")
	hook := &sometimes{}
	w.rdb.AddHook(hook)
	hook.refuse("hmget", "evalsha", "zrem")
	hook.after = 2 // the two scripts that add and enqueue
	w.notify(n, "event-002")
	hook.refuse()
	if got := w.backlog(); !slices.Equal(got, ids(1, 2)) ||
		!strings.Contains(w.log.String(), "webhook events not dropped") {
		t.Errorf("backlog %q; log: %s", got, w.log)
	}
	w.notify(n, "event-003")
	if got := w.backlog(); !slices.Equal(got, ids(3, 3)) {
		t.Errorf("backlog %q, want the newest", got)
	}
}

// sometimes is a hook that refuses commands of some names, after the first ones.
type sometimes struct {
	names []string
	after int
}

func (s *sometimes) refuse(names ...string) { s.names = names }

func (*sometimes) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *sometimes) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if slices.Contains(s.names, cmd.Name()) {
			if s.after--; s.after < 0 {
				cmd.SetErr(oom)
				return oom
			}
		}
		return next(ctx, cmd)
	}
}

func (*sometimes) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// redisAnswer is an error of Redis.
type redisAnswer string

func (a redisAnswer) Error() string { return string(a) }
func (redisAnswer) RedisError()     {}

const oom = redisAnswer("OOM command not allowed when used memory > 'maxmemory'. script: 1f, on @user_script:3.")
