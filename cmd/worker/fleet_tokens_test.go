package main

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"orgops/internal/health"
	"orgops/internal/ledger"
	"orgops/internal/redisconn"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/internal/workers"
)

// idleWorker returns a worker of n tenants in the sandbox that has a session and serves no queue,
// and a function that ends the session.
func idleWorker(t *testing.T, box *sandbox.Sandbox, redis string, n int, secret string) (w *worker, end func()) {
	t.Helper()
	w, err := newWorker(t.Context(), settings{}, redisconn.Config{URL: redis, AllowURLPassword: true},
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	serveSandbox(t, w, box, secret, n)
	w.order = workers.New(w.about, ledger.New(w.permits).Sessions, w.logger)
	if end, err = w.beginSession(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	return w, end
}

// fetchTokens has the worker read its places and fetch the missing tokens, until done reports
// true or all are fetched.
func fetchTokens(t *testing.T, w *worker, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := w.order.Read(ctx); err != nil {
		t.Fatal(err)
	}
	var fetches sync.WaitGroup
	w.fetchTokens(ctx, &fetches)
	if done != nil {
		await(t, "the fetches", done)
		cancel()
	}
	fetches.Wait()
}

// places counts the tenants whose tokens the worker fetches before they are needed.
func places(w *worker) (n int) {
	for _, tn := range w.tenants() {
		if w.awaitsToken(tn) {
			n++
		}
	}
	return n
}

func tokenRequests(box *sandbox.Sandbox) (n int) {
	for _, r := range box.Requests() {
		if r.Operation == sandbox.OpToken {
			n++
		}
	}
	return n
}

// TestFleetTokens checks that the first two workers of each tenant fetch its token, and that
// those which replace a leaving worker do. All are ready.
func TestFleetTokens(t *testing.T) {
	t.Parallel()
	const size, tenants = 8, 5
	box, redis := startBox(t, sandbox.Options{}), redistest.URL(t)
	first, end := idleWorker(t, box, redis, tenants, box.ClientSecret())
	all := []*worker{first}
	for range size - 1 {
		w, _ := idleWorker(t, box, redis, tenants, box.ClientSecret())
		all = append(all, w)
	}
	settle := func(want int) {
		t.Helper()
		for _, w := range all {
			fetchTokens(t, w, nil)
			for _, tn := range w.tenants() {
				if f := health.Token(tn.Settings, tn.api.TokenHealth(), w.awaitsToken(tn)); f.Level == health.Wrong {
					t.Errorf("%s: %s", tn.Name, f.Text)
				} else if known := !tn.api.TokenHealth().GotAt.IsZero(); known == strings.Contains(f.Text, "not needed yet") {
					t.Errorf("%s: token fetched: %t, %q", tn.Name, known, f.Text)
				}
			}
		}
		if got := tokenRequests(box); got != want {
			t.Errorf("%d token requests, want %d", got, want)
		}
	}
	settle(tokenRanks * tenants)
	settle(tokenRanks * tenants)
	lost := places(first)
	end()
	if err := first.ledger.EndSession(t.Context(), first.session); err != nil { // end gives up after 3 s
		t.Fatal(err)
	}
	all = all[1:]
	settle(tokenRanks*tenants + lost)
}

// TestFleetTokensWrong checks that wrong credentials make an idle worker unready, if it is
// alone and if it starts next to a worker with the previous ones.
func TestFleetTokensWrong(t *testing.T) {
	t.Parallel()
	box := startBox(t, sandbox.Options{})
	for name, others := range map[string]int{"alone": 0, "next to another": 1} {
		t.Run(name, func(t *testing.T) {
			redis := redistest.URL(t)
			for range others {
				idleWorker(t, box, redis, 3, box.ClientSecret())
			}
			w, _ := idleWorker(t, box, redis, 3, "no such secret")
			each := func(ok func(text string) bool) bool {
				for _, tn := range w.tenants() {
					f := health.Token(tn.Settings, tn.api.TokenHealth(), w.awaitsToken(tn))
					if f.Level != health.Wrong || !ok(f.Text) {
						return false
					}
				}
				return true
			}
			if !each(func(text string) bool { return text == "not fetched yet" }) {
				t.Error("ready before the first token")
			}
			fetchTokens(t, w, func() bool {
				return each(func(text string) bool { return strings.Contains(text, "401") })
			})
		})
	}
}

// TestRefusedTokenRequests checks that a worker without work asks an endpoint that refuses its
// credentials, or is at another address, again after a pause, and not each time.
func TestRefusedTokenRequests(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusUnauthorized, http.StatusNotFound} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			box := startBox(t, sandbox.Options{})
			box.AddFault(sandbox.Fault{Operation: sandbox.OpToken, Status: status})
			w, _ := idleWorker(t, box, redistest.URL(t), 1, box.ClientSecret())
			fetchTokens(t, w, nil)
			once := tokenRequests(box) // a 404 is asked twice, also without the slash at the end
			fetchTokens(t, w, nil)
			if got := tokenRequests(box); got != once {
				t.Errorf("%d token requests before the pause has ended, want %d", got, once)
			}

			tn := w.tenants()[0]
			tn.tokenRefused = time.Now().Add(-tokenPause)
			fetchTokens(t, w, nil)
			if got := tokenRequests(box); got <= once {
				t.Errorf("%d token requests after the pause, want more than %d", got, once)
			}
		})
	}
}
