package tasks_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/apiclient"
	"orgops/internal/pace"
	"orgops/internal/redisconn"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// signals tells of finished executions as they come.
type signals chan string

func (s signals) Task(_, typ, outcome string, _ time.Duration) { s <- typ + " " + outcome }

func (s signals) ClientsPerRequest(string, int) {}

func (s signals) Event(string, string) {}

func (s signals) Delivery(string, string, string) {}

// office is a world whose queue is asynq's, with workers that are started and
// stopped.
type office struct {
	*world
	signals   signals
	inspector *asynq.Inspector
	servers   *tasks.Servers
	redis     func(redisconn.Config) (redis.UniversalClient, error)
	hook      redis.Hook // on the workers' client; nil: none
}

func newOffice(t *testing.T, change ...func(*settings)) *office {
	t.Helper()
	o := &office{signals: make(signals, 1000), redis: redisconn.ForServer}
	o.world = newWorld(t, append(change, func(s *settings) { s.tasks.Meter = o.signals })...)
	rdb := redistest.New(t)
	client := asynq.NewClientFromRedisClient(rdb)
	o.enqueuer, o.config.Enqueuer = client, client
	o.inspector = asynq.NewInspectorFromRedisClient(rdb)
	return o
}

// normalPlaces of each group are half as many, four, on the fast lane, which the
// tests' small runs go by.
const normalPlaces = 8

// open starts a worker.
func (o *office) open(change ...func(*tasks.Config)) {
	o.t.Helper()
	o.reboot(change...)
	rdb, err := o.redis(redisconn.Config{URL: redistest.URL(o.t), AllowURLPassword: true})
	if err != nil {
		o.t.Fatal(err)
	}
	if o.hook != nil {
		rdb.AddHook(o.hook)
	}
	o.t.Cleanup(func() { _ = rdb.Close() })
	o.servers = tasks.NewServers(tasks.ServerConfig{
		Redis: rdb, Tenant: "default", Mux: o.mux, DNSConcurrency: normalPlaces, APIConcurrency: normalPlaces,
		ShutdownTimeout: 10 * time.Second, Logger: slog.New(slog.NewJSONHandler(o.log, nil)),
	})
	if err := o.servers.Start(); err != nil {
		o.t.Fatal(err)
	}
}

// close stops the worker as a SIGTERM does.
func (o *office) close() {
	o.servers.Stop()
	close(o.stopping)
	o.servers.Shutdown()
}

// await waits until an execution ends so.
func (o *office) await(want string) {
	o.t.Helper()
	for {
		select {
		case got := <-o.signals:
			if got == want {
				return
			}
		case <-o.t.Context().Done():
			o.t.Fatalf("%q never came", want)
		}
	}
}

func (o *office) task(queue, id string) *asynq.TaskInfo {
	o.t.Helper()
	info, err := o.inspector.GetTaskInfo(queue, redistest.TaskID(o.t, redistest.New(o.t), queue, id))
	if err != nil {
		o.t.Fatal(err)
	}
	return info
}

func TestServers(t *testing.T) {
	o := newOffice(t)
	d := o.proven(sandbox.Domain{Use: new(false)})
	o.sandbox.AddClients(org, clients(3)...)
	verify := o.submit(tasks.TypeVerify, verifyRow("verification_host", d.Host, "verification_txt", d.TXT))
	remove := o.submit(tasks.TypeRemove, o.removals(clients(3)...)...)
	create := o.submit(tasks.TypeCreate, template)
	o.open()
	waiting := map[string]bool{"domain:confirm done": true, "clients:remove done": true, "template:create done": true}
	for len(waiting) > 0 {
		delete(waiting, <-o.signals)
	}
	o.close()
	for _, run := range []string{verify, remove, create} {
		o.wantEnded(run)
		o.wantFate(run, 0, "done")
	}
	o.wantStatus(org, dom, "verified")
	info := o.task("default.api.fast", create+"-0-0")
	if info.State != asynq.TaskStateCompleted || !strings.Contains(string(info.Result), `"outcome":"done","detail":"vct_`) {
		t.Errorf("state %v, result %s; want it completed, with the template's id", info.State, info.Result)
	}
	if info := o.task("default.api.fast", verify+"-0-0c"); info.State != asynq.TaskStateCompleted {
		t.Errorf("the confirm is %v", info.State)
	}
}

