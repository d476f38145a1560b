// Package tracing follows rows through enqueue, tasks, DNS and the API by OpenTelemetry
// (https://opentelemetry.io/docs/specs/otel/trace/api/), and sends what it sees to a
// collector by OTLP over HTTP.
//
// A row's trace begins where its task is enqueued. The task carries the span's context in
// its headers, as W3C traceparent, which asynq keeps over retries; tasks that an
// execution enqueues for the same row go on with its trace. Whoever submits, or finds,
// many rows is linked to from each: a trace of a million rows would be of no use.
//
//	send domain:verify
//	└ process domain:verify          once for each execution
//	  ├ dns look
//	  └ send domain:confirm
//	    └ process domain:confirm
//	      ├ permit, get_discovery_domain
//	      ├ dns prove
//	      └ permit, update_discovery_domain
//
// Spans have ids of runs, rows and tasks, names of operations and what they came to. They
// have no token, no secret, no TXT value and no message of an API. Nothing of it goes to
// the API.
//
// A nil *Tracing traces nothing, at no cost.
package tracing
