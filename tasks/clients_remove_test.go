package tasks_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"orgops/internal/sandbox"
	"orgops/tasks"
)

// clients are n client ids; those at bad are told by their names.
func clients(n int, bad ...int) (ids []string) {
	for i := range n {
		id := fmt.Sprintf("client_%03d", i)
		if slices.Contains(bad, i) {
			id = fmt.Sprintf("bad_%03d", i)
		}
		ids = append(ids, id)
	}
	return ids
}

// refuseBad has the API refuse every removal that names a bad client.
func (w *world) refuseBad() {
	isBad := func(c string) bool { return strings.HasPrefix(c, "bad_") }
	w.sandbox.AddFault(sandbox.Fault{
		Operation: sandbox.OpRemoveOrganizationClients,
		Match:     func(r sandbox.Request) bool { return slices.ContainsFunc(r.Clients, isBad) },
		Status:    http.StatusBadRequest,
		Body:      `{"statusCode":400,"error":"Bad Request","message":"Payload validation error: no such client","errorCode":"invalid_body"}`,
	})
}

func upTo(n int) (numbers []int) {
	for i := range n {
		numbers = append(numbers, i)
	}
	return numbers
}

// TestBadClients: the good ones of a batch never fail with the bad ones.
func TestBadClients(t *testing.T) {
	for _, test := range []struct {
		name string
		bad  []int
		most int // requests
	}{
		{"one", []int{37}, 16},
		{"the first", []int{0}, 16},
		{"two far apart", []int{3, 96}, 30},
		{"two neighbours", []int{50, 51}, 30},
		{"every other", slices.DeleteFunc(upTo(100), func(i int) bool { return i%2 == 0 }), 210},
		{"all", upTo(100), 210}, // 199, and what two executions before began in vain
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			all := clients(100, test.bad...)
			w.sandbox.AddClients(org, all...)
			w.refuseBad()
			run := w.submit(tasks.TypeRemove, w.removals(all...)...)
			for sent := 0; w.step() != nil; sent = len(w.requests()) {
				if n := len(w.requests()) - sent; n > 64 {
					t.Errorf("%d requests in one execution, want at most 64", n)
				}
			}
			r := w.wantEnded(run)
			if r.Counts["refused"] != int64(len(test.bad)) || r.Counts["done"] != int64(100-len(test.bad)) {
				t.Errorf("counts %v, want %d refused and the rest done", r.Counts, len(test.bad))
			}
			for i, c := range all {
				if slices.Contains(test.bad, i) {
					w.wantFate(run, int64(i), "refused", "no such client")
				} else {
					w.wantFate(run, int64(i), "done")
				}
				if there := slices.Contains(w.sandbox.Clients(org), c); there != slices.Contains(test.bad, i) {
					t.Errorf("%s is there: %t", c, there)
				}
			}
			if n := len(w.requests()); n > test.most {
				t.Errorf("%d requests, want at most %d", n, test.most)
			}
			if batch := w.queue.byType(tasks.TypeRemove)[0]; batch.retried != 0 {
				t.Errorf("%d attempts counted, want none", batch.retried)
			}
			// What is wrong with a client says nothing of the limit.
			more := clients(100)
			again := w.submit(tasks.TypeRemove, w.removals(more...)...)
			before := len(w.requests())
			w.drain()
			w.wantEnded(again)
			if n := len(w.requests()) - before; len(test.bad) == 1 && n != 1 {
				t.Errorf("a batch of good clients took %d requests, want 1", n)
			}
		})
	}
}

// TestLimitIsFound: a tenant that takes fewer clients at once is found out once, and
// every later batch, of whatever worker, keeps to it.
func TestLimitIsFound(t *testing.T) {
	for _, test := range []struct {
		takes, limit int // of the tenant, and what is found of it
		first        int // requests of the batch that finds it
	}{
		{99, 50, 3}, {50, 50, 3}, {30, 25, 7}, {10, 10, 16}, {8, 5, 30}, {7, 5, 30}, {1, 1, 150},
	} {
		t.Run(fmt.Sprint(test.takes), func(t *testing.T) {
			m := &meter{}
			w := newWorld(t, func(s *settings) { s.sandbox.MaxClients, s.tasks.Meter = test.takes, m })
			all := clients(200)
			w.sandbox.AddClients(org, all...)
			found := w.submit(tasks.TypeRemove, w.removals(all[:100]...)...)
			w.drain()
			if r := w.wantEnded(found); r.Counts["done"] != 100 {
				t.Errorf("counts %v, want all done", r.Counts)
			}
			if n := len(w.requests()); n > test.first {
				t.Errorf("%d requests to find it, want at most %d", n, test.first)
			}
			before, lines := len(w.requests()), strings.Count(w.log.String(), "clients per request lowered")
			w.reboot() // another worker
			kept := w.submit(tasks.TypeRemove, w.removals(all[100:]...)...)
			w.drain()
			if r := w.wantEnded(kept); r.Counts["done"] != 100 || len(w.sandbox.Clients(org)) > 0 {
				t.Errorf("counts %v, and %d clients left; want all done", r.Counts, len(w.sandbox.Clients(org)))
			}
			want := (100 + test.limit - 1) / test.limit
			if n := len(w.requests()) - before; n != want {
				t.Errorf("%d requests where the limit is known, want %d", n, want)
			}
			if now := strings.Count(w.log.String(), "clients per request lowered"); lines == 0 || now != lines {
				t.Errorf("told %d times as it was found, then %d times", lines, now-lines)
			}
			if said := fmt.Sprintf("default clients_per_request %d", test.limit); !slices.Contains(m.told, said) || m.told[len(m.told)-2] != said {
				t.Errorf("the meter was told %q, want %q at the end", m.told, said)
			}
		})
	}
}

