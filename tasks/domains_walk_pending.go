package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
)

// WalkPayload asks to go on, from that step, with the walk that finds the rows of a
// run of domain:verify; it is the payload of domains:walk. It stands for no row: where
// the walk goes on, and where it goes at all, is in the ledger.
type WalkPayload struct {
	Envelope

	Step     int64     `json:"step"`
	GiveUpAt time.Time `json:"give_up_at"`         // of rows found at CreatedAt; later ones have as long
	Priority Priority  `json:"priority,omitempty"` // of theirs; they are on the normal lane unless it is high
}

// Validate checks what does not need the ledger.
func (p WalkPayload) Validate() error {
	switch {
	case p.Step < 0:
		return fmt.Errorf("step: want 0 or more, got %d", p.Step)
	case p.GiveUpAt.IsZero():
		return errors.New("give_up_at is missing")
	}
	return CheckPriority(p.Priority)
}

func (p WalkPayload) from() int64 { return p.Step }

func (p WalkPayload) onward(step int64) spec {
	next := p
	next.Step = step
	return next.task()
}

func (p WalkPayload) task() spec {
	return spec{typ: TypeWalk, payload: p, id: walkTaskID(p.Run, p.Step, p.Generation), queue: SweepQueue(p.Tenant)}
}

func (p WalkPayload) run(job Job, now time.Time) Run {
	return Run{
		ID: job.Run, Kind: TypeVerify, Tenant: job.Tenant, CreatedAt: now, Generation: job.Generation,
		Priority: p.Priority, GiveUp: p.GiveUpAt.Sub(job.CreatedAt),
	}
}

// pendingRow is a row of a walk for pending domains. It names the domain alone. The
// intake leaves out members that begin with orgops_: retried, a row that was refused
// has its record read anew.
type pendingRow struct {
	OrganizationID    string `json:"organization_id"`
	DiscoveryDomainID string `json:"discovery_domain_id"`
	Refused           string `json:"orgops_refused,omitempty"` // why the record cannot be looked for; empty: it can
}

func (p WalkPayload) parse(source []byte) (Row, error) {
	var r pendingRow
	if err := decodeStrict(source, &r); err != nil {
		return Row{}, err
	}
	if r.Refused != "" {
		return Row{}, refused("%s", r.Refused)
	}
	return Row{kind: TypeVerify, organization: r.OrganizationID, id: r.DiscoveryDomainID}, checkDomainIDs(r.OrganizationID, r.DiscoveryDomainID)
}

// row is that of a pending domain. Host and token, which may change, are kept beside
// it as if its first look had read them, and a proof reads them anew. A record outside
// the specification may be pending unless it reads as verified: it becomes a row that
// is refused.
func (p WalkPayload) row(_ context.Context, _ Config, _ Walked, organization string, l listedDomain) (source, kept []byte, err error) {
	d := l.Record
	if d.Status == apiclient.StatusVerified {
		return nil, nil, nil
	}
	if why := refusal(organization, l); why != nil {
		source, err = json.Marshal(pendingRow{OrganizationID: organization, DiscoveryDomainID: nameIn(d.ID), Refused: why.Error()})
		return source, nil, err
	}
	source, err = json.Marshal(pendingRow{OrganizationID: organization, DiscoveryDomainID: d.ID})
	if err != nil || below(d) != nil || dnscheck.CheckHost(d.VerificationHost) != nil || len(d.VerificationTXT) > maxToken {
		return source, nil, err // its look reads the record once more, and says what is wrong
	}
	kept, err = json.Marshal(recordOf(d))
	return source, kept, err
}

func (p WalkPayload) over(context.Context, Config, Job, Walked) error { return nil }

func (p WalkPayload) came(rows int64, told Walked) string {
	return fmt.Sprintf("found %d pending domains in %d organizations", rows, told.Read)
}
