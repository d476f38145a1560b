// Package webhooks delivers a tenant's events to other systems, by the scheme of
// Standard Webhooks 1.0.0 (standardwebhooks.com): a POST of a JSON document,
// signed with a secret that both sides have.
//
//	endpoints.go  who is told of what: a YAML file
//	sender.go     one attempt to deliver
//	address.go    where it may connect to
//	rest.go       when a receiver is left alone for a moment
//
// It knows no queue: what an event is, and when an attempt is made again, is
// package tasks'.
package webhooks
