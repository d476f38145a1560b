package deliveries_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/internal/deliveries"
	"orgops/internal/events"
	"orgops/internal/queues"
	"orgops/internal/redistest"
	"orgops/internal/webhooks"
)

var at = time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC)

func lost(id string) events.Event {
	return events.Event{ID: id, Type: events.DomainLost, At: at, Data: events.Data{
		OrganizationID: "org_1", DiscoveryDomainID: "ord_1", Domain: "example.com", Tick: 1795309200, Reason: "no TXT record",
		Since: at.Add(-7 * 24 * time.Hour), Action: "pending",
	}}
}

// receivers are the endpoints of a test: the types that each wants, and the result of an
// attempt.
type receivers struct {
	wants    map[string][]string // name -> types
	settings string              // other ones are another entry
	attempt  func(endpoint, id string, at time.Time, body []byte) error
}

func (r receivers) Wanting(typ string) (names []string) {
	for name, types := range r.wants {
		if slices.Contains(types, typ) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (r receivers) Entry(endpoint string) string {
	if r.wants[endpoint] == nil {
		return ""
	}
	return "entry of " + endpoint + r.settings
}

func (r receivers) Deliver(_ context.Context, endpoint, id string, at time.Time, body []byte) error {
	return r.attempt(endpoint, id, at, body)
}

// crm returns one endpoint that wants the events of a test.
func crm(attempt func(endpoint, id string, at time.Time, body []byte) error) receivers {
	return receivers{wants: map[string][]string{"crm": {events.DomainLost}}, attempt: attempt}
}

type attempt = webhooks.DeliveryError

// attemptError returns the error of a failed attempt.
func attemptError(e attempt) error {
	e.Endpoint, e.Reason = "crm", "it answered 503"
	return &e
}

// meter records what was counted.
type meter struct {
	mu      sync.Mutex
	counted []string
}

func (m *meter) add(words ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counted = append(m.counted, strings.Join(words, " "))
}

func (m *meter) Task(tenant, typ, outcome string, _ time.Duration) { m.add(tenant, typ, outcome) }
func (m *meter) Event(tenant, typ string)                          { m.add("event", tenant, typ) }
func (m *meter) Delivery(tenant, endpoint, outcome string) {
	m.add("delivery", tenant, endpoint, outcome)
}

func (m *meter) count(what string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range m.counted {
		if one == what {
			n++
		}
	}
	return n
}

// world is a tenant's deliveries in a Redis.
type world struct {
	t         *testing.T
	rdb       redis.UniversalClient
	client    *asynq.Client
	inspector *asynq.Inspector
	meter     *meter
	log       *strings.Builder
	cfg       deliveries.Config
}

func newWorld(t *testing.T, to receivers, backlog int) *world {
	return newWorldIn(t, redistest.Open(t), to, backlog)
}

func newWorldIn(t *testing.T, rdb redis.UniversalClient, to receivers, backlog int) *world {
	w := &world{t: t, rdb: rdb, client: asynq.NewClientFromRedisClient(rdb),
		inspector: asynq.NewInspectorFromRedisClient(rdb), meter: new(meter), log: new(strings.Builder)}
	w.cfg = deliveries.Config{
		Tenant: "acme", Receivers: to, Redis: rdb, Enqueuer: w.client, Backlog: backlog, Meter: w.meter,
		Logger: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{ReplaceAttr: withoutTime})),
	}
	return w
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

const backlogKey = "orgops:v3:{tenant:acme}:webhooks:crm"

// backlog returns the ids of the events in the backlog of crm, oldest first.
func (w *world) backlog() []string {
	w.t.Helper()
	all, err := w.rdb.ZRange(w.t.Context(), backlogKey, 0, -1).Result()
	if err != nil {
		w.t.Fatal(err)
	}
	return eventIDs(all)
}

func eventIDs(tasks []string) []string {
	for i, task := range tasks {
		tasks[i] = strings.TrimPrefix(task, "webhook-acme-crm-")
	}
	return tasks
}

// waiting returns the ids of the events whose tasks wait for an attempt, sorted.
func (w *world) waiting() []string {
	w.t.Helper()
	var all []string
	for _, list := range []func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error){w.inspector.ListPendingTasks,
		w.inspector.ListRetryTasks, w.inspector.ListScheduledTasks} {
		tasks, err := list("acme.webhook.crm", asynq.PageSize(1000))
		if err != nil {
			w.t.Fatal(err)
		}
		for _, task := range tasks {
			all = append(all, task.ID)
		}
	}
	slices.Sort(all)
	return eventIDs(all)
}

// serve starts a server, and stops it with the test.
func (w *world) serve() {
	w.t.Helper()
	server := queues.NewServer(w.rdb, queues.Queue{Name: deliveries.Queue("acme", "crm"), Tenant: "acme",
		Config: deliveries.ServerConfig()}, time.Second, slog.New(slog.DiscardHandler))
	if err := server.Start(deliveries.NewHandler(w.cfg)); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(server.Shutdown)
}

// await waits until the condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 6000 {
		if holds() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("%s: not within two minutes", what)
}
