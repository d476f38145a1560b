package deliveries

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/internal/untrusted"
	"orgops/internal/webhooks"
)

// Handler is the asynq handler of a tenant's deliveries.
type Handler struct {
	cfg     Config
	backlog *backlog
	lines   *tally
	resting sync.Map // endpoints of which this worker has put off an event, since they rest
}

// NewHandler returns the handler of a tenant's deliveries.
func NewHandler(cfg Config) *Handler {
	cfg = cfg.withDefaults()
	return &Handler{cfg: cfg, backlog: newBacklog(cfg), lines: newTally()}
}

type execution struct {
	envelope
	taskID  string
	retried int // attempts that were used up before
}

// ProcessTask implements [asynq.Handler].
func (h *Handler) ProcessTask(ctx context.Context, t *asynq.Task) error {
	var x execution
	x.taskID, _ = asynq.GetTaskID(ctx)
	x.retried, _ = asynq.GetRetryCount(ctx)
	return h.process(ctx, t, x)
}

func (h *Handler) process(ctx context.Context, t *asynq.Task, x execution) error {
	start := h.cfg.Now()
	v := h.execute(ctx, t, &x)
	h.note(ctx, x, v)
	h.log(ctx, x, v, h.cfg.Now().Sub(start))
	h.measure(ctx, t, v, h.cfg.Now().Sub(start))
	if v.outcome == done {
		return nil
	}
	return v
}

func (h *Handler) execute(ctx context.Context, t *asynq.Task, x *execution) *verdict {
	select {
	case <-h.cfg.Stopping:
		return &verdict{outcome: stopping, reason: "the worker is stopping"}
	default:
	}
	var err error
	if x.envelope, err = readEnvelope(t.Payload()); err != nil {
		return &verdict{outcome: invalid, reason: err.Error()}
	}
	if v := h.unfit(t, *x); v != nil {
		return v
	}
	p, err := readPayload(t.Payload())
	if err != nil {
		return &verdict{outcome: invalid, reason: err.Error()}
	}
	return h.deliver(ctx, p, x.retried)
}

// Bounds of waiting for a newer worker.
const (
	unknownFor   = 24 * time.Hour
	unknownAgain = 5 * time.Minute
)

// unfit returns why the task is not for this worker, or is not tried any more; nil: it is
// tried.
func (h *Handler) unfit(t *asynq.Task, x execution) *verdict {
	switch {
	case x.Tenant != h.cfg.Tenant:
		return &verdict{outcome: invalid, reason: fmt.Sprintf("payload: a task of tenant %s in a queue of tenant %q",
			untrusted.Value(x.Tenant), h.cfg.Tenant)}
	case t.Type() != TaskType || x.Version > version:
		reason := fmt.Sprintf("no handler for type %s version %d in this worker; a newer one is needed",
			untrusted.Value(t.Type()), x.Version)
		if h.cfg.Now().Sub(x.CreatedAt) < unknownFor {
			return &verdict{outcome: paced, reason: reason, after: unknownAgain}
		}
		return &verdict{outcome: invalid, reason: reason}
	case x.retried >= maxAttempts:
		// Checked before the attempt, so that a delivery which kills its worker ends too:
		// asynq counts an attempt for each lost lease.
		h.count(x.Endpoint, "given_up")
		return &verdict{
			outcome: failed,
			reason: fmt.Sprintf(
				"given up after %d attempts; the last ones ended without an answer (its worker died, or the task ran out of time)",
				x.retried),
		}
	}
	return nil
}

func (h *Handler) deliver(ctx context.Context, p payload, retried int) *verdict {
	now := h.cfg.Now()
	err := h.attempt(ctx, p, now)
	if err == nil {
		h.count(p.Endpoint, "delivered")
		h.rested(ctx, p.Endpoint)
		return &verdict{outcome: done}
	}
	failure, is := errors.AsType[*webhooks.DeliveryError](err)
	if !is {
		failure = new(webhooks.DeliveryError)
	}
	if failure.Unsent {
		return h.rest(p, retried, failure.RetryAfter, err)
	}
	attempts := retried + 1
	after, again := nextAttempt(attempts, p.CreatedAt, now, failure.RetryAfter)
	switch {
	case failure.Permanent:
		h.count(p.Endpoint, "given_up")
		return &verdict{outcome: failed, reason: err.Error(), gone: failure.Gone()}
	case !again || attempts >= maxAttempts:
		h.count(p.Endpoint, "given_up")
		return givenUp(attempts, p.CreatedAt, now, err)
	}
	h.count(p.Endpoint, "again")
	return &verdict{outcome: transient, reason: err.Error(), after: after, counts: true}
}

// attempt makes an error out of a panic.
func (h *Handler) attempt(ctx context.Context, p payload, now time.Time) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("panic: %v", value)
			h.cfg.Logger.ErrorContext(ctx, "handler panicked", "task_id", p.taskID(), "panic", fmt.Sprint(value),
				"stack", string(debug.Stack()))
		}
	}()
	return h.cfg.Receivers.Deliver(ctx, p.Endpoint, p.ID, now, p.Event)
}

