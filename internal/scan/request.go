package scan

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"orgops/apiclient"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/sweep"
	"orgops/tasks"
)

// request is the search of a scan: [pending] or [swept].
type request interface {
	// row returns the row of a record that was listed at a time, in Redis' time; nil: it is
	// none.
	row(ctx context.Context, p sweep.Progress, organization string, l listed, at time.Time) (*ledger.FoundRow, error)
}

// listed is a record of an organization's list.
type listed = apiclient.Listed[apiclient.DiscoveryDomain]

// outsideSpec returns why a record of an organization's list is outside the specification;
// nil if it is not.
func outsideSpec(organization string, l listed) error {
	err := cmp.Or(l.Err, apiclient.CheckID("discovery_domain_id", l.Record.ID))
	if err == nil {
		return nil
	}
	return fmt.Errorf("organization %s: %w", organization, err)
}

// recordOf returns a record as a sweep's row has it.
func recordOf(organization string, d apiclient.DiscoveryDomain, p sweep.Progress) tasks.RecheckRow {
	return tasks.RecheckRow{
		OrganizationID: organization, DiscoveryDomainID: d.ID, Domain: d.Domain, VerificationHost: d.VerificationHost,
		VerificationTXT: d.VerificationTXT,
		Status:          d.Status, UseForOrganizationDiscovery: d.UseForOrganizationDiscovery,
		Prove: p.Pending && d.Status != apiclient.StatusVerified, Tick: p.Tick,
	}
}

// found returns a row. One of a record that cannot be checked is settled as refused when it is
// found, and can be retried once the record is corrected.
func found(organization string, content any, bad error) (*ledger.FoundRow, error) {
	text, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("organization %s: write the row of a domain: %w", organization, err)
	}
	row := &ledger.FoundRow{Content: text}
	if bad != nil {
		row.Result = ledger.Result{Outcome: engine.Refused, Detail: engine.Clip(bad.Error(), maxDetail)}
	}
	return row, nil
}

const (
	// maxDetail and maxReason bound the reason of a row and of a scan, in which the API may
	// be quoted, in bytes.
	maxDetail = 4 << 10
	maxReason = 2 << 10
	// maxName bounds a text of a record that names the record, in bytes, since the API may
	// send any amount of it: a name has at most 255, an id 128.
	maxName = 300
)

// name returns as much of a record's text as names the record.
func name(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxName)], "")
}

// pending searches for pending domains. Its rows are of kind [tasks.TypeVerify].
type pending struct{}

// row returns the row of a pending domain. Its content has the record, so that a check
// which begins within a minute needs no read of its own; but not one that its check would
// refuse, which reads the record again and says what is wrong. A record outside the
// specification may be pending unless it reads as verified: it is a refused row.
func (pending) row(_ context.Context, p sweep.Progress, organization string, l listed,
	at time.Time) (*ledger.FoundRow, error) {
	d := l.Record
	if d.Status == apiclient.StatusVerified {
		return nil, nil
	}
	row := tasks.VerifyRow{OrganizationID: organization, DiscoveryDomainID: d.ID}
	bad := outsideSpec(organization, l)
	switch {
	case bad != nil:
		row.DiscoveryDomainID = name(d.ID)
	case recordOf(organization, d, p).CheckRecord() == nil && !at.IsZero():
		row.Listed = &tasks.ListedDomain{DiscoveryDomain: d, At: at}
	}
	return found(organization, row, bad)
}

// States is the part of [sweep.Store] that a scan needs.
type States interface {
	// Domain returns the state of a domain, by its id; nil: none is stored.
	Domain(ctx context.Context, id string) ([]byte, error)
}

// swept searches for the domains that a sweep checks. Its rows are of kind domain:recheck.
type swept struct{ states States }

// row returns the row of a verified domain, and of another one if the sweep is to prove
// these or the domain has a state: a sweep may have set it to pending. A record outside
// the specification may be verified unless it reads as pending.
func (s swept) row(ctx context.Context, p sweep.Progress, organization string, l listed,
	_ time.Time) (*ledger.FoundRow, error) {
	d := l.Record
	wanted := d.Status == apiclient.StatusVerified || l.Err != nil
	if d.Status == apiclient.StatusPending || l.Err == nil && d.Status != apiclient.StatusVerified {
		var err error
		if wanted, err = s.wantsPending(ctx, p, d.ID); err != nil {
			return nil, err
		}
	}
	if !wanted {
		return nil, nil
	}
	content, bad := recordOf(organization, d, p), outsideSpec(organization, l)
	if bad == nil {
		bad = content.CheckRecord()
	}
	if bad != nil { // the members that name it
		content = tasks.RecheckRow{
			OrganizationID: organization, DiscoveryDomainID: name(d.ID), Domain: name(d.Domain),
			Status: apiclient.DomainStatus(name(string(d.Status))), Tick: p.Tick,
		}
	}
	row, err := found(organization, content, bad)
	if due := p.Due(d.ID); err == nil && bad == nil && due > 0 {
		row.Due = time.Unix(due, 0).UTC()
	}
	return row, err
}

func (s swept) wantsPending(ctx context.Context, p sweep.Progress, domain string) (bool, error) {
	if p.Pending || apiclient.CheckID("discovery_domain_id", domain) != nil {
		return p.Pending, nil // a record without an id has no state
	}
	state, err := s.states.Domain(ctx, domain)
	return state != nil, err
}
