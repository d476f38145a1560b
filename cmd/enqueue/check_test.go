package main

import (
	"bytes"
	"context"
	"net"
	"testing"

	"orgops/internal/cli"
)

// TestCheckIsInterrupted has a resolver that never answers, and the person lose patience once it is asked.
func TestCheckIsInterrupted(t *testing.T) {
	resolver, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resolver.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_, _, _ = resolver.ReadFrom(make([]byte, 512))
		cancel()
	}()
	env := map[string]string{"ORGOPS_RESOLVERS": resolver.LocalAddr().String(), "ORGOPS_DNS_MODE": "resolvers"}
	var stdout, stderr bytes.Buffer
	status := run(ctx, []string{"domains", "check", "--host", "_v.example.com", "--txt", "token"}, nil, &stdout, &stderr, func(name string) string { return env[name] })
	if status != cli.StatusInterrupted || stdout.Len() > 0 {
		t.Errorf("exit status %d, stdout %q, stderr %q; want %d and nothing", status, &stdout, &stderr, cli.StatusInterrupted)
	}
}
