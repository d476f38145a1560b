package deliveries

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// Config configures the deliveries of one tenant. Tenant, Receivers, Redis, Enqueuer, Backlog
// and Meter are required.
type Config struct {
	Tenant    string
	Receivers Receivers
	Redis     redis.UniversalClient
	Enqueuer  Enqueuer
	Enqueued  func(queue string) // called after a task was enqueued; nil: nothing is
	// Backlog is how many events may wait for one receiver, at least 1.
	Backlog int
	Meter   Meter
	// Headers returns the headers of a task that is enqueued in ctx, for traces; may be nil.
	Headers func(ctx context.Context) map[string]string
	// Ended is called with the outcome and the context of each execution, for traces; may
	// be nil.
	Ended func(ctx context.Context, outcome string)
	// Stopping is closed when the worker stops: no delivery starts any more.
	Stopping <-chan struct{}
	Logger   *slog.Logger // nil: slog.Default()
	// Now returns the time by which events age, and attempts are dated; nil: time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() Config {
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// MaxBacklog bounds [Config].Backlog. A backlog that is given up goes to asynq's archive, which
// keeps 9,999 tasks and drops others without a word. A delivery takes 1.2 KB in Redis.
const MaxBacklog = 9_999

// Receivers are the webhook endpoints of one tenant.
type Receivers interface {
	// Wanting returns the names of the endpoints that want events of the type.
	Wanting(eventType string) []string
	// Entry identifies the settings of the endpoint of that name; "": there is none.
	Entry(endpoint string) string
	// Deliver makes one attempt to deliver the document under the event's id; at is the
	// time of the attempt. The error may be a [webhooks.DeliveryError].
	Deliver(ctx context.Context, endpoint, id string, at time.Time, body []byte) error
}

// Enqueuer is the part of [asynq.Client] that enqueues.
type Enqueuer interface {
	EnqueueContext(ctx context.Context, task *asynq.Task, opts ...asynq.Option) (*asynq.TaskInfo, error)
}

// Meter counts events and deliveries.
type Meter interface {
	// Task counts an execution.
	Task(tenant, taskType, outcome string, took time.Duration)
	// Event counts an event.
	Event(tenant, eventType string)
	// Delivery counts an attempt as "delivered", "again" or "given_up", and an event that
	// was deleted because too many wait as "dropped", or by another tool as "deleted".
	Delivery(tenant, endpoint, outcome string)
}

const (
	// pollEvery is how often a server without a task asks for one. No person waits for it.
	pollEvery = 100 * time.Millisecond
	// forwardEvery is how often tasks that are due again are made ready.
	forwardEvery = 200 * time.Millisecond
	// Places is how many deliveries to an endpoint a worker makes at a time.
	Places = 2
)

// ServerConfig returns how an asynq server executes the deliveries to an endpoint.
func ServerConfig() asynq.Config {
	return asynq.Config{
		Concurrency: Places, TaskCheckInterval: pollEvery, DelayedTaskCheckInterval: forwardEvery,
		RetryDelayFunc: retryDelay, IsFailure: isFailure,
	}
}
