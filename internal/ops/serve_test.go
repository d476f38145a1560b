package ops_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"orgops/internal/ops"
)

// serve runs h on a port that the system chose and stops it with the test.
func serve(t *testing.T, h http.Handler) (addr string, client *http.Client) {
	t.Helper()
	addr, stop, err := ops.Serve(t.Context(), "127.0.0.1:0", h, nil)
	if err != nil {
		t.Fatal(err)
	}
	client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	t.Cleanup(func() {
		if err := stop(context.Background()); err != nil { //nolint:usetesting // the test's own context has ended here
			t.Errorf("stop: %v", err)
		}
	})
	return addr, client
}

func request(t *testing.T, client *http.Client, addr string, changes ...change) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		change(r)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	read, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(read)
}

func TestServe(t *testing.T) {
	addr, client := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "here")
	}))
	if _, port, err := net.SplitHostPort(addr); err != nil || port == "0" {
		t.Errorf("address %q, want one with the port that was chosen", addr)
	}
	if status, body := request(t, client, addr); status != http.StatusOK || body != "here" {
		t.Errorf("answer %d %q, want 200 here", status, body)
	}
	if status, _ := request(t, client, addr, header("X-Long", strings.Repeat("x", 32<<10))); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("32 KiB of headers: %d, want 431", status)
	}
}

func TestServeGivesTheAddressThatPagesAnswerTo(t *testing.T) {
	p := newPages(t)
	addr, client := serve(t, p)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if status, _ := request(t, client, addr); status != http.StatusFound {
		t.Errorf("asked for by its address: %d, want 302", status)
	}
	if status, _ := request(t, client, addr, host("evil.example")); status != http.StatusForbidden {
		t.Errorf("asked for by another name: %d, want 403", status)
	}
}

func TestServeOnAnAddressInUse(t *testing.T) {
	addr, _ := serve(t, http.NotFoundHandler())
	_, _, err := ops.Serve(t.Context(), addr, http.NotFoundHandler(), nil)
	if err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("error %v, want one that names %s", err, addr)
	}
}

func TestStopWaitsForRequests(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	addr, stop, err := ops.Serve(t.Context(), "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-release
		_, _ = io.WriteString(w, "finished")
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer := make(chan string, 1)
	go func() {
		_, body := request(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, addr)
		answer <- body
	}()
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- stop(t.Context()) }()
	close(release)
	if body := <-answer; body != "finished" {
		t.Errorf("answer %q, want the whole of it", body)
	}
	if err := <-stopped; err != nil {
		t.Errorf("stop: %v", err)
	}
	if err := stop(t.Context()); err != nil {
		t.Errorf("stop again: %v", err)
	}
}

func TestStopCutsOffAtItsEnd(t *testing.T) {
	entered := make(chan struct{})
	addr, stop, err := ops.Serve(t.Context(), "127.0.0.1:0", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := stop(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("stop with an ended context: %v, want context.Canceled", err)
	}
	if answer, err := io.ReadAll(conn); len(answer) > 0 {
		t.Errorf("an answer %q (%v) after the cut", answer, err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRequestsEndWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	addr, stop, err := ops.Serve(ctx, "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
		_, _ = io.WriteString(w, "ended")
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, body := request(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, addr); body != "ended" {
		t.Errorf("answer %q, want ended", body)
	}
	if err := stop(t.Context()); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func TestCheckLoopback(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:8080", "127.9.9.9:0", "[::1]:65535", "[::ffff:127.0.0.1]:1", "localhost:8080", "LOCALHOST:1"} {
		if err := ops.CheckLoopback(addr); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
	tests := map[string]string{
		":8080":                 `address ":8080": the operator's pages ask nobody who they are`,
		"0.0.0.0:8080":          "use 127.0.0.1:8080",
		"[::]:8080":             "on loopback only",
		"10.0.0.1:8080":         "on loopback only",
		"example.com:8080":      "on loopback only",
		"localhost.evil.com:80": "on loopback only",
		"127.0.0.1":             "want host:port, such as 127.0.0.1:8080",
		"":                      "want host:port",
		"127.0.0.1:http":        `want a port from 0 to 65535, got "http"`,
		"127.0.0.1:65536":       `want a port from 0 to 65535, got "65536"`,
		"127.0.0.1:":            `want a port from 0 to 65535, got ""`,
		"bad\x1b[31m.host:80":   `address "bad\x1b[31m.host:80"`,
	}
	for addr, want := range tests {
		if err := ops.CheckLoopback(addr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q in it", addr, err, want)
		}
	}
}
