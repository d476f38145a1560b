package deliveries_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"orgops/internal/deliveries"
	"orgops/internal/queues"
	"orgops/internal/redistest"
)

// states reads the endpoints, without times, which must be those of attempts.
func (w *world) states(names ...string) []deliveries.EndpointState {
	w.t.Helper()
	all, err := deliveries.ReadEndpoints(w.t.Context(), w.rdb, "acme", names...)
	if err != nil {
		w.t.Fatal(err)
	}
	for i, e := range all {
		if (e.Failure != "") == e.FailedAt.IsZero() {
			w.t.Errorf("endpoint %s: failed at %s: %q", e.Name, e.FailedAt, e.Failure)
		}
		all[i].FailedAt = time.Time{}
		if !e.FailingSince.IsZero() {
			all[i].FailingSince = at
		}
		all[i].Queue.Name, all[i].Queue.Latency = "", 0
		if !e.DeliveredAt.IsZero() {
			all[i].DeliveredAt = at
		}
	}
	return all
}

// TestState follows an endpoint through a failure, a delivery and a 410.
func TestState(t *testing.T) {
	var answer error
	w := newWorld(t, crm(func(string, string, time.Time, []byte) error { return answer }), 10)
	want := func(when string, want ...deliveries.EndpointState) {
		t.Helper()
		if diff := cmp.Diff(want, w.states("desk")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	desk := deliveries.EndpointState{Name: "desk"}
	want("at first", desk)
	n := deliveries.NewNotifier(w.cfg)
	w.notify(n, "event-001")
	w.serve()
	await(t, "the delivery", func() bool { return len(w.states()) == 1 && w.states()[0].Queue.Processed == 1 })
	crm := deliveries.EndpointState{Name: "crm", DeliveredAt: at, Queue: queues.State{Processed: 1}}
	want("delivered", desk, crm)
	answer = attemptError(attempt{Permanent: true, Status: 410})
	w.notify(n, "event-002")
	await(t, "the 410", func() bool { return w.states()[0].Queue.Archived == 1 })
	w.notify(n, "event-003")
	crm.Failure, crm.Gone = "webhook endpoint crm: it answered 503", true
	crm.FailingSince = at
	crm.Queue = queues.State{Processed: 2, Failed: 1, Archived: 1, Pending: 1, Paused: true}
	want("after a 410", desk, crm)
	counted, err := deliveries.Count(t.Context(), w.rdb, "acme")
	since := counted.Failing["crm"].Since
	if diff := cmp.Diff(deliveries.Counted{Waiting: 1, GivenUp: 1, Failing: map[string]deliveries.Failing{
		"crm": {Since: since, Reason: "webhook endpoint crm: it answered 503"}}}, counted); diff != "" || since.IsZero() ||
		err != nil {
		t.Errorf("%v; counted (-want +got):\n%s", err, diff)
	}
	if _, err := deliveries.Resend(t.Context(), w.rdb, "acme", "desk", deliveries.GivenUp); err == nil ||
		!strings.Contains(err.Error(), `"desk" of tenant acme had no deliveries`) {
		t.Errorf("send again to an endpoint without deliveries: %v", err)
	}
	answer = nil
	if n, err := deliveries.Resend(t.Context(), w.rdb, "acme", "crm", deliveries.GivenUp); n != 1 || err != nil {
		t.Errorf("%d are sent again, %v", n, err)
	}
	await(t, "the deliveries", func() bool {
		return w.states()[0].Queue.Processed == 4 && w.states()[0].Waiting() == 0
	})
	crm.Gone, crm.Queue = false, queues.State{Processed: 4, Failed: 1}
	crm.FailingSince = time.Time{}
	want("sent again", desk, crm)
}

// TestStateOfIDsWithoutTasks: an id whose task is gone, for whose memory Redis has no answer, hides
// no endpoint's state.
func TestStateOfIDsWithoutTasks(t *testing.T) {
	w := newWorld(t, crm(nil), 10)
	w.notify(deliveries.NewNotifier(w.cfg), "event-001")
	ghost := redis.Z{Score: 2e9, Member: "ghost"}
	if err := w.rdb.ZAdd(t.Context(), "asynq:{acme.webhook.crm}:retry", ghost).Err(); err != nil {
		t.Fatal(err)
	}
	want := []deliveries.EndpointState{{Name: "crm", Queue: queues.State{Pending: 1, Retry: 1}}}
	if diff := cmp.Diff(want, w.states("crm")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestReopen: an endpoint that answered 410 gets deliveries again once its settings have changed;
// endpoints that the file no longer has are named.
func TestReopen(t *testing.T) {
	to := receivers{wants: map[string][]string{"crm": {"domain.lost"}, "desk": {"domain.lost"}},
		attempt: func(string, string, time.Time, []byte) error {
			return attemptError(attempt{Permanent: true, Status: 410})
		}}
	w := newWorld(t, to, 10)
	w.notify(deliveries.NewNotifier(w.cfg), "event-001")
	h := deliveries.NewHandler(w.cfg)
	for _, endpoint := range []string{"crm", "desk"} {
		if err := w.process(h, "webhook-acme-"+endpoint+"-event-001"); err == nil {
			t.Fatal("delivered")
		}
	}
	reopen := func(settings, others string) {
		t.Helper()
		w.cfg.Receivers = receivers{wants: map[string][]string{"crm": {"domain.lost"}}, settings: settings}
		got, err := deliveries.Reopen(t.Context(), w.cfg)
		if err != nil || strings.Join(got, " ") != others {
			t.Errorf("other endpoints %q, %v, want %q", got, err, others)
		}
	}
	reopen("", "desk")
	if all := w.states(); !all[0].Gone || !all[0].Queue.Paused {
		t.Errorf("resumed with the same settings: %+v", all[0])
	}
	reopen(", changed", "desk")
	if all := w.states(); all[0].Gone || all[0].Queue.Paused || !all[1].Queue.Paused {
		t.Errorf("not resumed with other settings: %+v", all)
	}
}

// TestReopenIsRepeated: an endpoint whose queue could not be resumed remains one that has answered
// 410, so that the next attempt resumes it. Otherwise its events would wait for ever.
func TestReopenIsRepeated(t *testing.T) {
	w := newWorld(t, crm(func(string, string, time.Time, []byte) error {
		return attemptError(attempt{Permanent: true, Status: 410})
	}), 10)
	w.notify(deliveries.NewNotifier(w.cfg), "event-001")
	if err := w.process(deliveries.NewHandler(w.cfg), "webhook-acme-crm-event-001"); err == nil {
		t.Fatal("delivered")
	}
	w.cfg.Receivers = receivers{wants: map[string][]string{"crm": {"domain.lost"}}, settings: ", changed"}
	refused := errors.New("LOADING Redis is loading the dataset in memory")
	var refuse atomic.Bool
	w.rdb.AddHook(redistest.Around(func(_ context.Context, run func() error, cmds ...redis.Cmder) error {
		if refuse.Load() && cmds[0].Name() == "del" {
			return refused
		}
		return run()
	}))
	for name, reopen := range map[string]func() error{
		"other settings": func() error { _, err := deliveries.Reopen(t.Context(), w.cfg); return err },
		"sent again": func() error {
			_, err := deliveries.Resend(t.Context(), w.rdb, "acme", "crm", deliveries.GivenUp)
			return err
		},
	} {
		refuse.Store(true)
		if err := reopen(); !errors.Is(err, refused) || !strings.Contains(err.Error(), "endpoint crm") {
			t.Errorf("%s: error %v, want that of Redis, with the endpoint", name, err)
		}
		if all := w.states(); !all[0].Gone || !all[0].Queue.Paused {
			t.Errorf("%s, refused: %+v", name, all[0])
		}
	}
	refuse.Store(false)
	if _, err := deliveries.Reopen(t.Context(), w.cfg); err != nil {
		t.Fatal(err)
	}
	if all := w.states(); all[0].Gone || all[0].Queue.Paused {
		t.Errorf("not resumed by the second attempt: %+v", all[0])
	}
}

// TestOneLineAMinute: executions of an outcome have a line a minute for each endpoint, with their
// number.
func TestOneLineAMinute(t *testing.T) {
	var answer error
	w := newWorld(t, crm(func(string, string, time.Time, []byte) error { return answer }), 10)
	now := time.Now()
	w.cfg.Now = func() time.Time { return now }
	w.notify(deliveries.NewNotifier(w.cfg), ids(1, 4)...)
	w.log.Reset()
	h := deliveries.NewHandler(w.cfg)
	run := func(id string) { _ = w.process(h, "webhook-acme-crm-"+id) }
	run("event-001")
	run("event-002")
	answer = attemptError(attempt{})
	run("event-003")
	run("event-004")
	now = now.Add(time.Minute)
	run("event-004")
	var got []string
	for line := range strings.Lines(w.log.String()) {
		_, line, _ = strings.Cut(line, "endpoint=")
		line, _, _ = strings.Cut(line, " task_id")
		got = append(got, line)
	}
	want := []string{"crm outcome=done deliveries=1",
		"crm outcome=transient deliveries=1", "crm outcome=transient deliveries=2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

// TestFailingSince: a receiver fails since the first failed attempt after its last delivery.
func TestFailingSince(t *testing.T) {
	var answer error
	w := newWorld(t, crm(func(string, string, time.Time, []byte) error { return answer }), 10)
	now := at
	w.cfg.Now = func() time.Time { return now }
	n, h := deliveries.NewNotifier(w.cfg), deliveries.NewHandler(w.cfg)
	for i, step := range []struct {
		answer error
		since  time.Time
	}{
		{nil, time.Time{}},
		{attemptError(attempt{Status: 503}), at.Add(time.Minute)},
		{attemptError(attempt{Status: 503}), at.Add(time.Minute)},
		{nil, time.Time{}},
		{attemptError(attempt{Permanent: true, Status: 410}), at.Add(4 * time.Minute)},
	} {
		now = at.Add(time.Duration(i) * time.Minute)
		answer = step.answer
		event := fmt.Sprintf("event-%03d", i)
		w.notify(n, event)
		if err := w.process(h, "webhook-acme-crm-"+event); (err == nil) != (answer == nil) {
			t.Fatalf("attempt %d: %v", i, err)
		}
		all, err := deliveries.ReadEndpoints(t.Context(), w.rdb, "acme")
		if err != nil || len(all) != 1 || !all[0].FailingSince.Equal(step.since) {
			t.Errorf("after attempt %d: %+v, %v; want failing since %v", i, all, err, step.since)
		}
	}
}
