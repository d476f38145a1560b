package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// everywhere returns flags that listen on all addresses, without any access settings but with.
func everywhere(with ...string) []string {
	return append([]string{"--http-addr", "0.0.0.0:8080"}, with...)
}

// The reasons why addresses that others can reach are refused.
const (
	noSignIn = " can be reached from other machines, and everyone would get in: name --access, a file of entries by enqueue access new; or serve on 127.0.0.1 and forward the port (ssh -L)"
	noTLS    = " can be reached from other machines, and tokens would be sent unencrypted: set --tls-cert and --tls-key; or serve on 127.0.0.1, behind a proxy on this machine that terminates TLS"
)

var wrongAccess = []settingsCase{
	{name: "pages for everybody", args: everywhere(), want: "http-addr: 0.0.0.0:8080" + noSignIn},
	{name: "pages for everybody by a name", args: []string{"--http-addr", "ops.example.com:8080"},
		want: "http-addr: ops.example.com:8080" + noSignIn},
	{name: "tokens in the open", args: everywhere("--access", "testdata/access.yaml"),
		want: "http-addr: 0.0.0.0:8080" + noTLS},
	{name: "the proxy's header in the open", args: everywhere("--ops-proxy-header", "X-Forwarded-User", "--ops-proxy-from",
		"10.0.0.1"), want: "http-addr: 0.0.0.0:8080" + noTLS},
	{name: "anybody's header", args: everywhere("--ops-proxy-header", "X-Forwarded-User"),
		want: "ops-proxy-header is set, but anyone could send it: set ops-proxy-from to the proxy's addresses"},
	{name: "a proxy without a header", args: everywhere("--ops-proxy-from", "10.0.0.1"),
		want: "ops-proxy-from is set without ops-proxy-header: name the header in which the proxy passes the user"},
	{name: "a role without a name", args: everywhere("--ops-proxy-role-header", "X-Forwarded-Role"),
		want: "ops-proxy-role-header is set without ops-proxy-header: name the header in which the proxy passes the user"},
	{name: "name and role in one header", args: everywhere("--ops-proxy-header", "X-Forwarded-User",
		"--ops-proxy-role-header", "x-forwarded-user"),
		want: "ops-proxy-role-header: want another header than ops-proxy-header, got X-Forwarded-User for both"},
	{name: "everybody's proxy", args: everywhere("--ops-proxy-header", "X-Forwarded-User", "--ops-proxy-from",
		"10.0.0.1,0.0.0.0/0"),
		want: "ops-proxy-from: 0.0.0.0/0 contains every address, so any client could claim to be any user: want the proxy's addresses"},
	{name: "a proxy by name", args: everywhere("--ops-proxy-header", "X-Forwarded-User", "--ops-proxy-from",
		"proxy.example"),
		want: `ops-proxy-from: want addresses or networks such as 10.1.2.3 or 10.0.0.0/8, got "proxy.example"`},
	{name: "a header that clients send", args: []string{"--http-addr", "127.0.0.1:8080", "--ops-proxy-header", "host",
		"--ops-proxy-from", "127.0.0.1"},
		want: `ops-proxy-header: want the name of a header that only the proxy sets, such as X-Forwarded-User, got "Host"`},
	{name: "two who ask", args: everywhere("--access", "testdata/access.yaml", "--ops-proxy-header", "X-Forwarded-User",
		"--ops-proxy-from", "10.0.0.1"),
		want: "access and ops-proxy-header are both set: choose whether the pages or the proxy sign users in"},
	{name: "a certificate without a key", args: everywhere("--access", "testdata/access.yaml", "--tls-cert", "cert.pem"),
		want: "tls-cert and tls-key go together"},
	{name: "a certificate that is none", args: everywhere("--access", "testdata/access.yaml", "--tls-cert",
		"testdata/access.yaml", "--tls-key", "testdata/access.yaml"),
		want: "tls-cert: certificate testdata/access.yaml with key testdata/access.yaml: tls: failed to find any PEM data in certificate input"},
	{name: "no access file", args: []string{"--http-addr", "127.0.0.1:8080", "--access", "testdata/nowhere"},
		want: "access: open testdata/nowhere: no such file or directory"},
	{name: "an access file that is none", args: []string{"--http-addr", "127.0.0.1:8080", "--access", "testdata/two.yaml"},
		want: "access: testdata/two.yaml: invalid entry: line 1: cannot unmarshal !!map"},
	{name: "a host with its port", args: []string{"--http-addr", "127.0.0.1:8080", "--ops-hosts", "ops.example.com:8080"},
		want: `ops-hosts: want host names without ports, such as ops.example.com, got "ops.example.com:8080"`},
}

// TestAccess checks that the access settings admit the intended callers.
func TestAccess(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	keyText, certText := keyAndCertificate(t)
	if err := errors.Join(os.WriteFile(cert, []byte(certText), 0o600),
		os.WriteFile(key, []byte(keyText), 0o600)); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"on loopback", []string{"--http-addr", "127.0.0.1:8080"}, "http-addr: 127.0.0.1:8080\n"},
		{
			"by token", everywhere("--access", "testdata/access.yaml", "--tls-cert", cert, "--tls-key", key,
				"--ops-hosts", "ops.example.com"),
			"http-addr: 0.0.0.0:8080\naccess: testdata/access.yaml\ntls-cert: " + cert + "\ntls-key: " + key +
				"\nops-hosts: ops.example.com\n",
		},
		{
			"by the proxy", everywhere("--ops-proxy-header", "X-Forwarded-User", "--ops-proxy-from", "10.0.0.0/8,::1",
				"--ops-proxy-role-header", "X-Forwarded-Role", "--tls-cert", cert, "--tls-key", key),
			"http-addr: 0.0.0.0:8080\ntls-cert: " + cert + "\ntls-key: " + key +
				"\nops-proxy-header: X-Forwarded-User\nops-proxy-role-header: X-Forwarded-Role\nops-proxy-from: 10.0.0.0/8, ::1\n",
		},
		{"by a proxy on this machine", []string{"--http-addr", "127.0.0.1:8080", "--ops-proxy-header", "X-Forwarded-User"},
			"http-addr: 127.0.0.1:8080\nops-proxy-header: X-Forwarded-User\n"},
		{"off", []string{"--http-addr", "off", "--access", "testdata/nowhere"}, "http-addr: off\n"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			status, stdout, stderr := typed(t, enough(nil), append(tc.args, "--check-config")...)
			_, after, _ := strings.Cut(stdout, "\n") // redis-url
			got, _, _ := strings.Cut(after, "probe-addr: ")
			if diff := cmp.Diff(tc.want, got); diff != "" || status != 0 || stderr != "" {
				t.Errorf("status %d, stderr %q, stdout (-want +got):\n%s", status, stderr, diff)
			}
		})
	}
}
