package tasks

// A delivery may be made twice: where its answer is lost, and where its worker dies
// before it is written down. The receiver knows it by its webhook-id, which is the
// notice's; the scheme has it treat the second as the first.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// DeliverPayload asks for the delivery of one notice to one endpoint; it is the
// payload of webhook:deliver. CreatedAt is when it was told.
type DeliverPayload struct {
	Envelope

	Endpoint string          `json:"endpoint"`
	ID       string          `json:"id"` // the notice's
	Event    json.RawMessage `json:"event"`
}

// Validate checks what does not need the endpoints.
func (p DeliverPayload) Validate() error {
	switch {
	case p.Endpoint == "":
		return errors.New("endpoint is missing")
	case p.ID == "":
		return errors.New("id is missing")
	case len(p.Event) == 0 || len(p.Event) > longestDocument:
		return fmt.Errorf("event: want 1 to %d bytes, got %d", longestDocument, len(p.Event))
	}
	return nil
}

// deliveryRetention keeps a delivered notice's id taken, so that one that is told
// again in place of whoever died amid telling is delivered once: that is within
// [longestBackoff]. Each event stays in Redis for that long.
const deliveryRetention = time.Hour

func (p DeliverPayload) task() spec {
	return spec{
		typ: TypeDeliver, payload: p, queue: WebhookQueue(p.Tenant), retention: deliveryRetention,
		id: fmt.Sprintf("webhook-%s-%s-%s", p.Tenant, p.Endpoint, p.ID),
	}
}

type deliver struct{ cfg Config }

func (h *deliver) process(ctx context.Context, job Job, p DeliverPayload) (Result, error) {
	now := h.cfg.Now()
	err := h.cfg.Webhooks.Deliver(ctx, p.Endpoint, p.ID, now, p.Event)
	if err == nil {
		h.count(p.Endpoint, "delivered")
		return Result{Outcome: Done}, nil
	}
	if isUnsent(err) {
		return h.rest(job, p, err)
	}
	failed := job.retried + 1
	after, again := nextDelivery(failed, p.CreatedAt, now, retryAfter(err))
	switch {
	case isFinal(err):
		h.count(p.Endpoint, "given_up")
		return Result{}, &settledError{Failed, err.Error()}
	case !again:
		h.count(p.Endpoint, "given_up")
		return Result{}, givenUp(failed, p.CreatedAt, now, err)
	}
	h.count(p.Endpoint, "again")
	return Result{}, &laterError{outcome: Transient, reason: err.Error(), after: after, counts: true}
}

// rest leaves for later what was not sent, since the receiver is left alone. It is
// no attempt: only the notice's time goes by.
func (h *deliver) rest(job Job, p DeliverPayload, err error) (Result, error) {
	now := h.cfg.Now()
	// A backlog of old ones does not come back each minute.
	after := wholeSeconds(max(retryAfter(err), spread(now.Sub(p.CreatedAt)/16)))
	if outlived(p.CreatedAt, now.Add(after)) {
		h.count(p.Endpoint, "given_up")
		return Result{}, givenUp(job.retried, p.CreatedAt, now, err)
	}
	return Result{}, later(err.Error(), after)
}

// givenUp settles a delivery whose time is up.
func givenUp(attempts int, told, now time.Time, last error) error {
	return &settledError{Failed, fmt.Sprintf("given up after %d attempts in %s; the last: %v", attempts, now.Sub(told).Round(time.Second), last)}
}

// count counts an attempt. The name comes from whoever writes to Redis: it is a
// label only if it is an endpoint's.
func (h *deliver) count(endpoint, outcome string) {
	if h.cfg.Meter == nil {
		return
	}
	if !h.cfg.Webhooks.Has(endpoint) {
		endpoint = "unknown"
	}
	h.cfg.Meter.Delivery(h.cfg.Tenant, endpoint, outcome)
}

// retryAfter is what the receiver asks for.
func retryAfter(err error) time.Duration {
	var asks interface{ AskedToWait() time.Duration }
	if errors.As(err, &asks) {
		return asks.AskedToWait()
	}
	return 0
}

// isUnsent says of an attempt's error that there was none.
func isUnsent(err error) bool {
	var unsent interface{ NotSent() bool }
	return errors.As(err, &unsent) && unsent.NotSent()
}

// isFinal says of an attempt's error that no other would do better.
func isFinal(err error) bool {
	var final interface{ Final() bool }
	return errors.As(err, &final) && final.Final()
}

// deliveryDelays are how long after a failed attempt the next one comes: soon where
// something was in the way for a moment, and then rarely. A receiver that comes
// back after an hour has attempts ahead of it for three days.
var deliveryDelays = []time.Duration{
	5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour,
}

const (
	// deliverySlowest is the delay when those are used up.
	deliverySlowest = 4 * time.Hour
	// deliveryLifetime is how long after it was told a notice is delivered: a
	// weekend, and a day to notice.
	deliveryLifetime = 72 * time.Hour
	// mostDeliveries bounds the attempts, above the 25 that fit into that time: one
	// that takes its worker down with it ends too.
	mostDeliveries = 40
)

// nextDelivery is how long after now a notice that was told at told is tried again,
// of which so many attempts have failed, or what the receiver asked for if that is
// longer. again is false where that is past its lifetime.
func nextDelivery(failed int, told, now time.Time, asked time.Duration) (after time.Duration, again bool) {
	delay := deliverySlowest
	if i := max(failed, 1) - 1; i < len(deliveryDelays) {
		delay = deliveryDelays[i]
	}
	after = wholeSeconds(max(spread(delay), asked))
	return after, !outlived(told, now.Add(after))
}

// outlived says whether a notice that was told at told is not delivered any more.
func outlived(told, at time.Time) bool { return at.After(told.Add(deliveryLifetime)) }
