package events

import (
	"context"
	"log/slog"
	"strings"
	"time"
)

// Event is something that happened to a domain, a run or a tenant, for other systems and
// for the log.
type Event struct {
	// ID is the event's own. An event that is notified again has the same id, and that of
	// a later run of the same run id has another.
	ID string
	// Type is one of [Types].
	Type string
	At   time.Time
	Data Data
}

// Types of events. docs/reference/events.md has their comments.
const (
	DomainVerified = "domain.verified" // a domain was proven and marked verified
	DomainExpired  = "domain.expired"  // the token of a domain did not appear in time
	DomainAtRisk   = "domain.at_risk"  // a sweep did not find the proven token of a verified domain for the first time
	// the token of a verified domain was gone for the whole grace period; nothing was changed
	DomainLost = "domain.lost"
	// the token of such a domain is there again; action names the revocation that was undone, if any
	DomainFound = "domain.found"
	// others have set a verified domain to pending, deleted it or given it another token
	DomainWithdrawn = "domain.withdrawn"

	RunFinished = "run.finished" // all rows of a run are settled
)

// Types lists all types of events.
var Types = []string{
	DomainVerified, DomainExpired, DomainAtRisk, DomainLost, DomainFound, DomainWithdrawn, RunFinished,
}

// Data is the content of an event; members that do not concern it are left out. Text from
// strangers is cut, and its control characters are quoted. docs/reference/events.md has the
// comments of the fields.
type Data struct {
	Tenant            string    `json:"tenant"`                        // name of the tenant
	OrganizationID    string    `json:"organization_id,omitempty"`     // organization of the domain
	DiscoveryDomainID string    `json:"discovery_domain_id,omitempty"` // id of the domain
	Domain            string    `json:"domain,omitempty"`              // name of the domain, as far as it is known
	Run               string    `json:"run,omitempty"`                 // id of the run, or of the sweep
	Tick              int64     `json:"tick,omitempty"`                // of the sweep, a Unix second
	Reason            string    `json:"reason,omitempty"`              // for people
	Mistake           string    `json:"mistake,omitempty"`             // name of the mistake in the record, if known
	Since             time.Time `json:"since,omitzero"`                // when the token was first seen to be gone
	// the revocation that was undone: unroute or pending
	Action string `json:"action,omitempty"`

	Kind   string           `json:"kind,omitempty"`   // of a run
	Counts map[string]int64 `json:"counts,omitempty"` // of a run: rows by outcome
}

// Notifier notifies other systems of events.
type Notifier interface {
	// Notify delivers the event to its receivers, or arranges that. An event that is
	// notified again under the same id is delivered once. After an error, some receivers
	// may have been notified.
	Notify(ctx context.Context, e Event) error
}

// MessageID returns the id under which the event is delivered. Standard Webhooks signs
// the id followed by a full stop, so the id contains none.
func (e Event) MessageID() string { return strings.ReplaceAll(e.ID, ".", "_") }

// Log writes the event to the log.
func (e Event) Log(ctx context.Context, logger *slog.Logger) {
	d := e.Data
	attrs := []slog.Attr{slog.String("event", e.Type), slog.String("id", e.MessageID()), slog.String("tenant", d.Tenant)}
	for _, a := range []struct{ key, value string }{
		{"organization_id", d.OrganizationID}, {"discovery_domain_id", d.DiscoveryDomainID}, {"domain", d.Domain},
		{"run", d.Run}, {"kind", d.Kind}, {"reason", d.Reason}, {"mistake", d.Mistake}, {"action", d.Action},
	} {
		if a.value != "" {
			attrs = append(attrs, slog.String(a.key, a.value))
		}
	}
	if d.Tick != 0 {
		attrs = append(attrs, slog.Int64("tick", d.Tick))
	}
	if !d.Since.IsZero() {
		attrs = append(attrs, slog.Time("since", d.Since))
	}
	if len(d.Counts) > 0 {
		attrs = append(attrs, slog.Any("counts", d.Counts))
	}
	logger.LogAttrs(ctx, e.level(), "event", attrs...)
}

// level is higher the more there is to do for an operator.
func (e Event) level() slog.Level {
	switch e.Type {
	case DomainAtRisk, DomainExpired:
		return slog.LevelWarn
	case DomainLost, DomainWithdrawn:
		return slog.LevelError
	}
	return slog.LevelInfo
}
