package serving_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"orgops/internal/serving"
)

var quiet = slog.New(slog.DiscardHandler)

// serve runs h on a port that the system chose and stops it with the test.
func serve(t *testing.T, h http.Handler) (addr string, client *http.Client) {
	t.Helper()
	addr, stop, err := serving.Serve(t.Context(), "127.0.0.1:0", nil, h, quiet)
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

func request(t *testing.T, client *http.Client, addr string, changes ...func(*http.Request)) (status int, body string) {
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
	if status, _ := request(t, client, addr, func(r *http.Request) { r.Header.Set("X-Long", strings.Repeat("x", 32<<10)) }); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("32 KiB of headers: %d, want 431", status)
	}
}

func TestServeOnAnAddressInUse(t *testing.T) {
	addr, _ := serve(t, http.NotFoundHandler())
	_, _, err := serving.Serve(t.Context(), addr, nil, http.NotFoundHandler(), quiet)
	if err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("error %v, want one that names %s", err, addr)
	}
}

func TestStopWaitsForRequests(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	addr, stop, err := serving.Serve(t.Context(), "127.0.0.1:0", nil, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-release
		_, _ = io.WriteString(w, "finished")
	}), quiet)
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
	addr, stop, err := serving.Serve(t.Context(), "127.0.0.1:0", nil, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	}), quiet)
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
	addr, stop, err := serving.Serve(ctx, "127.0.0.1:0", nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
		_, _ = io.WriteString(w, "ended")
	}), quiet)
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
