package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Config configures traces.
type Config struct {
	// Endpoint is the URL of a collector, such as http://127.0.0.1:4318; /v1/traces is added
	// if it has no path. The exporter reads its headers from OTEL_EXPORTER_OTLP_HEADERS.
	// Empty: nothing is traced.
	Endpoint string
	// Ratio is the share of rows that are traced, 0 to 1. It does not apply to a task whose
	// headers say whether it is traced.
	Ratio float64
	// Service and Version are attributes of all spans.
	Service, Version string
	// Logger logs spans that could not be sent.
	Logger *slog.Logger
}

const (
	// exportTimeout bounds the sending of a batch. Meanwhile mostWaiting spans wait, and
	// others are dropped.
	exportTimeout = 10 * time.Second
	mostWaiting   = 8192
	// closeTimeout is how long the end of the process waits for the last batch.
	closeTimeout = 3 * time.Second
)

// Tracing makes and sends spans. It is safe for concurrent use.
type Tracing struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	logger   *slog.Logger
	// closing is closeTimeout.
	closing time.Duration
}

// propagator writes and reads the W3C header traceparent.
var propagator = propagation.TraceContext{}

// Check checks the settings. Its error contains no password.
func Check(endpoint string, ratio float64) error {
	if !(ratio >= 0 && ratio <= 1) { // NaN is neither
		return fmt.Errorf("otlp-ratio: want 0 to 1, got %g", ratio)
	}
	if _, err := parse(endpoint); endpoint != "" && err != nil {
		return fmt.Errorf("otlp-endpoint: %w", err)
	}
	return nil
}

func parse(endpoint string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil:
		return nil, errors.New("not a URL: want http://HOST:4318")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("want http://HOST:4318 or https://HOST, got %.60q", u.Redacted())
	case u.User != nil:
		return nil, errors.New("must not contain a user or password: set OTEL_EXPORTER_OTLP_HEADERS")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("must not contain a query or fragment")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	return u, nil
}

// New returns a Tracing, or nil without an endpoint. It does not connect, and a missing
// collector delays nothing.
func New(ctx context.Context, c Config) (*Tracing, error) {
	if err := Check(c.Endpoint, c.Ratio); err != nil || c.Endpoint == "" {
		return nil, err
	}
	u, _ := parse(c.Endpoint) // it was checked
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u.String()), otlptracehttp.WithTimeout(exportTimeout))
	if err != nil {
		return nil, fmt.Errorf("otlp-endpoint: %w", err)
	}
	// The handler is global to the process; the library's default writes to stderr.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { c.Logger.WarnContext(ctx, "sending traces failed", "error", err) }))
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter, sdktrace.WithExportTimeout(exportTimeout), sdktrace.WithMaxQueueSize(mostWaiting)),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(c.Ratio))),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", c.Service), attribute.String("service.version", c.Version))),
	)
	return &Tracing{provider: provider, tracer: provider.Tracer("orgops"), logger: c.Logger, closing: closeTimeout}, nil
}

// Close sends the remaining spans, for at most closeTimeout.
func (t *Tracing) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.closing)
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

// Traceparent returns the W3C traceparent of ctx, or "" if there is none.
func (t *Tracing) Traceparent(ctx context.Context) string {
	if t == nil {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagator.Inject(ctx, carrier)
	return carrier["traceparent"]
}

// Begin starts a span, and returns the function that ends it.
func (t *Tracing) Begin(ctx context.Context, name string) (context.Context, func(error)) {
	if t == nil {
		return ctx, func(error) {}
	}
	ctx, span := t.tracer.Start(ctx, name)
	return ctx, func(err error) { end(span, err) }
}

// end ends a span. The text of an error may contain text of others, so only the log has it.
func end(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// mostBytes bounds a text that others choose.
const mostBytes = 128

func text(key, value string) attribute.KeyValue {
	return attribute.String(key, shortened(value))
}
