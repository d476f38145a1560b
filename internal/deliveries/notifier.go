package deliveries

import (
	"context"
	"errors"
	"fmt"

	"github.com/hibiken/asynq"

	"orgops/internal/events"
)

// Notifier enqueues a delivery to each receiver that wants an event, and logs and counts
// the event. It is safe for concurrent use.
type Notifier struct {
	cfg     Config
	backlog *backlog
	drops   *tally
}

var _ events.Notifier = (*Notifier)(nil)

// NewNotifier returns the notifier of a tenant.
func NewNotifier(cfg Config) *Notifier {
	cfg = cfg.withDefaults()
	return &Notifier{cfg: cfg, backlog: newBacklog(cfg), drops: newTally()}
}

// Notify implements [events.Notifier].
func (n *Notifier) Notify(ctx context.Context, e events.Event) error {
	e.Data.Tenant = n.cfg.Tenant
	body, err := e.Document()
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	for _, endpoint := range n.cfg.Receivers.Wanting(e.Type) {
		p := payload{
			envelope: envelope{Version: version, Tenant: n.cfg.Tenant, CreatedAt: n.cfg.Now().UTC(), Endpoint: endpoint},
			ID:       e.MessageID(), Event: body,
		}
		if err := n.enqueue(ctx, p); err != nil {
			return fmt.Errorf("notify endpoint %s of event %s: %w", endpoint, e.ID, err)
		}
	}
	e.Log(ctx, n.cfg.Logger)
	n.cfg.Meter.Event(n.cfg.Tenant, e.Type)
	return nil
}

// enqueue enqueues the delivery, and drops the oldest if too many wait.
func (n *Notifier) enqueue(ctx context.Context, p payload) error {
	task, options, err := p.task()
	if err != nil {
		return err
	}
	result, excess, err := n.backlog.add(ctx, p.Endpoint, p.taskID(), 0)
	if err != nil || result == delivered {
		return err
	}
	if n.cfg.Headers != nil {
		task = asynq.NewTaskWithHeaders(task.Type(), task.Payload(), n.cfg.Headers(ctx))
	}
	_, err = n.cfg.Enqueuer.EnqueueContext(ctx, task, options...)
	if errors.Is(err, asynq.ErrTaskIDConflict) {
		if result == "1" { // the task has probably ended; if not, its next attempt adds it again
			return n.backlog.remove(ctx, p.Endpoint, p.taskID())
		}
		return nil
	}
	if err != nil {
		return err
	}
	if n.cfg.Enqueued != nil {
		n.cfg.Enqueued(Queue(p.Tenant, p.Endpoint))
	}
	n.drop(ctx, p.Endpoint, excess)
	return nil
}

// drop drops tasks. If that fails, they are dropped with the next event: the present one
// is enqueued.
func (n *Notifier) drop(ctx context.Context, endpoint string, excess []string) {
	if len(excess) == 0 {
		return
	}
	dropped, err := n.backlog.drop(ctx, endpoint, excess)
	if err != nil {
		n.cfg.Logger.WarnContext(ctx, "webhook events not dropped", "tenant", n.cfg.Tenant,
			"endpoint", endpoint, "error", err)
	}
	for range dropped {
		n.cfg.Meter.Delivery(n.cfg.Tenant, endpoint, "dropped")
	}
	if dropped > 0 {
		if err := noteDropped(ctx, n.cfg.Redis, n.cfg.Tenant, endpoint, dropped, n.cfg.Now()); err != nil {
			n.cfg.Logger.WarnContext(ctx, "webhook events dropped, and not counted on pages", "tenant", n.cfg.Tenant,
				"endpoint", endpoint, "dropped", dropped, "error", err)
		}
	}
	if report := n.drops.add(endpoint, dropped, n.cfg.Now()); report > 0 {
		n.cfg.Logger.WarnContext(ctx, "webhook events dropped: too many wait for the endpoint", "tenant",
			n.cfg.Tenant, "endpoint", endpoint,
			"dropped", report, "backlog", n.cfg.Backlog, "what_to_do",
			"bring the receiver back, or remove the endpoint from the webhooks file of all workers")
	}
}
