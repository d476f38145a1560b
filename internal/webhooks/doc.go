// Package webhooks delivers a tenant's events to other systems, by the scheme of Standard
// Webhooks 1.0.0 (standardwebhooks.com): a POST of a JSON document, signed with a secret that
// both sides have.
//
//	endpoints.go  the receivers and their events: a YAML file
//	sender.go     one attempt to deliver
//	address.go    the addresses to which it may connect
//	rest.go       the pauses of a receiver that does not answer
//
// It knows no queue: package deliveries decides when an attempt is repeated.
package webhooks
