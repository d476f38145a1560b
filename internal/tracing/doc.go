// Package tracing follows rows through enqueue, tasks, DNS and the API by OpenTelemetry
// (https://opentelemetry.io/docs/specs/otel/trace/api/), and sends what it sees to a
// collector by OTLP over HTTP.
//
// Each execution of a row is a trace of its own, linked to the submission of its run: a
// trace of a million rows would be of no use.
//
//	process domain:verify
//	├ permit, get_discovery_domain
//	├ dns look
//	├ dns prove
//	└ permit, update_discovery_domain
//
// A webhook delivery belongs to the trace of the execution that enqueues it: its task
// carries the span's context in its headers, as W3C traceparent, which asynq keeps over
// retries.
//
// Spans have ids of runs, rows and tasks, names of operations and what they came to. They
// have no token, no secret, no TXT value and no message of an API. Nothing of it goes to
// the API.
//
// A nil *Tracing traces nothing, at no cost.
package tracing
