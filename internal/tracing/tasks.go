package tracing

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"

	"github.com/hibiken/asynq"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Enqueuer is the part of *asynq.Client that enqueues.
type Enqueuer interface {
	EnqueueContext(ctx context.Context, task *asynq.Task, opts ...asynq.Option) (*asynq.TaskInfo, error)
}

// subject is the part of a task's payload that spans have: of a delivery, or of rows of the
// engine.
type subject struct {
	Tenant string `json:"tenant"`
	Run    string `json:"run"`

	// Segment, Rows and Trace are members of tasks of the engine.
	Segment int `json:"segment"`
	Rows    []struct {
		Row int64 `json:"row"`
	} `json:"rows"`
	// Trace is the traceparent of the run's submission.
	Trace string `json:"trace"`
	// More are rows of other runs that are executed together with these.
	More []struct {
		Trace string `json:"trace"`
	} `json:"more"`
}

func subjectOf(t *asynq.Task) (s subject) {
	_ = json.Unmarshal(t.Payload(), &s) // the task's handler reports a bad payload
	return s
}

func (s subject) attributes(t *asynq.Task) []attribute.KeyValue {
	all := []attribute.KeyValue{attribute.String("messaging.system", "asynq"), text("orgops.task.type", t.Type())}
	if s.Tenant != "" {
		all = append(all, text("orgops.tenant", s.Tenant))
	}
	if s.Run != "" {
		all = append(all, text("orgops.run", s.Run))
	}
	if len(s.Rows) > 0 {
		all = append(all, attribute.Int("orgops.segment", s.Segment), attribute.Int64("orgops.row", s.Rows[0].Row))
	}
	if len(s.Rows) > 1 {
		all = append(all, attribute.Int("orgops.rows", len(s.Rows)))
	}
	if len(s.More) > 0 {
		all = append(all, attribute.Int("orgops.runs", 1+len(s.More)))
	}
	return all
}

// submissions returns the traceparents of the submissions of the task's runs.
func (s subject) submissions() []string {
	all := []string{s.Trace}
	for _, m := range s.More {
		all = append(all, m.Trace)
	}
	return all
}

// Around returns an enqueuer that adds the trace to the headers of each task.
func (t *Tracing) Around(e Enqueuer) Enqueuer {
	if t == nil {
		return e
	}
	return enqueuer{t, e}
}

type enqueuer struct {
	traces *Tracing
	next   Enqueuer
}

// EnqueueContext implements [Enqueuer]. Options of the call apply; options that the task was
// made with are lost.
func (e enqueuer) EnqueueContext(ctx context.Context, task *asynq.Task, opts ...asynq.Option) (*asynq.TaskInfo, error) {
	ctx, span := e.traces.tracer.Start(ctx, "send "+shortened(task.Type()), trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(subjectOf(task).attributes(task)...), trace.WithAttributes(destination(opts)...))
	headers := map[string]string{}
	maps.Copy(headers, task.Headers())
	propagator.Inject(ctx, propagation.MapCarrier(headers))
	info, err := e.next.EnqueueContext(ctx, asynq.NewTaskWithHeaders(task.Type(), task.Payload(), headers), opts...)
	if errors.Is(err, asynq.ErrTaskIDConflict) {
		span.SetAttributes(attribute.Bool("orgops.there_already", true)) // with its first trace
		span.End()
		return info, err
	}
	end(span, err)
	return info, err
}

func destination(opts []asynq.Option) (all []attribute.KeyValue) {
	for _, o := range opts {
		value, _ := o.Value().(string)
		switch o.Type() {
		case asynq.QueueOpt:
			all = append(all, text("messaging.destination.name", value))
		case asynq.TaskIDOpt:
			all = append(all, text("messaging.message.id", value))
		}
	}
	return all
}

// Middleware returns the asynq middleware that records each execution as a span of its
// task's trace, nil if t is nil.
func (t *Tracing) Middleware() asynq.MiddlewareFunc {
	if t == nil {
		return nil
	}
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			ctx, span := t.execution(ctx, task)
			defer span.End()
			return next.ProcessTask(ctx, task)
		})
	}
}

func (t *Tracing) execution(ctx context.Context, task *asynq.Task) (context.Context, trace.Span) {
	s := subjectOf(task)
	attributes := s.attributes(task)
	if id, ok := asynq.GetTaskID(ctx); ok {
		attributes = append(attributes, text("messaging.message.id", id))
	}
	if queue, ok := asynq.GetQueueName(ctx); ok {
		attributes = append(attributes, text("messaging.destination.name", queue))
	}
	if attempt, ok := asynq.GetRetryCount(ctx); ok && len(s.Rows) == 0 { // the engine counts its attempts itself
		attributes = append(attributes, attribute.Int("orgops.attempt", attempt))
	}
	ctx = propagator.Extract(ctx, propagation.MapCarrier(task.Headers()))
	start := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(attributes...)}
	for _, submission := range s.submissions() {
		if by := trace.SpanContextFromContext(t.Remote(context.Background(), submission)); by.IsValid() {
			start = append(start, trace.WithLinks(trace.Link{SpanContext: by}))
		}
	}
	return t.tracer.Start(ctx, "process "+shortened(task.Type()), start...)
}

// shortened returns the beginning of a text. The exporter refuses a batch of spans for one
// byte of invalid UTF-8, which cutting may leave.
func shortened(s string) string { return strings.ToValidUTF8(s[:min(len(s), mostBytes)], "\ufffd") }

// Ended returns a function that records the outcome of the execution of ctx, nil if t is nil.
func (t *Tracing) Ended() func(ctx context.Context, outcome string) {
	if t == nil {
		return nil
	}
	return func(ctx context.Context, outcome string) {
		span := trace.SpanFromContext(ctx)
		span.SetAttributes(attribute.String("orgops.outcome", outcome))
		if outcome == "failed" || outcome == "transient" {
			span.SetStatus(codes.Error, "")
		}
	}
}
