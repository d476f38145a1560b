package webhooks

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"
)

// connectTimeout is how long connecting may take, of an attempt's whole time.
const connectTimeout = 10 * time.Second

// errRefused is that of one address.
var errRefused = errors.New("it is loopback, link-local, private or reserved")

// errAddress is that of a host whose addresses are all refused.
var errAddress = errors.New("all addresses of the host are loopback, link-local, private or reserved: set allow_private to permit them (for http: only loopback)")

// dialer is what a transport connects by.
type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// newDial makes one; tests have another way.
var newDial = dial

// dial connects to addresses that allowed takes, and to no other. They are
// looked at when a socket is about to be connected, after the name was resolved:
// what DNS says a moment before, or after, does not count. It is errAddress where
// each address was refused.
func dial(resolver *net.Resolver, allowed func(netip.Addr) bool) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		var refused, taken atomic.Int64
		d := net.Dialer{
			Timeout: connectTimeout, KeepAlive: 15 * time.Second, Resolver: resolver,
			ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
				at, err := netip.ParseAddrPort(address)
				if err != nil || !allowed(at.Addr()) {
					refused.Add(1)
					return errRefused
				}
				taken.Add(1)
				return nil
			},
		}
		conn, err := d.DialContext(ctx, network, address)
		if err != nil && refused.Load() > 0 && taken.Load() == 0 {
			return nil, errAddress
		}
		return conn, err
	}
}
