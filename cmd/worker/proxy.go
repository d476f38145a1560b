package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpproxy"
)

// proxies reads which proxy a URL is reached by from the variables that other
// programs read too; that of the upper case goes before. Loopback is reached
// directly. nil: none is named.
func proxies(env environment) (func(*url.URL) (*url.URL, error), error) {
	read := func(name string) string { return cmp.Or(env(name), env(strings.ToLower(name))) }
	c := httpproxy.Config{HTTPProxy: read("HTTP_PROXY"), HTTPSProxy: read("HTTPS_PROXY"), NoProxy: read("NO_PROXY")}
	if c.HTTPProxy == "" && c.HTTPSProxy == "" {
		return nil, nil
	}
	// httpproxy takes one that it cannot read for none, and requests would go
	// out past it.
	for name, value := range map[string]string{"HTTP_PROXY": c.HTTPProxy, "HTTPS_PROXY": c.HTTPSProxy} {
		if err := checkProxy(value); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return c.ProxyFunc(), nil
}

// checkProxy wants an address as httpproxy reads it. The error does not repeat
// it: there may be a password in it.
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
	return fmt.Errorf("want http://HOST:PORT, https:// or socks5://, got the scheme %.20q", u.Scheme)
}
