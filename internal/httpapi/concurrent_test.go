package httpapi_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"orgops/internal/httpapi"
	"orgops/internal/ledger"
)

// TestSameSubmissionConcurrently has one submission sent by many at once: one run, each row once.
// The requests that began before the last one may get a 409.
func TestSameSubmissionConcurrently(t *testing.T) {
	w := newWorld(t)
	for _, test := range []struct {
		key           string
		rows, senders int
	}{
		{"stored-at-the-end", 100, 6}, // as many as one caller may have
		{"stored-as-they-arrive", manyRows, 3},
	} {
		body := rows(test.rows)
		var senders sync.WaitGroup
		var mu sync.Mutex
		ids := map[string]int{}
		for range test.senders {
			senders.Go(func() {
				got := w.do(call{method: "POST", path: "/v1/runs/" + w.kind, token: billing, key: test.key, body: body})
				if got.StatusCode == 409 {
					got.want(t, 409, "state")
					got = w.do(call{method: "POST", path: "/v1/runs/" + w.kind, token: billing, key: test.key, body: body})
				}
				if got.StatusCode == 409 {
					return
				}
				got.want(t, 202, "")
				mu.Lock()
				defer mu.Unlock()
				ids[got.run(t).Run]++
			})
		}
		senders.Wait()
		if len(ids) != 1 {
			t.Fatalf("runs %v, want one", ids)
		}
		for id := range ids {
			w.holdsOnce(id, test.rows)
		}
	}
}

// TestInterleaved has two requests with one key and the same rows: the second ends the first.
func TestInterleaved(t *testing.T) {
	w := newWorld(t)
	all := rows(2 * manyRows)
	first := w.upload("k").send(all[:len(all)*2/3])
	first.stored(1)
	second := w.upload("k").send(all).answer()
	second.want(t, 202, "")
	first.send(all[len(all)*2/3:]).answer().want(t, 409, "state")
	w.holdsOnce(second.run(t).Run, 2*manyRows)
}

// TestSameKeyOtherRowsConcurrently has two requests with one key and different rows: the one that
// began last is carried out.
func TestSameKeyOtherRowsConcurrently(t *testing.T) {
	start := func(t *testing.T, hook *commands) (w *world, some, other string) {
		return newWorld(t, hook.of(t)), rows(manyRows), strings.ReplaceAll(rows(3*manyRows), "org_", "org_other")
	}
	t.Run("while the rows arrive", func(t *testing.T) {
		w, some, other := start(t, &commands{})
		first := w.upload("k").send(some)
		first.stored(1)
		second := w.upload("k").send(other)
		id := second.stored(2)
		first.answer().want(t, 409, "state")
		second.answer().want(t, 202, "")
		again := w.do(call{method: "POST", path: "/v1/runs/" + w.kind, token: billing, key: "k", body: some})
		again.want(t, 422, "key-reused")
		w.holdsOnce(id, 3*manyRows)
	})
	t.Run("while the first one ends", func(t *testing.T) {
		hook := &commands{}
		w, some, other := start(t, hook)
		first := w.upload("k").send(some)
		first.stored(1)
		held, release := make(chan struct{}, 100), make(chan struct{})
		hook.set(func(_ int, name string) error {
			if name == "evalsha" {
				held <- struct{}{}
				<-release
			}
			return nil
		})
		_ = first.rest.Close()
		<-held
		hook.heal()
		second := w.upload("k").send(other)
		second.stored(3)
		close(release)
		first.answer().want(t, 409, "state")
		second.answer().want(t, 202, "")
	})
	t.Run("one is committed first", func(t *testing.T) {
		w, some, other := start(t, &commands{})
		first := w.upload("k").send(some)
		id := first.stored(1)
		w.do(call{method: "POST", path: "/v1/runs/" + w.kind, token: billing, key: "k", body: other}).want(t, 202, "")
		first.answer().want(t, 409, "state")
		w.holdsOnce(id, 3*manyRows)
	})
}