// TestLimitIsNotLowered: a request that fails whole says nothing of the limit
// unless both its halves are taken.
func TestLimitIsNotLowered(t *testing.T) {
	for _, bad := range [][]int{{37}, {3, 96}, {50, 51}, upTo(100)} {
		t.Run(fmt.Sprint(len(bad)), func(t *testing.T) {
			w := newWorld(t)
			w.refuseBad()
			w.submit(tasks.TypeRemove, w.removals(clients(100, bad...)...)...)
			w.drain()
			if limit, err := w.config.ClientLimit.InUse(t.Context(), 100); err != nil || limit != 100 {
				t.Errorf("the limit is %d, %v; want 100", limit, err)
			}
			if strings.Contains(w.log.String(), "fewer clients") {
				t.Error("told that it was lowered")
			}
		})
	}
}

// TestTooLarge: 413 is taken apart as 400 is.
func TestTooLarge(t *testing.T) {
	w := newWorld(t)
	w.sandbox.AddFault(sandbox.Fault{Match: func(r sandbox.Request) bool { return len(r.Clients) > 30 }, Status: http.StatusRequestEntityTooLarge})
	run := w.submit(tasks.TypeRemove, w.removals(clients(100)...)...)
	w.sandbox.AddClients(org, clients(100)...)
	w.drain()
	if r := w.wantEnded(run); r.Counts["done"] != 100 {
		t.Errorf("counts %v, want all done", r.Counts)
	}
	if n := len(w.requests()); n > 7 {
		t.Errorf("%d requests, want at most 7", n)
	}
}

// TestOtherRefusalsAreNotTakenApart: what is no matter of the body is asked once.
func TestOtherRefusalsAreNotTakenApart(t *testing.T) {
	for _, test := range []struct {
		name  string
		fault sandbox.Fault
		says  []string
	}{
		{"organization is gone", sandbox.Fault{}, []string{org, "does not exist", "No organization found"}},
		{"path", sandbox.Fault{Status: 400, Body: `{"statusCode":400,"error":"Bad Request","message":"Path validation error","errorCode":"invalid_uri"}`}, []string{"Path validation error"}},
		{"forbidden", status(http.StatusForbidden), []string{"403"}},
		{"conflict", status(http.StatusConflict), []string{"409"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			if test.fault.Status != 0 {
				w.sandbox.AddFault(test.fault)
			}
			run := w.submit(tasks.TypeRemove, w.removals(clients(100)...)...)
			w.drain()
			if r := w.wantEnded(run); r.Counts["refused"] != 100 {
				t.Errorf("counts %v, want all refused", r.Counts)
			}
			w.wantFate(run, 0, "refused", test.says...)
			w.wantFate(run, 99, "refused", test.says...)
			if n := len(w.requests()); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
}

func TestSameClientTwice(t *testing.T) {
	w := newWorld(t)
	w.sandbox.AddClients(org, "a", "b")
	run := w.submit(tasks.TypeRemove, w.removals("a", "b", "a", "a")...)
	w.drain()
	if r := w.wantEnded(run); r.Counts["done"] != 4 {
		t.Errorf("counts %v, want 4 done", r.Counts)
	}
	if got := w.requests(); len(got) != 1 || !slices.Equal(got[0].Clients, []string{"a", "b"}) {
		t.Errorf("requests %v, want one that names each client once", got)
	}
}

// TestSettledRowsAreLeftOut: also one that an operator has cancelled stays so.
func TestSettledRowsAreLeftOut(t *testing.T) {
	w := newWorld(t)
	w.sandbox.AddClients(org, clients(4)...)
	run := w.submit(tasks.TypeRemove, w.removals(clients(4)...)...)
	for item, outcome := range map[int64]string{1: "refused", 2: "cancelled"} {
		if err := w.ledger.Settle(t.Context(), run, tasks.TypeRemove, 0, []int64{item}, outcome, "by hand"); err != nil {
			t.Fatal(err)
		}
	}
	w.drain()
	w.wantEnded(run)
	if got := w.requests(); len(got) != 1 || !slices.Equal(got[0].Clients, []string{"client_000", "client_003"}) {
		t.Errorf("requests %v, want one without the clients of the settled rows", got)
	}
	for item, outcome := range []string{"done", "refused", "cancelled", "done"} {
		w.wantFate(run, int64(item), outcome)
	}
}

// TestStopsInTheMiddle: what was removed is settled, the rest goes on later and
// no attempt is counted.
func TestStopsInTheMiddle(t *testing.T) {
	w := newWorld(t, func(s *settings) { s.tasks.MaxClientsPerRequest = 10 })
	w.sandbox.AddClients(org, clients(100)...)
	run := w.submit(tasks.TypeRemove, w.removals(clients(100)...)...)
	stop := w.stopping
	w.sandbox.AddFault(sandbox.Fault{Skip: 2, Count: 1, Match: func(r sandbox.Request) bool {
		if len(w.requests()) == 3 {
			close(stop)
		}
		return false
	}})
	n := w.step()
	if n.state != "" || n.retried != 0 || len(w.requests()) != 3 {
		t.Fatalf("state %q, %d attempts, %d requests: want it open after 3 requests, no attempt counted", n.state, n.retried, len(w.requests()))
	}
	w.wantFate(run, 29, "done")
	w.wantFate(run, 30, "open")
	w.reboot()
	w.drain()
	if r := w.wantEnded(run); r.Counts["done"] != 100 {
		t.Errorf("counts %v, want all done", r.Counts)
	}
	if n := len(w.requests()); n != 10 {
		t.Errorf("%d requests, want 10: what was removed is not removed again", n)
	}
}
