package main

import (
	"github.com/hibiken/asynq"

	"orgops/internal/deliveries"
	"orgops/internal/queues"
)

// newNotifier returns the notifier of a tenant's events, and the queue of its deliveries.
func (w *worker) newNotifier(t *served) (*deliveries.Notifier, queues.Queue) {
	queue := deliveries.Queue(t.Name)
	cfg := deliveries.Config{
		Tenant: t.Name, Receivers: t.hooks, Redis: w.redis, Enqueuer: w.queue, Enqueued: func() { w.queues.Wake(queue) }, Backlog: t.WebhookBacklog,
		Meter: w.metrics, Ended: w.traces.Ended(), Stopping: t.stopping, Logger: w.logger, Now: w.clock.Now,
	}
	return deliveries.NewNotifier(cfg), queues.Queue{Name: queue, Tenant: t.Name, Config: deliveries.ServerConfig(), Handler: w.traced(deliveries.NewHandler(cfg))}
}

// traced returns the handler with traces of its executions, if the worker has traces.
func (w *worker) traced(h asynq.Handler) asynq.Handler {
	if traced := w.traces.Middleware(); traced != nil {
		return traced(h)
	}
	return h
}