// TestSameKeyOtherLabelConcurrently has two first requests with one key and another label, both of
// which find no run before they read the rows.
func TestSameKeyOtherLabelConcurrently(t *testing.T) {
	hook, begun := &commands{}, atomic.Int32{}
	hook.set(func(_ int, name string) error {
		if name == "smembers" {
			begun.Add(1)
		}
		return nil
	})
	w := newWorld(t, hook.of(t))
	w.kind = "domain:verify?label=one"
	first := w.upload("k").send(rows(3))
	w.eventually(func() bool { return begun.Load() == 1 })
	w.kind = "domain:verify?label=two"
	second := w.upload("k").send(rows(3))
	w.eventually(func() bool { return begun.Load() == 2 })
	first.answer().want(t, 202, "")
	second.answer().want(t, 422, "key-reused")
}

// TestHeldBytes checks that the rows of a caller's uploads in progress are bounded, and leave room
// for those of others.
func TestHeldBytes(t *testing.T) {
	// Two of the largest bodies are the limit. A small one leaves room for both while they arrive.
	largest := rows(20)
	w := newWorld(t, func(c *httpapi.Config) { c.Limits.MaxBytes = int64(len(largest)) })
	held := []*upload{w.upload("a").send(largest), w.upload("b").send(largest)}
	try := func(token, tenant string) response {
		path := "/v1/runs/domain:verify?tenant=" + tenant
		return w.do(call{method: "POST", path: path, token: token, key: "k", body: rows(1)})
	}
	w.eventually(func() bool { return try(billing, "acme").StatusCode == 429 })
	got := try(billing, "acme")
	got.want(t, 429, "busy")
	if got.Header.Get("Retry-After") == "" || !strings.Contains(got.body, "bytes in progress") {
		t.Errorf("the refusal lacks the time or the reason: %v %s", got.Header, got.body)
	}
	try(crm, "acme").want(t, 202, "")
	for _, u := range held {
		u.cut()
	}
	w.eventually(func() bool { return try(billing, "acme").StatusCode == 202 })
}

// TestCancelledOnTheWay has a run cancelled while its rows arrive.
func TestCancelledOnTheWay(t *testing.T) {
	w := newWorld(t)
	u := w.upload("k").send(rows(manyRows))
	id := u.stored(1)
	got := w.do(call{method: "POST", path: "/v1/runs/" + id + "/cancel", token: billing})
	got.want(t, 200, "")
	if got.run(t).CancelledAt.IsZero() || got.run(t).State != "ended" {
		t.Errorf("run %+v, want it cancelled", got.run(t))
	}
	u.answer().want(t, 409, "state")
	r, err := w.ledger.Get(t.Context(), "", ledger.RunID(id))
	if err != nil || r.Total() != 0 || r.CancelledAt.IsZero() {
		t.Errorf("run %+v, %v; want it cancelled without rows", r, err)
	}
	w.do(call{method: "POST", path: "/v1/runs/" + w.kind, token: billing, key: "k", body: rows(3)}).want(t,
		409, "state")
}

// TestCancelledRetry: the retry of a retry that was cancelled is the cancelled run.
func TestCancelledRetry(t *testing.T) {
	w := newWorld(t)
	id := w.submit("k", rows(2)).Run
	w.settle(id, "expired", "not there", 0, 1)
	c := call{method: "POST", path: "/v1/runs/" + id + "/retry", token: billing, key: "r"}
	got := w.do(c)
	got.want(t, 202, "")
	w.do(call{method: "POST", path: "/v1/runs/" + got.run(t).Run + "/cancel", token: billing}).want(t, 200, "")
	again := w.do(c)
	again.want(t, 200, "")
	if again.run(t).Run != got.run(t).Run || again.run(t).CancelledAt.IsZero() {
		t.Errorf("run %+v; want %s, cancelled", again.run(t), got.run(t).Run)
	}
}