// TestTheFastLaneHasPlacesOfItsOwn: all places of the normal lane are held by
// tasks that wait for their permits, and a small run goes through all the same.
func TestTheFastLaneHasPlacesOfItsOwn(t *testing.T) {
	o := newOffice(t)
	const rows = normalPlaces + 4
	gate := lineGate{
		pace.New(pace.Config{Redis: redistest.New(t), Tenant: "default"}), apiclient.OpUpdateDiscoveryDomain,
		make(chan struct{}, rows), make(chan struct{}), make(chan struct{}, rows),
	}
	client, err := apiclient.New(apiclient.Config{BaseURL: o.sandbox.BaseURL(), Tokens: apiclient.StaticToken(apiclient.NewSecret(o.token)), Gate: gate})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdle)
	var updates []string
	for range rows {
		d := o.sandbox.AddDomain("org_many", sandbox.Domain{Use: new(false)})
		updates = append(updates, row("organization_id", "org_many", "discovery_domain_id", d.ID, "use_for_organization_discovery", true))
	}
	o.priority = tasks.NormalPriority
	big := o.submit(tasks.TypeUpdate, updates...)
	o.open(func(c *tasks.Config) { c.API = client })
	for range normalPlaces {
		<-gate.came
	}
	o.sandbox.AddClients(org, clients(2)...)
	o.priority = tasks.ByRows
	small := o.submit(tasks.TypeRemove, o.removals(clients(2)...)...)
	o.await("clients:remove done")
	o.wantEnded(small)
	close(gate.door)
	for range rows {
		o.await("domain:update done")
	}
	o.close()
	o.wantEnded(big)
}

func TestServersArchiveWhatIsRefused(t *testing.T) {
	o := newOffice(t)
	run := o.submit(tasks.TypeRemove, o.removals("a")...) // no such organization
	o.open()
	o.await("clients:remove refused")
	o.close()
	o.wantFate(run, 0, "refused")
	archived, err := o.inspector.ListArchivedTasks("default.api.fast")
	if err != nil || len(archived) != 1 || !strings.Contains(archived[0].LastErr, "refused: ") {
		t.Errorf("archived %v, %v; want the task with its reason", archived, err)
	}
}

func TestServersSnoozeWithoutCounting(t *testing.T) {
	o := newOffice(t)
	f := status(429, "Retry-After", "1")
	f.Count = 1
	o.sandbox.AddFault(f)
	run := o.submit(tasks.TypeCreate, template)
	o.open()
	o.await("template:create paced")
	o.await("template:create done")
	o.close()
	o.wantFate(run, 0, "done")
	if info := o.task("default.api.fast", run+"-0-0"); info.Retried != 0 || info.State != asynq.TaskStateCompleted {
		t.Errorf("%d attempts counted, %v; want none, and completed", info.Retried, info.State)
	}
}

// waitingAPI waits for a permit until the worker stops, as the pace does.
type waitingAPI struct {
	tasks.API
	entered  chan struct{}
	stopping <-chan struct{}
}

func (a waitingAPI) CreateTemplate(ctx context.Context, _ apiclient.TemplateRequest) (apiclient.Template, error) {
	close(a.entered)
	select {
	case <-a.stopping:
		return apiclient.Template{}, noPermit{stopping: true}
	case <-ctx.Done():
		return apiclient.Template{}, ctx.Err()
	}
}

func TestServersStop(t *testing.T) {
	o := newOffice(t)
	run := o.submit(tasks.TypeCreate, template)
	api, entered := o.config.API, make(chan struct{})
	o.open(func(c *tasks.Config) { c.API = waitingAPI{api, entered, c.Stopping} })
	<-entered
	o.close()
	o.await("template:create stopping")
	if info := o.task("default.api.fast", run+"-0-0"); info.Retried != 0 || info.State == asynq.TaskStateActive || info.State == asynq.TaskStateArchived {
		t.Errorf("%d attempts counted, %v; want none, and handed back", info.Retried, info.State)
	}
	o.wantFate(run, 0, "open")

	o.open(func(c *tasks.Config) { c.API = api }) // another worker
	o.await("template:create done")
	o.close()
	o.wantFate(run, 0, "done")
	if n := len(o.sandbox.Templates()); n != 1 {
		t.Errorf("%d templates, want one", n)
	}
}

// loseAck loses the first acknowledgement of a finished task on its way.
type loseAck struct{ lost *atomic.Int64 }

func (loseAck) DialHook(next redis.DialHook) redis.DialHook { return next }

func (loseAck) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l loseAck) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if completes(cmd) && l.lost.Add(1) == 1 {
			cmd.SetErr(&net.OpError{Op: "read", Net: "tcp", Err: errors.New("connection reset by peer")})
			return cmd.Err()
		}
		return next(ctx, cmd)
	}
}

// completes tells asynq's script that moves a task from the active ones to the
// completed ones by the keys that it names.
func completes(cmd redis.Cmder) bool {
	if !strings.HasPrefix(cmd.Name(), "eval") {
		return false
	}
	var active, completed bool
	for _, arg := range cmd.Args() {
		key, _ := arg.(string)
		active = active || strings.HasSuffix(key, ":active")
		completed = completed || strings.HasSuffix(key, ":completed")
	}
	return active && completed
}

