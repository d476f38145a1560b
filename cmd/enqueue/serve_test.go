package main

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"orgops/internal/ledger"
	"orgops/internal/logtest"
	"orgops/internal/redistest"
)

// urlInLog sends the address in the log to url as soon as it is written.
type urlInLog struct {
	logtest.Buffer
	url chan string
}

var servedAt = regexp.MustCompile(`"url":"(http[^"]+)"`)

func (l *urlInLog) Write(p []byte) (int, error) {
	if found := servedAt.FindSubmatch(p); found != nil {
		l.url <- string(found[1])
	}
	return l.Buffer.Write(p)
}

// TestServe submits a row to the command, and ends it as SIGTERM does.
func TestServe(t *testing.T) {
	redisURL := redistest.URL(t)
	env := []string{"ORGOPS_REDIS_URL=" + redisURL}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log := &urlInLog{url: make(chan string, 1)}
	ended := make(chan int, 1)
	go func() {
		args := []string{"serve", "--no-auth", "--addr", "127.0.0.1:0", "--log-format", "json", "--probe-addr", "127.0.0.1:0"}
		ended <- run(ctx, args, strings.NewReader(""), io.Discard, log, env)
	}()
	var url string
	select {
	case url = <-log.url:
	case status := <-ended:
		t.Fatalf("ended with status %d:\n%s", status, log.String())
	}
	const row = `{"organization_id":"org_0000000000000000","client_id":"c"}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		url+"/v1/runs/clients:remove", strings.NewReader(row))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", "k")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	got, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = got.Body.Close()
	if got.StatusCode != http.StatusAccepted {
		t.Errorf("status %d, want 202", got.StatusCode)
	}
	probes := regexp.MustCompile(`"serving probes","at":"(http[^"]+)"`).FindStringSubmatch(log.String())
	if probes == nil {
		t.Fatalf("no address of probes:\n%s", log.String())
	}
	for path, want := range map[string]string{"/readyz": "redis: ok", "/metrics": "orgops_intake_rows_total 1\n"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, probes[1]+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(got.Body)
		_ = got.Body.Close()
		if err != nil || got.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %v, want %q in\n%s", path, got.StatusCode, err, want, body)
		}
	}
	cancel()
	if status := <-ended; status != 0 {
		t.Errorf("exit status %d, want 0:\n%s", status, log.String())
	}
	all, err := ledger.New(redistest.New(t)).Runs(t.Context())
	if err != nil || len(all) != 1 || all[0].Caller != "anybody" {
		t.Errorf("runs %+v, %v; want one, anybody's", all, err)
	}
}
