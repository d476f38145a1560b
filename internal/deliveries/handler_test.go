package deliveries_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"orgops/internal/deliveries"
)

// TestDeliver checks the result of a delivery by the result of an attempt.
func TestDeliver(t *testing.T) {
	const event = `{"type":"domain.lost"}`
	payload := func(change string) []byte {
		return []byte(
			`{"v":1,"tenant":"acme","created_at":"2026-11-22T01:02:03Z","endpoint":"crm","id":"x","event":` + event +
				change + `}`)
	}
	replaced := func(old, by string) []byte { return []byte(strings.Replace(string(payload("")), old, by, 1)) }
	counted := func(delivery, task string) (all []string) {
		if delivery != "" {
			all = append(all, "delivery acme "+delivery)
		}
		return append(all, "acme "+task)
	}
	const again = "webhook endpoint crm: it answered 503"
	for _, c := range []struct {
		name    string
		attempt error
		panics  bool
		stopped bool
		typ     string
		retried int
		age     time.Duration
		payload []byte
		outcome string
		reason  string
		after   [2]time.Duration // from, to
		counted []string
	}{
		{name: "delivered", counted: counted("crm delivered", "webhook:deliver done")},
		{name: "the first attempt fails", attempt: attemptError(attempt{}), outcome: "transient", reason: again,
			after:   [2]time.Duration{5 * time.Second, 7 * time.Second},
			counted: counted("crm again", "webhook:deliver transient")},
		{name: "the fifth", attempt: attemptError(attempt{}), retried: 4, age: time.Hour,
			outcome: "transient", reason: again,
			after:   [2]time.Duration{27 * time.Minute, 34 * time.Minute},
			counted: counted("crm again", "webhook:deliver transient")},
		{name: "beyond the attempts of rows", attempt: attemptError(attempt{}), retried: 20, age: 60 * time.Hour,
			outcome: "transient",
			reason:  again, after: [2]time.Duration{3*time.Hour + 36*time.Minute, 4*time.Hour + 25*time.Minute},
			counted: counted("crm again", "webhook:deliver transient")},
		{name: "the receiver asks for more", attempt: attemptError(attempt{RetryAfter: 10 * time.Minute}),
			outcome: "transient",
			reason:  again, after: [2]time.Duration{10 * time.Minute, 10*time.Minute + 2*time.Second},
			counted: counted("crm again", "webhook:deliver transient")},
		{name: "time is up", attempt: attemptError(attempt{}), retried: 24, age: 71 * time.Hour, outcome: "failed",
			reason:  "given up after 25 attempts in 71h0m0s; the last: webhook endpoint crm: it answered 503",
			counted: counted("crm given_up", "webhook:deliver failed")},
		{name: "the last of all attempts", attempt: attemptError(attempt{}), retried: 39, outcome: "failed",
			reason:  "given up after 40 attempts in 0s; the last: webhook endpoint crm: it answered 503",
			counted: counted("crm given_up", "webhook:deliver failed")},
		{name: "the receiver rests", attempt: attemptError(attempt{RetryAfter: 3500 * time.Millisecond, Unsent: true}),
			retried: 5, age: time.Hour, outcome: "paced", reason: again, after: [2]time.Duration{4 * time.Second,
				65 * time.Second}, counted: counted("", "webhook:deliver paced")},
		{name: "it rests for no time", attempt: attemptError(attempt{Unsent: true}), outcome: "paced", reason: again,
			after: [2]time.Duration{time.Second, 61 * time.Second}, counted: counted("", "webhook:deliver paced")},
		{name: "it rests until time is up", attempt: attemptError(attempt{RetryAfter: time.Minute, Unsent: true}),
			retried: 24, age: 72 * time.Hour, outcome: "failed",
			reason:  "given up after 24 attempts in 72h0m0s; the last: webhook endpoint crm: it answered 503",
			counted: counted("crm given_up", "webhook:deliver failed")},
		{name: "late, and it succeeds", retried: 24, age: 100 * time.Hour,
			counted: counted("crm delivered", "webhook:deliver done")},
		{name: "another attempt would fail too", attempt: attemptError(attempt{Permanent: true}),
			outcome: "failed", reason: again,
			counted: counted("crm given_up", "webhook:deliver failed")},
		{name: "a panic", panics: true, outcome: "transient", reason: "panic: out of range",
			after:   [2]time.Duration{5 * time.Second, 7 * time.Second},
			counted: counted("crm again", "webhook:deliver transient")},
		{name: "the worker stops", stopped: true, outcome: "stopping", reason: "the worker is stopping",
			counted: counted("", "webhook:deliver stopping")},
		{name: "its workers die", retried: 40, outcome: "failed",
			reason: "given up after 40 attempts; the last ones ended without an answer (its worker died, or the task ran out of time)", counted: counted("crm given_up", "webhook:deliver failed")},
		{name: "a member of a newer worker", payload: payload(`,"more":1`),
			counted: counted("crm delivered", "webhook:deliver done")},
		{name: "trailing data", payload: append(payload(""), '{', '}'), outcome: "invalid",
			reason: `payload: invalid character '{' after top-level value`, counted: counted("", "webhook:deliver invalid")},
		{name: "no JSON", payload: []byte("x"), outcome: "invalid",
			reason:  `payload: invalid character 'x' looking for beginning of value`,
			counted: counted("", "webhook:deliver invalid")},
		{name: "no id", payload: replaced(`"id":"x"`, `"id":""`),
			outcome: "invalid", reason: `payload: id is missing`,
			counted: counted("", "webhook:deliver invalid")},
		{name: "no endpoint", payload: replaced(`"crm"`, `""`),
			outcome: "invalid", reason: `payload: endpoint is missing`,
			counted: counted("", "webhook:deliver invalid")},
		{name: "too long", payload: replaced(`"domain.lost"`, `"`+strings.Repeat("x", 20<<10)+`"`),
			outcome: "invalid",
			reason:  `payload: event: want 1 to 20480 bytes, got 20491`, counted: counted("", "webhook:deliver invalid")},
		{name: "of another tenant", payload: replaced(`"acme"`, `"other"`), outcome: "invalid",
			reason:  `payload: a task of tenant "other" in a queue of tenant "acme"`,
			counted: counted("", "webhook:deliver invalid")},
		{name: "of a newer worker", payload: replaced(`"v":1`, `"v":2,"more":1`), age: 23 * time.Hour,
			outcome: "paced",
			reason:  `no handler for type "webhook:deliver" version 2 in this worker; a newer one is needed`,
			after:   [2]time.Duration{5 * time.Minute, 5 * time.Minute}, counted: counted("", "webhook:deliver paced")},
		{name: "of a newer worker that does not come", payload: replaced(`"v":1`, `"v":2`), age: 24 * time.Hour,
			outcome: "invalid", reason: `no handler for type "webhook:deliver" version 2 in this worker; a newer one is needed`,
			counted: counted("", "webhook:deliver invalid")},
		{name: "of another type", typ: "webhook:\xff", outcome: "paced",
			reason: `no handler for type "webhook:\xff" version 1 in this worker; a newer one is needed`,
			after:  [2]time.Duration{5 * time.Minute, 5 * time.Minute}, counted: counted("", "unknown paced")},
		{name: "of an unknown endpoint", attempt: attemptError(attempt{}), payload: replaced(`"crm"`, `"\u0000x"`),
			outcome: "transient", reason: again, after: [2]time.Duration{5 * time.Second, 7 * time.Second},
			counted: counted("unknown again", "webhook:deliver transient")},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := at.Add(c.age)
			w := newWorld(t, crm(func(_, id string, at time.Time, body []byte) error {
				if id != "x" || !at.Equal(now) || string(body) != event {
					t.Errorf("attempt to deliver %s at %s: %s", id, at, body)
				}
				if c.panics {
					panic("out of range")
				}
				return c.attempt
			}), 10)
			w.cfg.Now = func() time.Time { return now }
			stopping := make(chan struct{})
			if w.cfg.Stopping = stopping; c.stopped {
				close(stopping)
			}
			if c.payload == nil {
				c.payload = payload("")
			}
			if c.typ == "" {
				c.typ = deliveries.TaskType
			}
			err := deliveries.NewHandler(w.cfg).Process(t.Context(), asynq.NewTask(c.typ, c.payload), "id", c.retried)
			if diff := cmp.Diff(c.counted, w.meter.counted); diff != "" {
				t.Errorf("counted (-want +got):\n%s", diff)
			}
			if c.outcome == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || err.Error() != c.outcome+": "+c.reason {
				t.Fatalf("error %v, want %s: %s", err, c.outcome, c.reason)
			}
			if ends := c.outcome == "failed" || c.outcome == "invalid"; errors.Is(err, asynq.SkipRetry) != ends {
				t.Errorf("archived: %t, want %t", !ends, ends)
			} else if ends {
				return
			}
			if after := deliveries.RetryDelay(c.retried, err, nil); after < c.after[0] || after > c.after[1] ||
				deliveries.IsFailure(err) != (c.outcome == "transient") {
				t.Errorf("again in %s, want %v; counted %t", after, c.after, deliveries.IsFailure(err))
			}
		})
	}
}

// TestSchedule: a receiver that is down for hours gets attempts for three days.
func TestSchedule(t *testing.T) {
	now, attempts := at, 1
	var sum []time.Duration
	for {
		after, again := deliveries.NextAttempt(attempts, at, now, 0)
		if !again {
			break
		}
		if after != after.Truncate(time.Second) {
			t.Errorf("%s: want whole seconds", after)
		}
		attempts++
		now = now.Add(after)
		sum = append(sum, now.Sub(at))
	}
	if attempts < 20 || attempts > 30 || sum[len(sum)-1] < 67*time.Hour || sum[len(sum)-1] > 72*time.Hour {
		t.Errorf("%d attempts, the last after %s", attempts, sum[len(sum)-1])
	}
	for i, want := range []time.Duration{5 * time.Second, 35 * time.Second, 155 * time.Second, 755 * time.Second,
		2555 * time.Second, 6155 * time.Second, 13355 * time.Second} {
		if off := sum[i] - want; off < -want/10 || off > want/10+10*time.Second {
			t.Errorf("attempt %d after %s, want about %s", i+2, sum[i], want)
		}
	}
	if _, again := deliveries.NextAttempt(1, at, at, 73*time.Hour); again {
		t.Error("tried again past its lifetime")
	}
}
