package main

import (
	"github.com/hibiken/asynq"

	"orgops/internal/deliveries"
	"orgops/internal/queues"
	"orgops/internal/tenant"
	"orgops/internal/webhooks"
)

// newNotifier returns what notifies the receivers of a tenant of events. Its deliveries are
// made by the queues of the worker.
func (w *worker) newNotifier(t tenant.Settings, receivers *webhooks.Sender) *deliveries.Notifier {
	queue := deliveries.Queue(t.Name)
	cfg := deliveries.Config{
		Tenant: t.Name, Receivers: receivers, Redis: w.redis, Enqueuer: w.queue, Enqueued: func() { w.queues.Wake(queue) }, Backlog: t.WebhookBacklog,
		Meter: w.metrics, Ended: w.traces.Ended(), Stopping: w.stopping, Logger: w.logger, Now: w.clock.Now,
	}
	w.queues.Add(queues.Queue{Name: queue, Tenant: t.Name, Config: deliveries.ServerConfig(), Handler: w.traced(deliveries.NewHandler(cfg))})
	return deliveries.NewNotifier(cfg)
}

// traced returns the handler with traces of its executions, if the worker has traces.
func (w *worker) traced(h asynq.Handler) asynq.Handler {
	if traced := w.traces.Middleware(); traced != nil {
		return traced(h)
	}
	return h
}
