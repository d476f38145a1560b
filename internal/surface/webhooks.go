package surface

import (
	"context"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"orgops/internal/deliveries"
	"orgops/internal/webhooks"
)

// receivers are the webhook endpoints of a tenant, with their answers to deliveries.
type receivers map[string]*webhooks.DeliveryError // nil: it takes the event

// Wanting implements [deliveries.Receivers]: each endpoint wants all types.
func (r receivers) Wanting(string) (names []string) {
	for name := range r {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Entry implements [deliveries.Receivers].
func (r receivers) Entry(endpoint string) string { return "entry of " + endpoint }

// Deliver implements [deliveries.Receivers].
func (r receivers) Deliver(_ context.Context, endpoint, _ string, _ time.Time, _ []byte) error {
	if failure := r[endpoint]; failure != nil {
		failure.Endpoint = endpoint
		return failure
	}
	return nil
}

// unmeasured is a [deliveries.Meter] that nobody reads.
type unmeasured struct{}

func (unmeasured) Task(string, string, string, time.Duration) {}
func (unmeasured) Event(string, string)                       {}
func (unmeasured) Delivery(string, string, string)            {}

// deliverTo has the tenant notify receivers of its events.
func (s *site) deliverTo(all receivers) deliveries.Config {
	cfg := deliveries.Config{
		Tenant: string(s.name), Receivers: all, Redis: s.m.Redis, Enqueuer: asynq.NewClientFromRedisClient(s.m.Redis),
		Backlog: 100, Meter: unmeasured{}, Logger: log,
		// asynq's servers poll at random times.
		Now: func() time.Time { return time.Now().Truncate(time.Minute) },
	}
	s.notifier = deliveries.NewNotifier(cfg)
	return cfg
}

// deliver makes an attempt to deliver each event that is due.
func (s *site) deliver(cfg deliveries.Config) {
	s.t.Helper()
	for _, endpoint := range cfg.Receivers.Wanting("") {
		settings := deliveries.ServerConfig()
		settings.Concurrency = 1 // one after the other
		settings.Queues = map[string]int{deliveries.Queue(cfg.Tenant, endpoint): 1}
		settings.LogLevel = asynq.FatalLevel
		server := asynq.NewServerFromRedisClient(s.m.Redis, settings)
		must(s.t, server.Start(deliveries.NewHandler(cfg)))
		time.Sleep(deliverFor)
		server.Shutdown()
		until(time.Now().Truncate(time.Minute).Add(time.Minute))
	}
}

// deliverFor is enough for the deliveries to an endpoint, which take no time.
const deliverFor = 5 * time.Second
