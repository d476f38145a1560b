package tenant

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpproxy"

	"orgops/internal/untrusted"
)

// Proxies returns the proxies of the usual environment variables, of which the one in upper
// case has precedence. Loopback is reached directly. nil: there is none.
func Proxies(env func(string) string) (func(*url.URL) (*url.URL, error), error) {
	read := func(name string) string { return cmp.Or(env(name), env(strings.ToLower(name))) }
	c := httpproxy.Config{HTTPProxy: read("HTTP_PROXY"), HTTPSProxy: read("HTTPS_PROXY"), NoProxy: read("NO_PROXY")}
	if c.HTTPProxy == "" && c.HTTPSProxy == "" {
		return nil, nil
	}
	// httpproxy ignores an address that it cannot read, and requests would go past the
	// proxy.
	for name, value := range map[string]string{"HTTP_PROXY": c.HTTPProxy, "HTTPS_PROXY": c.HTTPSProxy} {
		if err := checkProxy(value); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return c.ProxyFunc(), nil
}

// checkProxy checks an address as httpproxy reads it. The error does not repeat the address,
// which may contain a password.
func checkProxy(address string) error {
	if address == "" {
		return nil
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return errors.New("it cannot be read: want http://HOST:PORT, https:// or socks5://")
	}
	switch u.Scheme {
	case "http", "https", "socks5", "socks5h":
		return nil
	}
	return fmt.Errorf("want http://HOST:PORT, https:// or socks5://, got the scheme %s", untrusted.Value(u.Scheme))
}
