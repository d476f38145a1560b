package tasks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"orgops/tasks"
)

// hooks are endpoints of a test: who wants what, and what an attempt comes to.
type hooks struct {
	wants   map[string][]string // name -> types
	attempt func(endpoint, id string, at time.Time, body []byte) error
}

func (h hooks) Wanting(typ string) (names []string) {
	for name, types := range h.wants {
		if slices.Contains(types, typ) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (h hooks) Has(endpoint string) bool { return h.wants[endpoint] != nil }

func (h hooks) Deliver(_ context.Context, endpoint, id string, at time.Time, body []byte) error {
	return h.attempt(endpoint, id, at, body)
}

// attemptError is what an attempt comes to that did not deliver.
type attemptError struct {
	asked  time.Duration
	final  bool
	unsent bool
}

func (e attemptError) Error() string              { return "the receiver answered 503" }
func (e attemptError) AskedToWait() time.Duration { return e.asked }
func (e attemptError) Final() bool                { return e.final }
func (e attemptError) NotSent() bool              { return e.unsent }

// taken keeps what is enqueued, as asynq does: an id once.
type taken struct {
	tasks map[string]*asynq.Task
	opts  map[string][]asynq.Option
	fails error
}

func (q *taken) EnqueueContext(_ context.Context, task *asynq.Task, opts ...asynq.Option) (*asynq.TaskInfo, error) {
	var id string
	for _, o := range opts {
		if o.Type() == asynq.TaskIDOpt {
			id = o.Value().(string)
		}
	}
	if q.fails != nil {
		return nil, q.fails
	}
	if q.tasks[id] != nil {
		return nil, fmt.Errorf("enqueue: %w", asynq.ErrTaskIDConflict)
	}
	if q.tasks == nil {
		q.tasks, q.opts = map[string]*asynq.Task{}, map[string][]asynq.Option{}
	}
	q.tasks[id], q.opts[id] = task, opts
	return &asynq.TaskInfo{ID: id}, nil
}

var toldAt = time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC)

func lost() tasks.Notice {
	return tasks.Notice{ID: "domain.lost-ord_1-1795309323", Type: tasks.NoticeLost, At: toldAt, Data: tasks.NoticeData{
		OrganizationID: "org_1", DiscoveryDomainID: "ord_1", Domain: "example.com", Tick: 1795309200, Reason: "no TXT record", Since: toldAt.Add(-7 * 24 * time.Hour), Action: "pending",
	}}
}

// TestTell: a task for each endpoint that wants it, once; a line in the log; a count.
func TestTell(t *testing.T) {
	var log strings.Builder
	q, m := new(taken), new(meter)
	notices := tasks.NewNotices(tasks.NoticesConfig{
		Tenant: "acme", Enqueuer: q, Meter: m, Now: func() time.Time { return toldAt },
		Logger:   slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: withoutTime})),
		Webhooks: hooks{wants: map[string][]string{"crm": {tasks.NoticeLost}, "desk": {tasks.NoticeLost, tasks.NoticeVerified}, "other": {tasks.NoticeVerified}}},
	})
	for range 2 {
		if err := notices.Tell(t.Context(), lost()); err != nil {
			t.Fatal(err)
		}
	}
	ids := slices.Sorted(func(yield func(string) bool) {
		for id := range q.tasks {
			if !yield(id) {
				return
			}
		}
	})
	if want := []string{"webhook-acme-crm-domain_lost-ord_1-1795309323", "webhook-acme-desk-domain_lost-ord_1-1795309323"}; !slices.Equal(ids, want) {
		t.Fatalf("tasks %q, want %q", ids, want)
	}
	const event = `{"type":"domain.lost","timestamp":"2026-11-22T01:02:03Z","data":{"tenant":"acme","organization_id":"org_1","discovery_domain_id":"ord_1","domain":"example.com","tick":1795309200,"reason":"no TXT record","since":"2026-11-15T01:02:03Z","action":"pending"}}`
	want := `{"v":1,"tenant":"acme","created_at":"2026-11-22T01:02:03Z","endpoint":"crm","id":"domain_lost-ord_1-1795309323","event":` + event + `}`
	if diff := cmp.Diff(want, string(q.tasks[ids[0]].Payload())); diff != "" {
		t.Errorf("payload (-want +got):\n%s", diff)
	}
	for _, o := range q.opts[ids[0]] {
		if o.Type() == asynq.RetentionOpt && o.Value() != time.Hour || o.Type() == asynq.QueueOpt && o.Value() != "acme.webhook" {
			t.Errorf("option %v", o)
		}
	}
	const line = `level=ERROR msg=event event=domain.lost id=domain_lost-ord_1-1795309323 tenant=acme organization_id=org_1 discovery_domain_id=ord_1 domain=example.com reason="no TXT record" action=pending tick=1795309200 since=2026-11-15T01:02:03.000Z` + "\n"
	if got := log.String(); got != line+line {
		t.Errorf("log %s, want twice %s", got, line)
	}
	if diff := cmp.Diff([]string{"event acme domain.lost", "event acme domain.lost"}, m.told); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	q.fails = errors.New("no Redis")
	other := lost()
	other.ID = "other"
	if err := notices.Tell(t.Context(), other); err == nil || err.Error() != "notify endpoint crm of event other: no Redis" {
		t.Errorf("error %v", err)
	}
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// TestLevelsOfNotices: the more there is to do, the louder.
func TestLevelsOfNotices(t *testing.T) {
	want := map[string]string{
		tasks.NoticeVerified: "INFO", tasks.NoticeExpired: "WARN", tasks.NoticeAtRisk: "WARN", tasks.NoticeLost: "ERROR",
		tasks.NoticeRestored: "INFO", tasks.NoticeRunFinished: "INFO", tasks.NoticeBreakerOpen: "ERROR",
	}
	if len(want) != len(tasks.NoticeTypes) {
		t.Errorf("%d types, %d levels", len(tasks.NoticeTypes), len(want))
	}
	for _, typ := range tasks.NoticeTypes {
		var log strings.Builder
		notices := tasks.NewNotices(tasks.NoticesConfig{Tenant: "acme", Enqueuer: new(taken), Webhooks: hooks{}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err := notices.Tell(t.Context(), tasks.Notice{ID: "x", Type: typ, At: toldAt}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(log.String(), "level="+want[typ]+" msg=event event="+typ+" ") {
			t.Errorf("%s: %s", typ, log.String())
		}
	}
}

// TestDocumentsStaySmall: whatever a stranger's text is, 20 KiB are enough.
func TestDocumentsStaySmall(t *testing.T) {
	for name, text := range map[string]string{
		"long": strings.Repeat("ä", 20000), "control characters": strings.Repeat("\x00", 20000), "astral": strings.Repeat("\U0001F511", 20000), "no UTF-8": strings.Repeat("\xff", 20000),
	} {
		q := new(taken)
		notices := tasks.NewNotices(tasks.NoticesConfig{Tenant: "acme", Enqueuer: q, Webhooks: hooks{wants: map[string][]string{"crm": {tasks.NoticeLost}}}, Logger: slog.New(slog.DiscardHandler)})
		n := tasks.Notice{ID: "x", Type: tasks.NoticeLost, At: toldAt, Data: tasks.NoticeData{
			OrganizationID: text, DiscoveryDomainID: text, Domain: text, Run: text, Reason: text, Action: text, Kind: text, Counts: map[string]int64{"done": 1},
		}}
		if err := notices.Tell(t.Context(), n); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var p tasks.DeliverPayload
		if err := json.Unmarshal(q.tasks["webhook-acme-crm-x"].Payload(), &p); err != nil {
			t.Fatal(err)
		}
		if len(p.Event) > 20<<10 || !json.Valid(p.Event) {
			t.Errorf("%s: %d bytes, JSON %t", name, len(p.Event), json.Valid(p.Event))
		}
	}
}

// TestDeliver: what becomes of a delivery by what an attempt comes to.
func TestDeliver(t *testing.T) {
	const event = `{"type":"domain.lost"}`
	payload := func(change string) []byte {
		return []byte(`{"v":1,"tenant":"default","created_at":"2026-11-22T01:02:03Z","endpoint":"crm","id":"x","event":` + event + change + `}`)
	}
	for _, c := range []struct {
		name    string
		attempt error
		retried int
		age     time.Duration
		payload []byte
		outcome tasks.Outcome
		reason  string
		after   [2]time.Duration // from, to
		told    []string
	}{
		{name: "delivered", told: []string{"delivery default crm delivered", "default webhook:deliver done"}},
		{name: "the first attempt fails", attempt: attemptError{}, outcome: tasks.Transient, reason: "the receiver answered 503", after: [2]time.Duration{5 * time.Second, 7 * time.Second}, told: []string{"delivery default crm again", "default webhook:deliver transient"}},
		{name: "the fifth", attempt: attemptError{}, retried: 4, age: time.Hour, outcome: tasks.Transient, reason: "the receiver answered 503", after: [2]time.Duration{27 * time.Minute, 34 * time.Minute}, told: []string{"delivery default crm again", "default webhook:deliver transient"}},
		{name: "beyond the attempts of rows", attempt: attemptError{}, retried: 20, age: 60 * time.Hour, outcome: tasks.Transient, reason: "the receiver answered 503", after: [2]time.Duration{3*time.Hour + 36*time.Minute, 4*time.Hour + 25*time.Minute}, told: []string{"delivery default crm again", "default webhook:deliver transient"}},
		{name: "the receiver asks for more", attempt: attemptError{asked: 10 * time.Minute}, outcome: tasks.Transient, reason: "the receiver answered 503", after: [2]time.Duration{10 * time.Minute, 10*time.Minute + 2*time.Second}, told: []string{"delivery default crm again", "default webhook:deliver transient"}},
		{name: "time is up", attempt: attemptError{}, retried: 24, age: 71 * time.Hour, outcome: tasks.Failed, reason: "given up after 25 attempts in 71h0m0s; the last: the receiver answered 503", told: []string{"delivery default crm given_up", "default webhook:deliver failed"}},
		{name: "the receiver is left alone", attempt: attemptError{asked: 3500 * time.Millisecond, unsent: true}, retried: 5, age: time.Hour, outcome: tasks.Paced, reason: "the receiver answered 503", after: [2]time.Duration{3*time.Minute + 22*time.Second, 4*time.Minute + 8*time.Second}, told: []string{"default webhook:deliver paced"}},
		{name: "it is, for no time", attempt: attemptError{unsent: true}, outcome: tasks.Paced, reason: "the receiver answered 503", after: [2]time.Duration{time.Second, time.Second}, told: []string{"default webhook:deliver paced"}},
		{name: "it is, until time is up", attempt: attemptError{asked: time.Minute, unsent: true}, retried: 24, age: 72 * time.Hour, outcome: tasks.Failed, reason: "given up after 24 attempts in 72h0m0s; the last: the receiver answered 503", told: []string{"delivery default crm given_up", "default webhook:deliver failed"}},
		{name: "late, and it goes well", retried: 24, age: 100 * time.Hour, told: []string{"delivery default crm delivered", "default webhook:deliver done"}},
		{name: "no other would do", attempt: attemptError{final: true}, outcome: tasks.Failed, reason: "the receiver answered 503", told: []string{"delivery default crm given_up", "default webhook:deliver failed"}},
		{name: "its workers die", retried: 40, outcome: tasks.Failed, reason: "given up after 40 attempts; the last ones ended without an answer (its worker died, or the task ran out of time)", told: []string{"default webhook:deliver failed"}},
		{name: "unknown member", payload: payload(`,"more":1`), outcome: tasks.Invalid, reason: `payload: json: unknown field "more"`, told: []string{"default webhook:deliver invalid"}},
		{name: "another's", payload: []byte(strings.Replace(string(payload("")), `"default"`, `"other"`, 1)), outcome: tasks.Invalid, reason: `payload: a task of tenant "other" in a queue of tenant "default"`, told: []string{"default webhook:deliver invalid"}},
		{name: "of an endpoint that is not there", attempt: attemptError{}, payload: []byte(strings.Replace(string(payload("")), `"crm"`, `"\u0000x"`, 1)), outcome: tasks.Transient, reason: "the receiver answered 503", after: [2]time.Duration{5 * time.Second, 7 * time.Second}, told: []string{"delivery default unknown again", "default webhook:deliver transient"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, now := new(meter), toldAt.Add(c.age)
			w := hooks{wants: map[string][]string{"crm": {}}, attempt: func(_, id string, at time.Time, body []byte) error {
				if id != "x" || !at.Equal(now) || string(body) != event {
					t.Errorf("attempt to deliver %s at %s: %s", id, at, body)
				}
				return c.attempt
			}}
			mux := tasks.NewMux(tasks.Config{Tenant: "default", Webhooks: w, Meter: m, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }})
			body := c.payload
			if body == nil {
				body = payload("")
			}
			err := mux.Deliver(t.Context(), asynq.NewTask(tasks.TypeDeliver, body), "id", "default.webhook", c.retried)
			if diff := cmp.Diff(c.told, m.told); diff != "" {
				t.Errorf("counted (-want +got):\n%s", diff)
			}
			if c.outcome == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || err.Error() != string(c.outcome)+": "+c.reason {
				t.Fatalf("error %v, want %s: %s", err, c.outcome, c.reason)
			}
			if c.outcome.Settles() {
				if !errors.Is(err, asynq.SkipRetry) {
					t.Error("it is tried again")
				}
				return
			}
			if after := tasks.RetryDelay(c.retried, err, nil); after < c.after[0] || after > c.after[1] || tasks.IsFailure(err) != (c.outcome == tasks.Transient) {
				t.Errorf("again in %s, want %v; counted %t", after, c.after, tasks.IsFailure(err))
			}
		})
	}
}

// TestDeliverySchedule: a receiver that is down for so long is found by an attempt.
func TestDeliverySchedule(t *testing.T) {
	now, attempts := toldAt, 1
	var sum []time.Duration
	for {
		after, again := tasks.NextDelivery(attempts, toldAt, now, 0)
		if !again {
			break
		}
		if after != after.Truncate(time.Second) {
			t.Errorf("%s is no whole seconds", after)
		}
		attempts++
		now = now.Add(after)
		sum = append(sum, now.Sub(toldAt))
	}
	if attempts < 20 || attempts > 30 || sum[len(sum)-1] < 67*time.Hour || sum[len(sum)-1] > 72*time.Hour {
		t.Errorf("%d attempts, the last after %s", attempts, sum[len(sum)-1])
	}
	for i, at := range []time.Duration{5 * time.Second, 35 * time.Second, 155 * time.Second, 755 * time.Second, 2555 * time.Second, 6155 * time.Second, 13355 * time.Second} {
		if off := sum[i] - at; off < -at/10 || off > at/10+10*time.Second {
			t.Errorf("attempt %d after %s, want about %s", i+2, sum[i], at)
		}
	}
	if _, again := tasks.NextDelivery(1, toldAt, toldAt, 73*time.Hour); again {
		t.Error("tried again past its lifetime")
	}
}
