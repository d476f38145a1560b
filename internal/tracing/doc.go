// Package tracing records submissions, tasks, DNS checks and API requests as OpenTelemetry
// spans (https://opentelemetry.io/docs/specs/otel/trace/api/), and sends them to a collector
// by OTLP over HTTP. The variables of OpenTelemetry configure it:
// https://opentelemetry.io/docs/languages/sdk-configuration/.
//
// Each execution of a row is a trace of its own, linked to the submission of its run: a
// trace of a million rows would be useless.
//
//	process domain:verify
//	├ permit, get_discovery_domain
//	├ dns check
//	├ dns prove
//	└ permit, update_discovery_domain
//
// A webhook delivery belongs to the trace of the execution that enqueues it: its task has
// the span's context in its headers, as W3C traceparent, which asynq retains over retries.
//
// Spans have ids of runs and rows, names of operations and their results. They have
// no token, secret, TXT value or message of an API. Requests to the API carry no trace.
//
// A nil *Tracing does nothing.
package tracing
