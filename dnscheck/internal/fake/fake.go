// Package fake has the permission to make a proof without asking DNS. Being internal, it can be
// imported by dnscheck and its kit for tests alone.
package fake

// Permission permits a proof without DNS.
type Permission struct{}
