package web

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	"orgops/internal/untrusted"
)

// IsLoopback reports whether only this machine can reach an address, host:port. An empty host
// is every address of the machine.
func IsLoopback(addr string) (bool, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return false, fmt.Errorf("%q: want host:port, such as 127.0.0.1:8080", addr)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return false, fmt.Errorf("%q: want a port from 0 to 65535, got %q", addr, port)
	}
	return untrusted.IsLoopback(host), nil
}

// Host returns the host that a request is for, as names are compared, without its port.
func Host(r *http.Request) string {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// IsLocal reports whether a host, as [Host] returns it, can only be this machine, however its
// name is resolved.
func IsLocal(host string) bool {
	return untrusted.IsLoopback(host) || strings.HasSuffix(host, ".localhost") // RFC 6761 6.3
}
