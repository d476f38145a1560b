package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"orgops/internal/console"
	"orgops/internal/web"
)

type accessFlags struct {
	web.Settings
	OpsProxyHeader     string   `help:"Header in which a reverse proxy passes the user's name. Requires --ops-proxy-from, except on loopback, where everyone is a reader without it." placeholder:"NAME"`
	OpsProxyRoleHeader string   `help:"Header in which the proxy passes the user's role: reader, support or operator. Without it, or if it is empty, the user is a reader." placeholder:"NAME"`
	OpsProxyFrom       []string `help:"Addresses and networks of the proxy. Requests from elsewhere are refused." placeholder:"CIDR"`
	OpsProxySignOut    string   `help:"Address at which the proxy signs users out: a path such as /oauth2/sign_out, or an https URL. The pages link to it." placeholder:"URL"`
	OpsHosts           []string `help:"Host names that the pages accept, besides localhost and their own address." placeholder:"NAME"`
}

// open checks the settings of pages at addr, and reads the files. On loopback, without a sign-in,
// everyone is a reader. The certificate is nil if none is named.
func (f accessFlags) open(addr string, logger *slog.Logger) (c console.Config, certificate *tls.Config, err error) {
	c.Unsigned = web.Reader
	if c.Proxy, err = web.ParseProxy(f.OpsProxyHeader, f.OpsProxyRoleHeader, f.OpsProxyFrom); err != nil {
		return c, nil, err
	}
	if c.Proxy.SignOut, err = web.ParseSignOut(f.OpsProxySignOut); err != nil {
		return c, nil, err
	}
	if c.Hosts, err = web.ParseHosts(f.OpsHosts); err != nil {
		return c, nil, fmt.Errorf("ops-hosts: %w", err)
	}
	local, err := web.IsLoopback(addr)
	switch {
	case err != nil:
		return c, nil, fmt.Errorf("http-addr: %w", err)
	case f.Access != "" && c.Proxy.Header != "":
		return c, nil,
			errors.New("access and ops-proxy-header are both set: choose whether the pages or the proxy sign users in")
	case !local && c.Proxy.Header != "" && len(c.Proxy.From) == 0:
		return c, nil,
			errors.New("ops-proxy-header is set, but anyone could send it: set ops-proxy-from to the proxy's addresses")
	}
	c.Access, certificate, err = f.Open("http-addr", addr, c.Proxy.Header != "", logger)
	return c, certificate, err
}

func (f accessFlags) print(out io.Writer) {
	for _, one := range []struct{ name, value string }{
		{"access", f.Access},
		{"tls-cert", f.TLSCert},
		{"tls-key", f.TLSKey},
		{"ops-proxy-header", f.OpsProxyHeader},
		{"ops-proxy-role-header", f.OpsProxyRoleHeader},
		{"ops-proxy-from", strings.Join(f.OpsProxyFrom, ", ")},
		{"ops-proxy-sign-out", f.OpsProxySignOut},
		{"ops-hosts", strings.Join(f.OpsHosts, ", ")},
	} {
		if one.value != "" {
			fmt.Fprintf(out, "%s: %s\n", one.name, one.value)
		}
	}
}
