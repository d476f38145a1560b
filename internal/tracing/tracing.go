package tracing

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"orgops/dnscheck"
	"orgops/internal/untrusted"
)

// Tracing makes and sends spans. It is safe for concurrent use.
type Tracing struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	logger   *slog.Logger
}

// closeTimeout is how long the end of the process waits for the last batch.
const closeTimeout = 3 * time.Second

// propagator writes and reads the W3C header traceparent.
var propagator = propagation.TraceContext{}

// New returns a Tracing of the OTEL_* variables, or nil if none of them names an endpoint. It
// does not connect, and a missing collector delays nothing. The logger gets a line for spans
// that could not be sent.
func New(ctx context.Context, getenv func(string) string, service, version string,
	logger *slog.Logger) (*Tracing, error) {
	endpoint := cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	if endpoint == "" || getenv("OTEL_SDK_DISABLED") == "true" || getenv("OTEL_TRACES_EXPORTER") == "none" {
		return nil, nil
	}
	if !strings.HasPrefix(endpoint, "http://") && !strings.HasPrefix(endpoint, "https://") {
		return nil, errors.New("the endpoint of OTEL_EXPORTER_OTLP_ENDPOINT is no URL: want http://HOST:4318 or https://HOST")
	}
	protocol := cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), getenv("OTEL_EXPORTER_OTLP_PROTOCOL"))
	if protocol != "" && protocol != "http/protobuf" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %s: traces are sent by http/protobuf alone",
			untrusted.Value(protocol))
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	about, err := resource.New(ctx, resource.WithFromEnv(), // the variables are stronger
		resource.WithAttributes(attribute.String("service.version", version)))
	if named := getenv("OTEL_SERVICE_NAME"); err == nil && named == "" {
		about, err = resource.Merge(resource.NewSchemaless(attribute.String("service.name", service)), about)
	}
	if err != nil {
		return nil, fmt.Errorf("traces: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	// The handler is global to the process; the library's default writes to stderr.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		logger.WarnContext(ctx, "sending traces failed", "error", err)
	}))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	return &Tracing{provider: provider, tracer: provider.Tracer("orgops"), logger: logger}, nil
}

// Close sends the remaining spans, for at most closeTimeout.
func (t *Tracing) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.logger.Warn("sending the last traces failed", "error", err)
	}
}

// Remote returns ctx with the span of a remote caller's traceparent: rows that are submitted
// with it are linked to that span. An invalid traceparent is ignored.
func (t *Tracing) Remote(ctx context.Context, traceparent string) context.Context {
	if t == nil || traceparent == "" {
		return ctx
	}
	return propagator.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
}

// Submission returns the W3C traceparent of a span for a submission, or "".
func (t *Tracing) Submission(ctx context.Context) string {
	if t == nil {
		return ""
	}
	ctx, span := t.tracer.Start(ctx, "submit")
	defer span.End()
	return t.Headers(ctx)["traceparent"]
}

// Begin starts a span, and returns the function that ends it. The text of an error may contain
// text of others, so only the log has it.
func (t *Tracing) Begin(ctx context.Context,
	name string) (context.Context, func(failed bool, about ...attribute.KeyValue)) {
	if t == nil {
		return ctx, func(bool, ...attribute.KeyValue) {}
	}
	ctx, span := t.tracer.Start(ctx, name)
	return ctx, func(failed bool, about ...attribute.KeyValue) {
		span.SetAttributes(about...)
		if failed {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

// Request starts the span of a request to the API, and returns the function that ends it with
// the status of the answer, 0 if there was none.
func (t *Tracing) Request(ctx context.Context, operation, method string) (context.Context, func(status int)) {
	ctx, end := t.Begin(ctx, operation)
	return ctx, func(status int) {
		end(status == 0 || status >= 400, attribute.String("http.request.method", method),
			attribute.Int("http.response.status_code", status))
	}
}

// DNS starts the span of a check or proof, and returns the function that ends it. The span
// has no values of records, which others choose.
func (t *Tracing) DNS(ctx context.Context, name string) (context.Context, func(dnscheck.Verdict, error)) {
	ctx, end := t.Begin(ctx, "dns "+name)
	return ctx, func(v dnscheck.Verdict, err error) {
		end(err != nil, attribute.Stringer("orgops.dns.state", v.State),
			attribute.String("orgops.dns.reason", string(v.Reason)))
	}
}

// Traced returns the handler with a span for each execution of a task. Of a task of the engine
// it is the root of a trace, which links to the submissions of its rows; of any other task it
// belongs to the trace in the task's headers.
func (t *Tracing) Traced(next asynq.Handler) asynq.Handler {
	if t == nil {
		return next
	}
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		// The members of payloads of the engine and of deliveries.
		var of struct {
			Tenant, Run, Trace string
			Segment            int
			Rows               []struct{ Row int64 }
			More               []struct{ Trace string } // rows of other runs, executed together with these
		}
		_ = json.Unmarshal(task.Payload(), &of) // the task's handler reports a bad payload
		ctx = propagator.Extract(ctx, propagation.MapCarrier(task.Headers()))
		ctx, span := t.tracer.Start(ctx, "process "+text(task.Type()),
			trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
				attribute.String("orgops.tenant", text(of.Tenant)), attribute.String("orgops.run", text(of.Run)),
				attribute.Int("orgops.rows", len(of.Rows))))
		defer span.End()
		if len(of.Rows) > 0 {
			span.SetAttributes(attribute.Int("orgops.segment", of.Segment), attribute.Int64("orgops.row", of.Rows[0].Row))
		}
		for _, submission := range append(of.More, struct{ Trace string }{of.Trace}) {
			if by := trace.SpanContextFromContext(t.Remote(context.Background(), submission.Trace)); by.IsValid() {
				span.AddLink(trace.Link{SpanContext: by})
			}
		}
		return next.ProcessTask(ctx, task)
	})
}

// Ended records the outcome of the execution of ctx.
func (t *Tracing) Ended(ctx context.Context, outcome string) {
	span := trace.SpanFromContext(ctx)
	span.SetAttributes(attribute.String("orgops.outcome", outcome))
	if outcome == "failed" || outcome == "transient" {
		span.SetStatus(codes.Error, "")
	}
}

// Headers returns the headers of a task that is enqueued in ctx: its execution belongs to the
// same trace, as do its retries.
func (t *Tracing) Headers(ctx context.Context) map[string]string {
	if t == nil {
		return nil
	}
	headers := map[string]string{}
	propagator.Inject(ctx, propagation.MapCarrier(headers))
	return headers
}

// text returns the beginning of a text of others. The exporter refuses a batch of spans for
// one byte of invalid UTF-8, which cutting may leave.
func text(s string) string { return strings.ToValidUTF8(s[:min(len(s), 128)], "\ufffd") }

// Logger returns a logger that adds the ids of the context's span to each line.
func (t *Tracing) Logger(l *slog.Logger) *slog.Logger {
	if t == nil {
		return l
	}
	return slog.New(logHandler{l.Handler()})
}

type logHandler struct{ slog.Handler }

func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if s := trace.SpanContextFromContext(ctx); s.IsSampled() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", s.TraceID().String()), slog.String("span_id", s.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h logHandler) WithAttrs(a []slog.Attr) slog.Handler { return logHandler{h.Handler.WithAttrs(a)} }

func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }
