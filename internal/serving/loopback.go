package serving

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// IsLoopback says whether only this machine can reach an address, host:port. A name
// may come to stand for another one, so that of names only localhost is taken; an
// empty host is every address of the machine.
func IsLoopback(addr string) (bool, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return false, fmt.Errorf("%q: want host:port, such as 127.0.0.1:8080", addr)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return false, fmt.Errorf("%q: want a port from 0 to 65535, got %q", addr, port)
	}
	if strings.EqualFold(host, "localhost") {
		return true, nil
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback(), nil
}