// TestServersLoseAnAcknowledgement: asynq's second try at an acknowledgement
// has a context that has ended. Only over a client whose commands outlive
// theirs does it succeed; over another the task would be run again once its
// lease has run out.
func TestServersLoseAnAcknowledgement(t *testing.T) {
	for _, test := range []struct {
		name  string
		redis func(redisconn.Config) (redis.UniversalClient, error)
		want  asynq.TaskState
	}{
		{"commands outlive their context", redisconn.ForServer, asynq.TaskStateCompleted},
		{"commands end with their context", redisconn.Open, asynq.TaskStateActive},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := newOffice(t)
			lost := new(atomic.Int64)
			o.redis, o.hook = test.redis, loseAck{lost}
			run := o.submit(tasks.TypeCreate, template)
			o.open()
			o.await("template:create done")
			o.close() // asynq tries what it has left once more
			if n := lost.Load(); n < 2 {
				t.Fatalf("%d acknowledgements were tried, want the first one lost and another", n)
			}
			if info := o.task("default.api.fast", run+"-0-0"); info.State != test.want || info.Retried != 0 {
				t.Errorf("the task is %v after %d attempts, want %v after none", info.State, info.Retried, test.want)
			}
			o.wantFate(run, 0, "done")
			if n := o.posts(); n != 1 {
				t.Errorf("%d POSTs, want one", n)
			}
		})
	}
}

// TestServersWithThePace runs a row through the pace itself: what the
// credentials may not do is blocked for the fleet, and counts no attempt.
func TestServersWithThePace(t *testing.T) {
	o := newOffice(t)
	limiter := pace.New(pace.Config{Redis: redistest.New(t), Tenant: "default", Limit: pace.Limit{Rate: pace.Rate{Count: 1000, Per: time.Second}, Burst: 100}})
	client, err := apiclient.New(apiclient.Config{
		BaseURL: o.sandbox.BaseURL(), Tokens: apiclient.StaticToken(apiclient.NewSecret(o.token)), Gate: limiter,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdle)
	o.sandbox.AddFault(sandbox.Fault{Count: 1, Status: 403, Body: `{"errorCode":"insufficient_scope","message":"Insufficient scope"}`})
	run := o.submit(tasks.TypeCreate, template)
	o.open(func(c *tasks.Config) { c.API, c.Pace = client, limiter })
	o.await("template:create blocked")
	o.close()
	state, err := limiter.State(t.Context())
	if err != nil || len(state.Blocks) != 1 || state.Blocks[0].Operation != apiclient.OpCreateTemplate {
		t.Errorf("blocks %+v, %v; want the operation blocked for the fleet", state.Blocks, err)
	}
	o.wantFate(run, 0, "open", "blocked: ")
	if info := o.task("default.api.fast", run+"-0-0"); info.Retried != 0 {
		t.Errorf("%d attempts counted, want none", info.Retried)
	}
}

// heldDequeues holds what asks for a task until the door is open.
type heldDequeues struct {
	asked chan struct{}
	door  chan struct{}
}

func (heldDequeues) DialHook(next redis.DialHook) redis.DialHook { return next }

func (heldDequeues) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h heldDequeues) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); len(args) > 3 && strings.HasPrefix(cmd.Name(), "eval") {
			if key, _ := args[3].(string); strings.HasSuffix(key, ":pending") {
				h.asked <- struct{}{}
				<-h.door
			}
		}
		return next(ctx, cmd)
	}
}

// stops opens the door when so many servers have begun to stop, by asynq's log.
type stops struct {
	left atomic.Int64
	door chan struct{}
}

func (s *stops) Write(line []byte) (int, error) {
	if strings.Contains(string(line), "Stopping processor") && s.left.Add(-1) == 0 {
		close(s.door)
	}
	return len(line), nil
}

// TestServersStopSideBySide: each waits for the answer to its last question for a
// task, and no server gets one here before all have begun to stop.
func TestServersStopSideBySide(t *testing.T) {
	const servers = 5
	o := newOffice(t)
	rdb, err := redisconn.ForServer(redisconn.Config{URL: redistest.URL(t), AllowURLPassword: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	log := &stops{door: make(chan struct{})}
	log.left.Store(servers)
	hold := heldDequeues{make(chan struct{}, 1000), log.door}
	rdb.AddHook(hold)
	s := tasks.NewServers(tasks.ServerConfig{
		Redis: rdb, Tenant: "default", Mux: o.mux, DNSConcurrency: 1, APIConcurrency: 1, ShutdownTimeout: 10 * time.Second,
		Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	for range servers {
		<-hold.asked
	}
	s.Stop()
	s.Shutdown()
}
