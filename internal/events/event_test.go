package events_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/events"
)

var at = time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC)

func lost() events.Event {
	return events.Event{ID: "domain.lost-ord_1-1795309323", Type: events.DomainLost, At: at, Data: events.Data{
		Tenant: "acme", OrganizationID: "org_1", DiscoveryDomainID: "ord_1", Domain: "example.com", Tick: 1795309200,
		Reason: "no TXT record", Since: at.Add(-7 * 24 * time.Hour), Action: "pending",
	}}
}

func TestDocument(t *testing.T) {
	ended := events.Event{ID: "run-r1-1795309323", Type: events.RunFinished,
		At: at.In(time.FixedZone("", 3600)), Data: events.Data{
			Tenant: "acme", Run: "r1", Kind: "domain:verify", Counts: map[string]int64{"failed": 1, "done": 2},
		}}
	for _, test := range []struct {
		event events.Event
		want  string
	}{
		{
			lost(),
			`{"type":"domain.lost","timestamp":"2026-11-22T01:02:03Z","data":{"tenant":"acme","organization_id":"org_1","discovery_domain_id":"ord_1","domain":"example.com","tick":1795309200,"reason":"no TXT record","since":"2026-11-15T01:02:03Z","action":"pending"}}`,
		},
		{
			ended,
			`{"type":"run.finished","timestamp":"2026-11-22T01:02:03Z","data":{"tenant":"acme","run":"r1","kind":"domain:verify","counts":{"done":2,"failed":1}}}`,
		},
	} {
		got, err := test.event.Document()
		if diff := cmp.Diff(test.want, string(got)); diff != "" || err != nil {
			t.Errorf("%v; document (-want +got):\n%s", err, diff)
		}
	}
}

// TestMessageID: a full stop would make the signed content ambiguous.
func TestMessageID(t *testing.T) {
	if got := lost().MessageID(); got != "domain_lost-ord_1-1795309323" {
		t.Errorf("id %q", got)
	}
}

// TestLog: the line of an event, and its level, the higher the more there is to do.
func TestLog(t *testing.T) {
	var log strings.Builder
	lost().Log(t.Context(), logger(&log))
	const want = `level=ERROR msg=event event=domain.lost id=domain_lost-ord_1-1795309323 tenant=acme organization_id=org_1 discovery_domain_id=ord_1 domain=example.com reason="no TXT record" action=pending tick=1795309200 since=2026-11-15T01:02:03.000Z` + "\n"
	if diff := cmp.Diff(want, log.String()); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
	log.Reset()
	events.Event{ID: "x", Type: events.RunFinished, Data: events.Data{Tenant: "acme", Run: "r1", Kind: "client:remove",
		Counts: map[string]int64{"done": 2}}}.Log(t.Context(), logger(&log))
	if want := "level=INFO msg=event event=run.finished id=x tenant=acme run=r1 kind=client:remove counts=map[done:2]\n"; log.String() != want {
		t.Errorf("line %s, want %s", log.String(), want)
	}

	levels := map[string]string{
		events.DomainVerified: "INFO", events.DomainExpired: "WARN", events.DomainAtRisk: "WARN", events.DomainLost: "ERROR",
		events.DomainFound: "INFO", events.DomainWithdrawn: "ERROR", events.RunFinished: "INFO",
	}
	if len(levels) != len(events.Types) {
		t.Errorf("%d types, %d levels", len(events.Types), len(levels))
	}
	for _, typ := range events.Types {
		log.Reset()
		events.Event{ID: "x", Type: typ, At: at}.Log(t.Context(), logger(&log))
		if !strings.HasPrefix(log.String(), "level="+levels[typ]+" msg=event event="+typ+" ") {
			t.Errorf("%s: %s", typ, log.String())
		}
	}
}

func logger(log *strings.Builder) *slog.Logger {
	return slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// TestDocumentsStaySmall: 20 KiB are enough for any text of a stranger.
func TestDocumentsStaySmall(t *testing.T) {
	for name, text := range map[string]string{
		"long": strings.Repeat("ä", 20000), "control characters": strings.Repeat("\x00", 20000),
		"astral": strings.Repeat("\U0001F511", 20000), "no UTF-8": strings.Repeat("\xff", 20000),
	} {
		body, err := events.Event{ID: "x", Type: events.DomainLost, At: at, Data: events.Data{
			Tenant: "acme", OrganizationID: text, DiscoveryDomainID: text, Domain: text, Run: text, Reason: text, Action: text,
			Kind: text, Counts: map[string]int64{"done": 1},
		}}.Document()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(body) > 20<<10 || !json.Valid(body) || !strings.Contains(string(body), `"tenant":"acme"`) {
			t.Errorf("%s: %d bytes, JSON %t", name, len(body), json.Valid(body))
		}
	}
	counts := map[string]int64{}
	for i := range 2000 {
		counts[strings.Repeat("x", 10)+string(rune('a'+i%26))+time.Duration(i).String()] = 1
	}
	if _, err := (events.Event{ID: "x", Data: events.Data{Counts: counts}}).Document(); err == nil {
		t.Error("no error of a document that stays too long")
	}
}
