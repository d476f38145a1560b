package tracing

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"orgops/dnscheck"
)

// Requests returns the [orgops/apiclient.Config].Trace of a tenant's client, nil if t is nil.
func (t *Tracing) Requests(tenant string) func(ctx context.Context, operation, method string) (context.Context, func(status int)) {
	if t == nil {
		return nil
	}
	return func(ctx context.Context, operation, method string) (context.Context, func(status int)) {
		ctx, span := t.tracer.Start(ctx, operation, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
			attribute.String("orgops.tenant", tenant), attribute.String("orgops.operation", operation), attribute.String("http.request.method", method)))
		return ctx, func(status int) {
			if status != 0 {
				span.SetAttributes(attribute.Int("http.response.status_code", status))
			}
			if status == 0 || status >= 400 {
				span.SetStatus(codes.Error, "")
			}
			span.End()
		}
	}
}

// DNS starts the span of a DNS check or proof, and returns the function that ends it.
func (t *Tracing) DNS(ctx context.Context, name string) (context.Context, func(dnscheck.Verdict, error)) {
	if t == nil {
		return ctx, func(dnscheck.Verdict, error) {}
	}
	ctx, span := t.tracer.Start(ctx, "dns "+name)
	return ctx, func(v dnscheck.Verdict, err error) {
		if err == nil {
			addVerdict(span, v)
		}
		end(span, err)
	}
}

// addVerdict adds the verdict and the answer of each vantage point, without the values of
// records, which others choose.
func addVerdict(span trace.Span, v dnscheck.Verdict) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.String("orgops.dns.state", v.State.String()), attribute.String("orgops.dns.reason", string(v.Reason)), attribute.String("orgops.dns.basis", string(v.Basis)))
	for _, o := range v.Observations {
		span.AddEvent("answer", trace.WithAttributes(
			text("orgops.dns.resolver", o.Resolver), attribute.Bool("orgops.dns.authority", o.Authority), attribute.String("network.transport", o.Transport), text("orgops.dns.rcode", o.RCode),
			attribute.String("orgops.dns.state", o.State.String()), attribute.String("orgops.dns.reason", string(o.Reason)), attribute.Float64("orgops.dns.seconds", o.Took.Seconds()),
		))
	}
}

// Logger returns a logger that adds the ids of the context's span to each line.
func (t *Tracing) Logger(l *slog.Logger) *slog.Logger {
	if t == nil {
		return l
	}
	return slog.New(logHandler{l.Handler()})
}

type logHandler struct{ slog.Handler }

// Handle adds the ids of the context's span, if it is traced.
func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if s := trace.SpanContextFromContext(ctx); s.IsSampled() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", s.TraceID().String()), slog.String("span_id", s.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler], as does WithGroup.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements [slog.Handler].
func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }
