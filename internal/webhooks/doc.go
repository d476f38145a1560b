// Package webhooks delivers a tenant's events to other systems, by the scheme of Standard
// Webhooks 1.0.0 (standardwebhooks.com): a POST of a JSON document, signed with a secret that
// both sides have.
//
//	sender.go          one attempt to deliver
//	rest.go            the pauses of a receiver that does not answer
//	delivery_error.go  why an attempt failed
//	address.go         the addresses to which it may connect
//	endpoints.go       the receivers and their events: a YAML file
//
// It knows no queue: package deliveries decides when an attempt is repeated.
package webhooks
