package tasks

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// NoticesConfig is what a tenant's notices are told by. Tenant, Webhooks and
// Enqueuer are required.
type NoticesConfig struct {
	Tenant   string
	Webhooks Webhooks
	Enqueuer Enqueuer
	Meter    Meter            // nil: nothing is counted
	Logger   *slog.Logger     // nil: slog.Default()
	Now      func() time.Time // nil: time.Now
}

// NewNotices tells the tenant's notices to the endpoints that want them, by a task
// each, to the log, and to the meter.
func NewNotices(cfg NoticesConfig) Notices {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return notices{cfg}
}

type notices struct{ cfg NoticesConfig }

// Tell implements [Notices]. Where it is an error some endpoints may be told
// already: they are not told twice when it is called again.
func (t notices) Tell(ctx context.Context, n Notice) error {
	n.Data.Tenant = t.cfg.Tenant
	body, err := n.document()
	if err != nil {
		return fmt.Errorf("notify %s: %w", n.ID, err)
	}
	// The scheme signs the id in front of a full stop, so there is none in it.
	id := strings.ReplaceAll(n.ID, ".", "_")
	for _, endpoint := range t.cfg.Webhooks.Wanting(n.Type) {
		p := DeliverPayload{
			Envelope: Envelope{V: Version, Tenant: t.cfg.Tenant, CreatedAt: t.cfg.Now().UTC()},
			Endpoint: endpoint, ID: id, Event: body,
		}
		if err := enqueue(ctx, t.cfg.Enqueuer, p.task()); err != nil {
			return fmt.Errorf("notify endpoint %s of event %s: %w", endpoint, n.ID, err)
		}
	}
	t.log(ctx, id, n)
	if t.cfg.Meter != nil {
		t.cfg.Meter.Event(t.cfg.Tenant, n.Type)
	}
	return nil
}

// log tells people.
func (t notices) log(ctx context.Context, id string, n Notice) {
	attrs := []slog.Attr{slog.String("event", n.Type), slog.String("id", id), slog.String("tenant", t.cfg.Tenant)}
	for _, a := range []struct{ key, value string }{
		{"organization_id", n.Data.OrganizationID}, {"discovery_domain_id", n.Data.DiscoveryDomainID}, {"domain", n.Data.Domain},
		{"run", n.Data.Run}, {"kind", n.Data.Kind}, {"reason", n.Data.Reason}, {"action", n.Data.Action},
	} {
		if a.value != "" {
			attrs = append(attrs, slog.String(a.key, a.value))
		}
	}
	if n.Data.Tick != 0 {
		attrs = append(attrs, slog.Int64("tick", n.Data.Tick))
	}
	if !n.Data.Since.IsZero() {
		attrs = append(attrs, slog.Time("since", n.Data.Since))
	}
	if len(n.Data.Counts) > 0 {
		attrs = append(attrs, slog.Any("counts", n.Data.Counts))
	}
	t.cfg.Logger.LogAttrs(ctx, n.level(), "event", attrs...)
}

// level is higher the more there is for somebody to do.
func (n Notice) level() slog.Level {
	switch n.Type {
	case NoticeAtRisk, NoticeExpired:
		return slog.LevelWarn
	case NoticeLost, NoticeBreakerOpen:
		return slog.LevelError
	}
	return slog.LevelInfo
}

// longestDocument is how long a notice's document may be, in bytes: Standard
// Webhooks asks senders to keep below.
const longestDocument = 20 << 10

// document is the notice as JSON, with the members that Standard Webhooks
// recommends. Where it would be too long its texts are cut.
func (n Notice) document() ([]byte, error) {
	body, err := n.encode(n.Data)
	if err == nil && len(body) > longestDocument {
		body, err = n.encode(n.Data.cut())
	}
	if err == nil && len(body) > longestDocument {
		err = fmt.Errorf("its document has %d bytes, more than %d, with its texts cut", len(body), longestDocument)
	}
	return body, err
}

func (n Notice) encode(data NoticeData) ([]byte, error) {
	return json.Marshal(struct {
		Type      string     `json:"type"`
		Timestamp time.Time  `json:"timestamp"`
		Data      NoticeData `json:"data"`
	}{n.Type, n.At.UTC(), data})
}

// longestNoticeText is what is left of each text that is cut, in code points. All
// of them together, written as JSON writes control characters, in six bytes each,
// stay well within the bound.
const longestNoticeText = 200

func (d NoticeData) cut() NoticeData {
	for _, text := range []*string{
		&d.Tenant, &d.OrganizationID, &d.DiscoveryDomainID, &d.Domain, &d.Run, &d.Kind, &d.Reason, &d.Action,
	} {
		*text = cutRunes(*text, longestNoticeText)
	}
	return d
}
