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

var wrongAccess = []settingsCase{
	{name: "pages for everybody", args: everywhere(), want: "http-addr: 0.0.0.0:8080 can be reached from other machines, and the pages would require no sign-in: name ops-users, a file of name:hash by htpasswd -B, or ops-proxy-header with ops-proxy-from; or serve on 127.0.0.1 and forward the port (ssh -L)"},
	{name: "pages for everybody by a name", args: []string{"--http-addr", "ops.example.com:8080"}, want: "http-addr: ops.example.com:8080 can be reached from other machines, and the pages would require no sign-in: name ops-users, a file of name:hash by htpasswd -B, or ops-proxy-header with ops-proxy-from; or serve on 127.0.0.1 and forward the port (ssh -L)"},
	{name: "passwords in the open", args: everywhere("--ops-users", "testdata/users"), want: "http-addr: 0.0.0.0:8080 can be reached from other machines, and passwords would be sent unencrypted: set ops-tls-cert and ops-tls-key; or ops-plain-http behind a proxy that terminates TLS"},
	{name: "passwords past the proxy", args: everywhere("--ops-users", "testdata/users", "--ops-plain-http"), want: "ops-plain-http is set, but passwords could be sent past the proxy that terminates TLS: set ops-proxy-from to the proxy's addresses"},
	{name: "anybody's header", args: everywhere("--ops-proxy-header", "X-Forwarded-User"), want: "ops-proxy-header is set, but anyone could send it: set ops-proxy-from to the proxy's addresses"},
	{name: "everybody's proxy", args: everywhere("--ops-proxy-header", "X-Forwarded-User", "--ops-proxy-from", "10.0.0.1,0.0.0.0/0"), want: "ops-proxy-from: 0.0.0.0/0 contains every address, so any client could claim to be any user: want the proxy's addresses"},
	{name: "a proxy by name", args: everywhere("--ops-proxy-header", "X-Forwarded-User", "--ops-proxy-from", "proxy.example"), want: `ops-proxy-from: want addresses or networks such as 10.1.2.3 or 10.0.0.0/8, got "proxy.example"`},
	{name: "a header that clients send", args: []string{"--http-addr", "127.0.0.1:8080", "--ops-proxy-header", "host", "--ops-proxy-from", "127.0.0.1"}, want: `ops-proxy-header: want the name of a header that only the proxy sets, such as X-Forwarded-User, got "Host"`},
	{name: "two who ask", args: everywhere("--ops-users", "testdata/users", "--ops-proxy-header", "X-Forwarded-User", "--ops-proxy-from", "10.0.0.1"), want: "ops-users and ops-proxy-header are both set: choose whether the pages or the proxy sign users in"},
	{name: "a certificate without a key", args: everywhere("--ops-users", "testdata/users", "--ops-tls-cert", "cert.pem"), want: "ops-tls-cert and ops-tls-key go together"},
	{name: "TLS and none", args: everywhere("--ops-users", "testdata/users", "--ops-tls-cert", "cert.pem", "--ops-tls-key", "key.pem", "--ops-plain-http", "--ops-proxy-from", "10.0.0.1"), want: "ops-plain-http and ops-tls-cert do not go together"},
	{name: "a certificate that is none", args: everywhere("--ops-users", "testdata/users", "--ops-tls-cert", "testdata/users", "--ops-tls-key", "testdata/users"), want: "ops-tls-cert: certificate testdata/users with key testdata/users: tls: failed to find any PEM data in certificate input"},
	{name: "no users", args: []string{"--http-addr", "127.0.0.1:8080", "--ops-users", "testdata/nowhere"}, want: "ops-users: open testdata/nowhere: no such file or directory"},
	{name: "users that are none", args: []string{"--http-addr", "127.0.0.1:8080", "--ops-users", "testdata/two.yaml"}, want: "ops-users: testdata/two.yaml: line 1: tenants: not a bcrypt hash ($2y$…): use htpasswd -nB -C 12 NAME"},
	{name: "a host with its port", args: []string{"--http-addr", "127.0.0.1:8080", "--ops-hosts", "ops.example.com:8080"}, want: `ops-hosts: want host names without ports, such as ops.example.com, got "ops.example.com:8080"`},
	{name: "one address for both", args: []string{"--http-addr", "localhost:8080", "--probe-addr", "127.0.0.1:8080"}, want: "http-addr and probe-addr are both localhost:8080: give the probes another port: they require no sign-in"},
	{name: "the pages' port on every address", args: []string{"--http-addr", "127.0.0.1:8080", "--probe-addr", ":8080"}, want: "http-addr and probe-addr are both 127.0.0.1:8080: give the probes another port: they require no sign-in"},
}

// TestAccess checks that the access settings admit the intended callers and reject all others.
func TestAccess(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	keyText, certText := keyAndCertificate(t)
	if err := errors.Join(os.WriteFile(cert, []byte(certText), 0o600), os.WriteFile(key, []byte(keyText), 0o600)); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"on loopback", []string{"--http-addr", "127.0.0.1:8080"}, "http-addr: 127.0.0.1:8080\nops-write: false\n"},
		{
			"by password over TLS", everywhere("--ops-users", "testdata/users", "--ops-tls-cert", cert, "--ops-tls-key", key, "--ops-hosts", "ops.example.com", "--ops-write"),
			"http-addr: 0.0.0.0:8080\nops-write: true\nops-users: testdata/users\nops-hosts: ops.example.com\nops-tls-cert: " + cert + "\nops-tls-key: " + key + "\n",
		},
		{
			"by password behind a proxy", everywhere("--ops-users", "testdata/users", "--ops-plain-http", "--ops-proxy-from", "10.0.0.0/8,::1"),
			"http-addr: 0.0.0.0:8080\nops-write: false\nops-users: testdata/users\nops-proxy-from: 10.0.0.0/8, ::1\nops-plain-http: true\n",
		},
		{
			"by the proxy", everywhere("--ops-proxy-header", "X-Forwarded-User", "--ops-proxy-from", "10.0.0.0/8"),
			"http-addr: 0.0.0.0:8080\nops-write: false\nops-proxy-header: X-Forwarded-User\nops-proxy-from: 10.0.0.0/8\n",
		},
		{"off", []string{"--http-addr", "off", "--ops-users", "testdata/nowhere"}, "http-addr: off\n"},
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

func TestUsersOfEverybody(t *testing.T) {
	text, err := os.ReadFile("testdata/users")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	status, _, stderr := typed(t, enough(nil), "--http-addr", "127.0.0.1:8080", "--ops-users", file, "--check-config")
	if status != 2 || !strings.Contains(stderr, "every user of this machine can write to it") {
		t.Errorf("status %d, stderr %q, want 2 and why", status, stderr)
	}
}
