package deliveries_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"orgops/internal/deliveries"
	"orgops/internal/events"
)

// TestNotify checks that each endpoint that wants an event gets one task, and that the
// event is logged and counted.
func TestNotify(t *testing.T) {
	w := newWorld(t, receivers{
		wants: map[string][]string{"crm": {events.DomainLost}, "desk": {events.DomainLost, events.DomainVerified},
			"other": {events.DomainVerified}},
	}, 10)
	w.cfg.Now = func() time.Time { return at }
	n := deliveries.NewNotifier(w.cfg)
	for range 2 {
		if err := n.Notify(t.Context(), lost("domain.lost-ord_1-1795309323")); err != nil {
			t.Fatal(err)
		}
	}
	var tasks []*asynq.TaskInfo
	for _, endpoint := range []string{"crm", "desk"} {
		pending, err := w.inspector.ListPendingTasks(deliveries.Queue("acme", endpoint))
		if err != nil || len(pending) != 1 {
			t.Fatalf("%s: %d tasks, %v", endpoint, len(pending), err)
		}
		tasks = append(tasks, pending...)
	}
	if a, b := tasks[0].ID, tasks[1].ID; a != "webhook-acme-crm-domain_lost-ord_1-1795309323" ||
		b != "webhook-acme-desk-domain_lost-ord_1-1795309323" {
		t.Errorf("tasks %s and %s", a, b)
	}
	const event = `{"type":"domain.lost","timestamp":"2026-11-22T01:02:03Z","data":{"tenant":"acme","organization_id":"org_1","discovery_domain_id":"ord_1","domain":"example.com","tick":1795309200,"reason":"no TXT record","since":"2026-11-15T01:02:03Z","action":"pending"}}`
	want := `{"v":1,"tenant":"acme","created_at":"2026-11-22T01:02:03Z","endpoint":"crm","id":"domain_lost-ord_1-1795309323","event":` + event + `}`
	if diff := cmp.Diff(want, string(tasks[0].Payload)); diff != "" {
		t.Errorf("payload (-want +got):\n%s", diff)
	}
	if task := tasks[0]; task.Type != "webhook:deliver" || task.Retention != 0 ||
		task.MaxRetry != deliveries.MaxRetry || !task.Deadline.IsZero() {
		t.Errorf("task %+v", task)
	}
	const line = `level=ERROR msg=event event=domain.lost id=domain_lost-ord_1-1795309323 tenant=acme organization_id=org_1 discovery_domain_id=ord_1 domain=example.com reason="no TXT record" action=pending tick=1795309200 since=2026-11-15T01:02:03.000Z` + "\n"
	if got := w.log.String(); got != line+line {
		t.Errorf("log %s, want twice %s", got, line)
	}
	if diff := cmp.Diff([]string{"event acme domain.lost", "event acme domain.lost"}, w.meter.counted); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}

// failing is a queue that takes nothing.
type failing struct{ err error }

func (f failing) EnqueueContext(context.Context, *asynq.Task, ...asynq.Option) (*asynq.TaskInfo, error) {
	return nil, f.err
}

func TestNotifyFails(t *testing.T) {
	w := newWorld(t, crm(nil), 10)
	w.cfg.Enqueuer = failing{errors.New("no Redis")}
	err := deliveries.NewNotifier(w.cfg).Notify(t.Context(), lost("other"))
	if err == nil || err.Error() != "notify endpoint crm of event other: no Redis" {
		t.Errorf("error %v", err)
	}
	if w.log.Len() > 0 || len(w.meter.counted) > 0 {
		t.Errorf("log %q, counted %q", w.log, w.meter.counted)
	}
}

// TestDocumentsStaySmall: the longest document fits into a task.
func TestDocumentsStaySmall(t *testing.T) {
	for name, text := range map[string]string{
		"long": strings.Repeat("ä", 20000), "control characters": strings.Repeat("\x00", 20000),
		"astral": strings.Repeat("\U0001F511", 20000), "no UTF-8": strings.Repeat("\xff", 20000),
	} {
		t.Run(name, func(t *testing.T) {
			var got []byte
			w := newWorld(t, crm(func(_, _ string, _ time.Time, body []byte) error { got = body; return nil }), 10)
			e := events.Event{ID: "x", Type: events.DomainLost, At: at, Data: events.Data{
				OrganizationID: text, DiscoveryDomainID: text, Domain: text, Run: text, Reason: text, Action: text, Kind: text,
				Counts: map[string]int64{"done": 1},
			}}
			if err := deliveries.NewNotifier(w.cfg).Notify(t.Context(), e); err != nil {
				t.Fatal(err)
			}
			task, err := w.inspector.GetTaskInfo("acme.webhook.crm", "webhook-acme-crm-x")
			if err != nil {
				t.Fatal(err)
			}
			if err := deliveries.NewHandler(w.cfg).Process(t.Context(), asynq.NewTask(task.Type, task.Payload),
				task.ID, 0); err != nil {
				t.Error(err)
			}
			if len(got) > 20<<10 || !json.Valid(got) {
				t.Errorf("%d bytes, JSON %t", len(got), json.Valid(got))
			}
		})
	}
}
