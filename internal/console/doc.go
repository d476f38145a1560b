// Package console is the operator's HTTP side of a worker, on two addresses.
//
// [Pages] is for people, those whom [Access] lets in: by a password of a file
// ([Users]), by a proxy's word, or, on loopback, anybody. What a browser can be
// talked into by another site is refused: foreign Host headers, writes from another
// origin, frames, scripts that are not its own.
//
// [Probes] is for machines: liveness, readiness and metrics, without anything
// that names a domain or an organization.
//
// [Serve] puts either on an address. [Metrics] is what the worker's other parts
// report to; its methods take basic types, so that none of them depends on it.
package console
