package sandbox_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"orgops/internal/sandbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client reuses no connection and follows no redirect.
var client = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

const (
	asJSON = "application/json"
	asForm = "application/x-www-form-urlencoded"
)

func start(t *testing.T, o sandbox.Options) *sandbox.Sandbox {
	t.Helper()
	s, err := sandbox.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// ask is a request. Empty fields are omitted, except for the token.
type ask struct {
	method, path      string
	contentType, body string
	token             string // empty: one with every scope; "none": no token
	header            http.Header
	host              string
}

type reply struct {
	status int
	header http.Header
	raw    string
	json   map[string]any // nil: not a JSON object
}

func try(t *testing.T, s *sandbox.Sandbox, a ask) (reply, error) {
	t.Helper()
	url := a.path
	if !strings.HasPrefix(url, "http") {
		url = s.BaseURL() + a.path
	}
	r, err := http.NewRequestWithContext(t.Context(), a.method, url, strings.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(r.Header, a.header)
	if a.contentType != "" {
		r.Header.Set("Content-Type", a.contentType)
	}
	switch a.token {
	case "none":
	case "":
		r.Header.Set("Authorization", "Bearer "+s.Token())
	default:
		r.Header.Set("Authorization", "Bearer "+a.token)
	}
	if a.host != "" {
		r.Host = a.host
	}
	res, err := client.Do(r)
	if err != nil {
		return reply{}, err
	}
	raw, err := io.ReadAll(res.Body)
	if err := res.Body.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	got := reply{status: res.StatusCode, header: res.Header, raw: string(raw)}
	_ = json.Unmarshal(raw, &got.json)
	return got, err
}

func do(t *testing.T, s *sandbox.Sandbox, a ask) reply {
	t.Helper()
	got, err := try(t, s, a)
	if err != nil {
		t.Fatalf("%s %s: %v", a.method, a.path, err)
	}
	return got
}

// wantError checks that a response has the service's error format.
func wantError(t *testing.T, got reply, status int, code, message string) {
	t.Helper()
	want := map[string]any{"statusCode": float64(status), "error": http.StatusText(status), "message": got.json["message"]}
	if code != "" {
		want["errorCode"] = code
	}
	if diff := cmp.Diff(want, got.json); got.status != status || diff != "" {
		t.Errorf("status %d, want %d; body (-want +got):\n%s", got.status, status, diff)
	}
	if m, _ := got.json["message"].(string); !strings.Contains(m, message) {
		t.Errorf("message %q does not contain %q", m, message)
	}
}

// clock is a clock that only the test advances.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func TestStartRefusesInvalidOptions(t *testing.T) {
	taken := start(t, sandbox.Options{RedisAddr: "127.0.0.1:0"})
	tests := []struct {
		name    string
		options sandbox.Options
		want    string
	}{
		{"rate", sandbox.Options{Rate: -1}, "rate -1"},
		{"burst", sandbox.Options{Burst: -1}, "burst -1"},
		{"lag", sandbox.Options{ReadLag: -1}, "below zero"},
		{"API address taken", sandbox.Options{APIAddr: strings.TrimPrefix(taken.AuthURL(), "http://")}, "API on"},
		{"DNS address taken", sandbox.Options{DNSAddr: taken.DNSAddr()}, "DNS on"},
		{
			"Redis address taken", sandbox.Options{
				RedisAddr: strings.TrimSuffix(strings.TrimPrefix(taken.RedisURL(), "redis://"), "/0"),
			}, "Redis on",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := sandbox.Start(tt.options)
			if err == nil {
				_ = s.Close()
				t.Fatal("started")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q does not contain %q", err, tt.want)
			}
			if strings.Contains(tt.name, "taken") && !strings.Contains(err.Error(), "is another sandbox running?") {
				t.Errorf("error %q does not say who may have the address", err)
			}
		})
	}
}

func TestCloseTwiceAndMidRequest(t *testing.T) {
	s := start(t, sandbox.Options{})
	arrived := make(chan struct{})
	s.AddFault(sandbox.Fault{Latency: time.Hour, Match: func(sandbox.Request) bool { close(arrived); return true }})
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = try(t, s, ask{method: "GET", path: "/organizations"}) })
	<-arrived
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error("second:", err)
	}
	wg.Wait()
}

func TestSettings(t *testing.T) {
	s := start(t, sandbox.Options{RedisAddr: "127.0.0.1:0", Rate: 2.5, Burst: 7, MaxClients: 10})
	want := []string{
		"ORGOPS_BASE_URL=" + s.AuthURL() + "/api/v2",
		"ORGOPS_AUTH_URL=" + s.AuthURL(),
		"ORGOPS_CLIENT_ID=" + s.ClientID(),
		"ORGOPS_CLIENT_SECRET=" + s.ClientSecret(),
		"ORGOPS_RESOLVERS=" + strings.Join(s.DNSAddrs(), ","),
		"ORGOPS_DNS_MODE=resolvers",
		"ORGOPS_REDIS_URL=" + s.RedisURL(),
		"ORGOPS_RATE=2.5/s",
		"ORGOPS_BURST=7",
		"ORGOPS_MAX_CLIENTS_PER_REQUEST=10",
	}
	if diff := cmp.Diff(want, s.Settings()); diff != "" {
		t.Error(diff)
	}
	bare := start(t, sandbox.Options{})
	if diff := cmp.Diff(7, len(bare.Settings())); diff != "" {
		t.Error(bare.Settings(), diff)
	}
}

func TestUnspecifiedAddressIsCalledAtLoopback(t *testing.T) {
	s := start(t, sandbox.Options{APIAddr: ":0", DNSAddr: ":0"})
	if !strings.HasPrefix(s.BaseURL(), "http://127.0.0.1:") || !strings.HasPrefix(s.DNSAddr(), "127.0.0.1:") {
		t.Error(s.BaseURL(), s.DNSAddr())
	}
	if got := do(t, s, ask{method: "GET", path: "/organizations"}); got.status != http.StatusOK {
		t.Error(got)
	}
}

func TestRedis(t *testing.T) {
	s := start(t, sandbox.Options{RedisAddr: "127.0.0.1:0"})
	options, err := redis.ParseURL(s.RedisURL())
	if err != nil {
		t.Fatal(err)
	}
	options.DisableIdentity = true
	rdb := redis.NewClient(options)
	defer func() {
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := rdb.Set(t.Context(), "k", "v", time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	// The time to live decreases with the clock.
	for rdb.Exists(t.Context(), "k").Val() != 0 {
		if t.Context().Err() != nil {
			t.Fatal("key never expired")
		}
	}
	if start(t, sandbox.Options{}).RedisURL() != "" {
		t.Error("a Redis that was not asked for")
	}
}

func TestSameSeedSameNames(t *testing.T) {
	made := func(seed uint64) []byte {
		s := start(t, sandbox.Options{Seed: seed})
		sample := s.Seed()
		return bytes.Join([][]byte{[]byte(s.ClientID()), sample.Domains, sample.Clients, sample.Templates}, nil)
	}
	one := made(1)
	if !bytes.Equal(one, made(1)) {
		t.Error("the same seed gave other names")
	}
	if bytes.Equal(one, made(2)) {
		t.Error("another seed gave the same names")
	}
}
