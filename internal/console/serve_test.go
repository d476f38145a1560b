package console_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"testing"

	"orgops/internal/serving"
)

// serve runs h on a free port and stops it with the test.
func serve(t *testing.T, h http.Handler) (addr string, client *http.Client) {
	t.Helper()
	addr, stop, err := serving.Serve(t.Context(), "127.0.0.1:0", nil, h, slog.New(slog.DiscardHandler))
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

func TestServedHosts(t *testing.T) {
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
