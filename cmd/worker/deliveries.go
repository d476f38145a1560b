package main

import (
	"fmt"

	"github.com/hibiken/asynq"

	"orgops/internal/deliveries"
	"orgops/internal/webhooks"
)

// deliverer notifies the receivers of a tenant of events.
type deliverer struct {
	notifier *deliveries.Notifier
	handler  asynq.Handler // traced
	server   *asynq.Server
}

// newDeliverer returns the deliverer of a tenant, not started.
func (w *worker) newDeliverer(t tenant, receivers *webhooks.Sender) *deliverer {
	cfg := deliveries.Config{
		Tenant: t.Name, Receivers: receivers, Redis: w.redis, Enqueuer: w.queue, Backlog: t.WebhookBacklog, Meter: w.metrics, Ended: w.traces.Ended(),
		Stopping: w.stopping, Logger: w.logger,
	}
	d := &deliverer{notifier: deliveries.NewNotifier(cfg), handler: deliveries.NewHandler(cfg)}
	if traced := w.traces.Middleware(); traced != nil {
		d.handler = traced(d.handler)
	}
	d.server = deliveries.NewServer(deliveries.ServerConfig{
		Tenant: t.Name, Redis: w.redis, Refusals: w.refusals, ShutdownTimeout: w.settings.ShutdownTimeout, Logger: w.logger,
	})
	return d
}

// start starts fetching deliveries.
func (d *deliverer) start() error {
	if err := d.server.Start(d.handler); err != nil {
		return fmt.Errorf("start queue server: %w", err)
	}
	return nil
}

// checkBacklog checks --webhook-backlog.
func (t *tenant) checkBacklog() error {
	if t.WebhookBacklog < 1 || t.WebhookBacklog > deliveries.MaxBacklog {
		return fmt.Errorf("webhook-backlog: want 1 to %d events, got %d", deliveries.MaxBacklog, t.WebhookBacklog)
	}
	return nil
}
