package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// listener is a receiver of events, which may be down.
type listener struct {
	t     *testing.T
	file  string // names it
	takes time.Duration

	mu      sync.Mutex
	up      bool
	turned  int // attempts while it was down
	holding int
	got     map[string][]string // webhook-id -> type and subject of each delivery
}

func listen(t *testing.T, up bool) *listener {
	l := &listener{t: t, up: up, got: map[string][]string{}, file: filepath.Join(t.TempDir(), "hooks.yaml")}
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	write(t, l.file, "endpoints:\n  - {name: crm, url: '"+server.URL+
		"/?token=canary', secret_env: HOOK, allow_private: true}\n")
	return l
}

// mostAge is how old the date of an attempt may be: receivers refuse older ones, and later ones.
const mostAge = 5 * time.Minute

// ServeHTTP refuses attempts that are dated minutes before or after now, as receivers do.
func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // cut off with its worker
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.up {
		l.turned++
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	if want := signatureOf(r.Header, body); r.Header.Get("webhook-signature") != want {
		l.t.Errorf("signature %q, want %q", r.Header.Get("webhook-signature"), want)
	}
	seconds, err := strconv.ParseInt(r.Header.Get("webhook-timestamp"), 10, 64)
	if age := time.Since(time.Unix(seconds, 0)); err != nil || age.Abs() > mostAge {
		l.t.Errorf("an attempt is dated %v before now, %v", age, err)
	}
	var event struct {
		Type string
		Data struct {
			Run, Domain string
			DomainID    string `json:"discovery_domain_id"`
		}
	}
	if err := json.Unmarshal(body, &event); err != nil {
		l.t.Error(err)
	}
	id := r.Header.Get("webhook-id")
	l.got[id] = append(l.got[id], strings.TrimSpace(fmt.Sprint(event.Type, " ", event.Data.Run, " ", event.Data.DomainID)))
	l.holding++
	l.mu.Unlock()
	time.Sleep(l.takes)
	l.mu.Lock()
	l.holding--
	w.WriteHeader(http.StatusNoContent)
}

// signatureOf computes the scheme's signature of the request.
func signatureOf(header http.Header, body []byte) string {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(hookSecret, "whsec_"))
	if err != nil {
		panic(err)
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", header.Get("webhook-id"), header.Get("webhook-timestamp"), body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func (l *listener) set(up bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.up = up
}

// events returns the distinct events that were delivered.
func (l *listener) events() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for id, deliveries := range l.got {
		if same := slices.Compact(slices.Clone(deliveries)); len(same) != 1 {
			l.t.Errorf("under the id %s came %q", id, same)
		}
		all = append(all, deliveries[0])
	}
	slices.Sort(all)
	return all
}

func (l *listener) turnedAway() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turned
}

func (l *listener) held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holding
}

// want waits for that number of events of each type, and checks that each came once.
func (l *listener) want(want map[string]int) {
	l.t.Helper()
	await(l.t, "the events", func() bool {
		got := map[string]int{}
		for _, event := range l.events() {
			of, _, _ := strings.Cut(event, " ")
			got[of]++
		}
		return l.held() == 0 && maps.Equal(got, want)
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, deliveries := range l.got {
		if len(deliveries) > 1 {
			l.t.Errorf("event %s was delivered as %q", id, deliveries)
		}
	}
}

// wantMetrics checks the metrics of a worker that has verified a domain, and that
// docs/reference/metrics.md documents them all.
func wantMetrics(t *testing.T, metrics string) {
	t.Helper()
	for _, want := range []string{
		`orgops_build_info{`, `orgops_redis_scrape_success 1`, `orgops_pace_limit_per_second{tenant="default"} +Inf`,
		`orgops_pace_paused_seconds{tenant="default"} 0`,
		`orgops_runs_open{tenant="default"} `, `orgops_token_ok{tenant="default"} 1`,
		`orgops_token_failures_total{tenant="default"} 0`,
		`orgops_verdicts_total{reason="found",state="present",tenant="default"} `,
		`orgops_api_requests_total{operation="update_discovery_domain",status="200",tenant="default"} 1`,
	} {
		if !strings.Contains(metrics, "\n"+want) {
			t.Errorf("no metric %s", want)
		}
	}
	documented, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(metrics) {
		if rest, ok := strings.CutPrefix(line, "# HELP orgops_"); ok {
			name, _, _ := strings.Cut(rest, " ")
			if !strings.Contains(string(documented), "| `orgops_"+name+"` |") {
				t.Errorf("orgops_%s is not in docs/reference/metrics.md", name)
			}
		}
	}
}

// TestWebhooks checks that a verified domain, an expired one and the end of their run are sent
// to a receiver that is down at first.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	box := startBox(t, sandbox.Options{})
	proven, expires := box.AddDomain("org_1", sandbox.Domain{ID: "ord_1"}),
		box.AddDomain("org_2", sandbox.Domain{ID: "ord_2"})
	box.SetTXT(proven.Host, proven.TXT)
	d, l := newDesk(t), listen(t, false)
	p := begin(t, pointedAt(box, redistest.URL(t), map[string]string{"ORGOPS_WEBHOOKS": l.file, "HOOK": hookSecret,
		"ORGOPS_PROBE_ADDR": "127.0.0.1:0", "ORGOPS_GIVE_UP": "1ms"}))
	rows := "organization_id,discovery_domain_id\norg_1," + proven.ID + "\norg_2," + expires.ID + "\n"
	d.handIn(ledger.NewRun{ID: "job"}, tasks.TypeVerify, []byte(rows))
	d.ended("job")
	await(t, "an attempt", func() bool { return l.turnedAway() > 0 })
	l.set(true)
	want := []string{"domain.expired job ord_2", "domain.verified job ord_1", "run.finished job"}
	await(t, "the events", func() bool { return len(l.events()) == len(want) })
	if got := l.events(); !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
	if status, metrics := p.page("probe-addr", "/metrics"); status != http.StatusOK ||
		!strings.Contains(metrics, `orgops_events_total{tenant="default",type="run.finished"} 1`) ||
		!strings.Contains(metrics, `orgops_webhook_deliveries_total{endpoint="crm",outcome="delivered",tenant="default"}`) {
		t.Errorf("metrics: %d %s", status, metrics)
	} else {
		wantMetrics(t, metrics)
	}
	if status := p.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	if log := p.stderr.String(); strings.Contains(log, "canary") || strings.Contains(log, hookSecret[6:]) {
		t.Errorf("the log has a secret in it: %s", log)
	}
}
