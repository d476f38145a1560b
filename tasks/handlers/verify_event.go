package handlers

import (
	"context"
	"fmt"
	"time"

	"orgops/dnscheck"
	"orgops/internal/events"
	"orgops/internal/ledger"
)

// event returns an event of the row. An execution that is repeated makes it with the same
// id, and a later run of the same run id with another.
func (v *verification) event(typ, domain string, at time.Time) events.Event {
	s := v.x.Segment
	return events.Event{
		ID: fmt.Sprintf("%s-%s-%s-%d-%d", typ, s.Run, s.Incarnation, s.Number, v.row.Number), Type: typ, At: at,
		Data: events.Data{OrganizationID: v.organization, DiscoveryDomainID: v.domain, Domain: domain, Run: string(s.Run)},
	}
}

func (v *verification) notify(ctx context.Context, e events.Event, evidence []byte) error {
	if v.cfg.Notify == nil {
		return nil
	}
	if err := v.cfg.Notify(ctx, e, evidence); err != nil {
		return fmt.Errorf("notify %s: %w", e.Type, stateError(err))
	}
	return nil
}

// settle settles the row of a domain that was verified. An execution that is killed before
// the row is settled leaves log line and event to the next one, for the same proof.
func (v *verification) settle(ctx context.Context, in *verifyIntent) (ledger.Result, error) {
	v.audit(ctx, in.evidence)
	e := v.event(events.DomainVerified, in.evidence.Compared.Domain, in.evidence.At)
	return ledger.Result{Outcome: ledger.Done, Evidence: in.Proof}, v.notify(ctx, e, in.Proof)
}

// audit logs that the domain was verified, and by which proof.
func (v *verification) audit(ctx context.Context, proof Evidence) {
	v.cfg.Logger.InfoContext(ctx, "audit", "event", "domain verified", "run", v.x.Run, "item", v.item(ctx),
		"organization_id", v.want.OrganizationID, "discovery_domain_id", v.want.DiscoveryDomainID,
		"domain", proof.Compared.Domain, "verification_host", proof.Compared.Host,
		"proven_at", proof.At, "basis", proof.Basis, "quorum", proof.Quorum, "resolvers", proof.Resolvers,
		"operators", proof.seenBy(func(o dnscheck.ObservationRecord) string { return o.Operator }),
		"perspectives", proof.seenBy(func(o dnscheck.ObservationRecord) string { return o.Perspective }))
}

// item returns the number of the row over all segments of its run, as readers show it; -1
// if the ledger does not answer.
func (v *verification) item(ctx context.Context) int64 {
	if v.cfg.Item == nil {
		return int64(v.row.Number)
	}
	item, err := v.cfg.Item(ctx, v.x.Segment, v.row.Number)
	if err != nil {
		v.cfg.Logger.WarnContext(ctx, "number of a verified row not known", "run", v.x.Run, "segment", v.x.Segment.Number, "row", int(v.row.Number), "error", err)
		return -1
	}
	return item
}