// rest postpones an event that was not sent because its receiver does not answer at
// present. That is no attempt, but the event's lifetime continues.
func (h *Handler) rest(p payload, retried int, retryAfter time.Duration, err error) *verdict {
	now := h.cfg.Now()
	h.resting.Store(p.Endpoint, true)
	// A backlog does not come back all at once, and the first success calls what is left of it.
	after := wholeSeconds(retryAfter + time.Duration(rand.Int64N(int64(time.Minute))))
	if outlived(p.CreatedAt, now.Add(after)) {
		h.count(p.Endpoint, "given_up")
		return givenUp(retried, p.CreatedAt, now, err)
	}
	return &verdict{outcome: paced, reason: err.Error(), after: after}
}

// rested calls the events that wait for another attempt, once the first one has arrived after a
// rest.
func (h *Handler) rested(ctx context.Context, endpoint string) {
	if _, was := h.resting.LoadAndDelete(endpoint); !was {
		return
	}
	if _, err := h.backlog.queue.RunAllRetryTasks(Queue(h.cfg.Tenant, endpoint)); err != nil {
		h.cfg.Logger.WarnContext(ctx, "calling the waiting webhook events failed: they come by themselves",
			"endpoint", endpoint, "error", err)
	}
}

func givenUp(attempts int, created, now time.Time, last error) *verdict {
	return &verdict{outcome: failed, reason: fmt.Sprintf("given up after %d attempts in %s; the last: %v", attempts,
		now.Sub(created).Round(time.Second), last)}
}

// noteTimeout bounds the update of the backlog.
const noteTimeout = 5 * time.Second

// note keeps the backlog and the state of the endpoint up to date. If that fails, the next attempt
// of the task, or the time, corrects it.
func (h *Handler) note(ctx context.Context, x execution, v *verdict) {
	entry := h.cfg.Receivers.Entry(x.Endpoint)
	if entry == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	var err error
	if !v.outcome.ends() {
		_, _, err = h.backlog.add(ctx, x.Endpoint, x.taskID, h.cfg.Now().Sub(x.CreatedAt))
	}
	if err = errors.Join(err, h.record(ctx, x, v, entry)); err != nil {
		h.cfg.Logger.DebugContext(ctx, "webhook backlog not updated", "task_id", x.taskID, "error", err)
	}
}

// record stores the result of an attempt in the state of its endpoint, and removes a delivery that
// has ended from the backlog. If the receiver wants no more events, its queue is paused.
func (h *Handler) record(ctx context.Context, x execution, v *verdict, entry string) error {
	state := stateKey(h.cfg.Tenant)
	now := h.cfg.Now()
	_, err := h.cfg.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		if v.outcome.ends() {
			p.ZRem(ctx, h.backlog.key(x.Endpoint), x.taskID)
		}
		switch v.outcome {
		case done:
			p.Set(ctx, h.backlog.deliveredKey(x.Endpoint, x.taskID), "", deliveredFor)
			p.HSet(ctx, state, x.Endpoint+".delivered", now.UnixMilli())
			p.HDel(ctx, state, x.Endpoint+".failing")
		case failed, transient:
			p.HSet(ctx, state, x.Endpoint+".failed", now.UnixMilli(), x.Endpoint+".reason",
				untrusted.Plain(v.reason, longestReason))
			p.HSetNX(ctx, state, x.Endpoint+".failing", now.UnixMilli())
		}
		if v.gone {
			p.HSet(ctx, state, x.Endpoint+".gone", entry)
			p.SetNX(ctx, pausedKey(h.cfg.Tenant, x.Endpoint), now.Unix(), 0)
		}
		p.PExpire(ctx, state, stateTTL)
		return nil
	})
	return err
}

// count counts an attempt. The name is from a payload, which other clients of Redis may
// have written: only the name of an endpoint becomes a label.
func (h *Handler) count(endpoint, outcome string) {
	if h.cfg.Receivers.Entry(endpoint) == "" {
		endpoint = "unknown"
	}
	h.cfg.Meter.Delivery(h.cfg.Tenant, endpoint, outcome)
}

func (h *Handler) measure(ctx context.Context, t *asynq.Task, v *verdict, took time.Duration) {
	label := TaskType
	if t.Type() != TaskType {
		label = "unknown"
	}
	h.cfg.Meter.Task(h.cfg.Tenant, label, string(v.outcome), took)
	if h.cfg.Ended != nil {
		h.cfg.Ended(ctx, string(v.outcome))
	}
}

// longestReason bounds a stored reason, in code points.
const longestReason = 500

// log writes the line of an execution, unless a line of such executions of its endpoint was written
// less than a minute ago.
func (h *Handler) log(ctx context.Context, x execution, v *verdict, took time.Duration) {
	endpoint := x.Endpoint
	if h.cfg.Receivers.Entry(endpoint) == "" {
		endpoint = "unknown"
	}
	n := h.lines.add(endpoint+" "+string(v.outcome), 1, h.cfg.Now())
	if n == 0 {
		return
	}
	attrs := []slog.Attr{
		slog.String("type", TaskType), slog.String("tenant", h.cfg.Tenant), slog.String("endpoint", endpoint),
		slog.String("outcome", string(v.outcome)), slog.Int("deliveries", n), slog.String("task_id", x.taskID),
		slog.Duration("took", took), slog.Int("attempt", x.retried),
	}
	if v.reason != "" {
		attrs = append(attrs, slog.String("reason", v.reason))
	}
	if v.after > 0 {
		attrs = append(attrs, slog.Duration("again_in", v.after))
	}
	h.cfg.Logger.LogAttrs(ctx, v.outcome.level(), "task", attrs...)
}
