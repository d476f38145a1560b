package deliveries_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"orgops/internal/deliveries"
	"orgops/internal/queues"
	"orgops/internal/redistest"
	"orgops/internal/webhooks"
)

// TestSlowReceiversDelayNoOther sends events at 50 a second to a receiver, alone and next to two
// others: one that answers after 14 s, and one whose answers never end. It logs how long deliveries
// to the first one took.
func TestSlowReceiversDelayNoOther(t *testing.T) {
	redistest.NeedsLong(t, "it takes half a minute")
	const count, each = 500, 20 * time.Millisecond
	for name, to := range map[string][]string{"alone": {"healthy"}, "beside": {"healthy", "slow", "dripping"}} {
		t.Run(name, func(t *testing.T) {
			took := trial(t, count, each, to...)
			if len(took) != count {
				t.Errorf("%d of %d events were delivered to the healthy receiver", len(took), count)
			}
			t.Logf("p50 %v, p99 %v", took[len(took)/2], took[len(took)*99/100])
		})
	}
}

// trial returns the times from event to delivery at the receiver healthy, in order.
func trial(t *testing.T, count int, each time.Duration, names ...string) (took []time.Duration) {
	var mu sync.Mutex
	sent, ended := map[string]time.Time{}, make(chan struct{})
	handlers := map[string]http.HandlerFunc{
		"healthy": func(_ http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(sent[r.Header.Get("Webhook-Id")]))
		},
		"slow": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			select {
			case <-time.After(14 * time.Second):
			case <-ended:
			}
		},
		"dripping": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, ".")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(50 * time.Millisecond)
			}
		},
	}
	var file strings.Builder
	file.WriteString("endpoints:\n")
	for _, name := range names {
		server := httptest.NewServer(handlers[name])
		t.Cleanup(server.Close)
		fmt.Fprintf(&file, "  - {name: %s, url: '%s', secret_env: HOOK, allow_private: true}\n", name, server.URL)
	}
	t.Cleanup(func() { close(ended) })
	path := filepath.Join(t.TempDir(), "hooks.yaml")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	endpoints, err := webhooks.ReadEndpoints(path, func(string) string { return "whsec_" + strings.Repeat("AAAA", 11) })
	if err != nil {
		t.Fatal(err)
	}
	sender, err := webhooks.NewSender(webhooks.Config{Endpoints: endpoints})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sender.Close)
	rdb := redistest.Open(t)
	w := newWorldIn(t, rdb, receivers{}, 10_000)
	w.cfg.Receivers = sender
	for _, name := range names {
		server := queues.NewServer(rdb, queues.Queue{Name: deliveries.Queue("acme", name), Tenant: "acme",
			Config: deliveries.ServerConfig()}, time.Second, slog.New(slog.DiscardHandler))
		if err := server.Start(deliveries.NewHandler(w.cfg)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Shutdown)
	}
	n := deliveries.NewNotifier(w.cfg)
	start := time.Now()
	for i := range count {
		time.Sleep(time.Until(start.Add(time.Duration(i) * each)))
		id := fmt.Sprintf("event-%03d", i)
		mu.Lock()
		sent[id] = time.Now()
		mu.Unlock()
		w.notify(n, id)
	}
	await(t, "the deliveries", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(took) >= count
	})
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(took)
	return took
}
