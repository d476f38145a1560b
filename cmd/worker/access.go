package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"orgops/internal/console"
	"orgops/internal/serving"
)

// accessFlags are the flags of access to the operator's pages.
type accessFlags struct {
	OpsWrite       bool     `help:"Allow the pages to change things, such as cancel and retry runs. Pages are read-only otherwise."`
	OpsUsers       string   `help:"File of users: lines of name:hash as htpasswd -B writes them. Reloaded when it changes." placeholder:"FILE"`
	OpsProxyHeader string   `help:"Header in which a reverse proxy passes the authenticated user's name. Requires --ops-proxy-from." placeholder:"NAME"`
	OpsProxyFrom   []string `help:"Addresses and networks of the proxy. Requests from elsewhere are refused." placeholder:"CIDR"`
	OpsHosts       []string `help:"Host names that the pages accept, besides localhost and their own address." placeholder:"NAME"`
	OpsTLSCert     string   `name:"ops-tls-cert" help:"Certificate chain of the pages, PEM. Reloaded when it changes." placeholder:"FILE"`
	OpsTLSKey      string   `name:"ops-tls-key" help:"Key of the certificate, PEM." placeholder:"FILE"`
	OpsPlainHTTP   bool     `name:"ops-plain-http" help:"Accept passwords without TLS on an address that other machines can reach, behind a proxy that terminates TLS. Requires --ops-proxy-from."`
}

// check refuses settings that would admit strangers or send passwords unencrypted.
func (f accessFlags) check(addr string) error {
	local, err := serving.IsLoopback(addr)
	switch {
	case err != nil:
		return fmt.Errorf("http-addr: %w", err)
	case f.OpsUsers != "" && f.OpsProxyHeader != "":
		return errors.New("ops-users and ops-proxy-header are both set: choose whether the pages or the proxy sign users in")
	case f.OpsProxyHeader != "" && len(f.OpsProxyFrom) == 0:
		return errors.New("ops-proxy-header is set, but anyone could send it: set ops-proxy-from to the proxy's addresses")
	case f.OpsPlainHTTP && len(f.OpsProxyFrom) == 0:
		return errors.New("ops-plain-http is set, but passwords could be sent past the proxy that terminates TLS: set ops-proxy-from to the proxy's addresses")
	case (f.OpsTLSCert == "") != (f.OpsTLSKey == ""):
		return errors.New("ops-tls-cert and ops-tls-key go together")
	case f.OpsPlainHTTP && f.OpsTLSCert != "":
		return errors.New("ops-plain-http and ops-tls-cert do not go together")
	case !local && f.OpsUsers == "" && f.OpsProxyHeader == "":
		return fmt.Errorf("http-addr: %s can be reached from other machines, and the pages would require no sign-in: name ops-users, a file of name:hash by htpasswd -B, or ops-proxy-header with ops-proxy-from; or serve on 127.0.0.1 and forward the port (ssh -L)", addr)
	case !local && f.OpsUsers != "" && f.OpsTLSCert == "" && !f.OpsPlainHTTP:
		return fmt.Errorf("http-addr: %s can be reached from other machines, and passwords would be sent unencrypted: set ops-tls-cert and ops-tls-key; or ops-plain-http behind a proxy that terminates TLS", addr)
	}
	_, _, err = f.files(slog.New(slog.DiscardHandler))
	return err
}

// files reads the files that the flags name. The certificate is nil if none is named.
func (f accessFlags) files(logger *slog.Logger) (access console.Access, certificate *tls.Config, err error) {
	if access.ProxyFrom, err = console.ParseProxyFrom(f.OpsProxyFrom); err != nil {
		return access, nil, fmt.Errorf("ops-proxy-from: %w", err)
	}
	if access.Hosts, err = console.ParseHosts(f.OpsHosts); err != nil {
		return access, nil, fmt.Errorf("ops-hosts: %w", err)
	}
	if f.OpsProxyHeader != "" {
		if access.ProxyHeader, err = console.ParseProxyHeader(f.OpsProxyHeader); err != nil {
			return access, nil, fmt.Errorf("ops-proxy-header: %w", err)
		}
	}
	if f.OpsUsers != "" {
		if access.Users, err = console.ReadUsers(f.OpsUsers, logger, time.Now); err != nil {
			return access, nil, fmt.Errorf("ops-users: %w", err)
		}
	}
	if f.OpsTLSCert != "" {
		if certificate, err = serving.TLS(f.OpsTLSCert, f.OpsTLSKey, logger, time.Now); err != nil {
			return access, nil, fmt.Errorf("ops-tls-cert: %w", err)
		}
	}
	return access, certificate, nil
}

// print writes the effective settings.
func (f accessFlags) print(out io.Writer) {
	fmt.Fprintf(out, "ops-write: %t\n", f.OpsWrite)
	for _, one := range []struct{ name, value string }{
		{"ops-users", f.OpsUsers},
		{"ops-proxy-header", f.OpsProxyHeader},
		{"ops-proxy-from", strings.Join(f.OpsProxyFrom, ", ")},
		{"ops-hosts", strings.Join(f.OpsHosts, ", ")},
		{"ops-tls-cert", f.OpsTLSCert},
		{"ops-tls-key", f.OpsTLSKey},
	} {
		if one.value != "" {
			fmt.Fprintf(out, "%s: %s\n", one.name, one.value)
		}
	}
	if f.OpsPlainHTTP {
		fmt.Fprintln(out, "ops-plain-http: true")
	}
}

// sameAddr reports whether two listeners would use the same port of the same address.
func sameAddr(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	localA, _ := serving.IsLoopback(a)
	localB, _ := serving.IsLoopback(b)
	return strings.EqualFold(hostA, hostB) || localA && localB || isEvery(hostA) || isEvery(hostB)
}

// isEvery reports whether a host means all addresses of the machine.
func isEvery(host string) bool {
	return host == "" || net.ParseIP(host).IsUnspecified()
}
