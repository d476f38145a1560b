package webhooks

import (
	"context"
	"net"
	"net/netip"
	"testing"
)

// ParseEndpoints reads the text of a file.
var ParseEndpoints = parseEndpoints

// SetPublic replaces the test for public addresses, since a test can connect to loopback only.
func SetPublic(t *testing.T, passes func(netip.Addr) bool) {
	former := public
	public = passes
	t.Cleanup(func() { public = former })
}

// SetResolver replaces the resolver during a test.
func SetResolver(t *testing.T, r *net.Resolver) {
	former := resolver
	resolver = r
	t.Cleanup(func() { resolver = former })
}

// SetDial replaces the dial function of senders that are made during a test.
func SetDial(t *testing.T, connect func(ctx context.Context, network, address string) (net.Conn, error)) {
	former := newDial
	newDial = func(func(netip.Addr) bool) dialer { return connect }
	t.Cleanup(func() { newDial = former })
}
