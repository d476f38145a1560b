package status

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/dnscheck"
	"orgops/internal/ledger"
	"orgops/internal/runs"
	"orgops/tasks"
)

// DomainReport says where a discovery domain stands, by what the workers have stored of it. The
// domain's owner may read it: it names no run, caller or operator.
type DomainReport struct {
	KnownDomain

	// Checked reports whether an open row has the record checked, so that the domain is verified
	// once it is there. Held is why that row waits although its time has come; "": it does not.
	Checked bool   `json:"checked"`
	Held    string `json:"held,omitempty"`
	// Reason is what the last check found instead of the record, with the remedy, and Finding the
	// mistake in it; "" and nil: nothing is wrong, or it is not known.
	Reason  string            `json:"reason,omitempty"`
	Finding *dnscheck.Finding `json:"finding,omitempty"`
	// ProvenAt is when the record was proven last; zero: it was not, or that is not stored any more.
	ProvenAt time.Time `json:"proven_at,omitzero"`
	// AbsentSince is since when sweeps have found the record of a verified domain absent; zero:
	// they have not.
	AbsentSince time.Time `json:"absent_since,omitzero"`
	// Check is the effect of [CheckNow]; "": none was asked for.
	Check CheckEffect `json:"check,omitempty"`

	row *DomainRow // the one that was executed last; nil: its run is deleted
}

// Report reads where the domain stands, or [ledger.ErrNotFound]. It reads a fixed number of keys.
func Report(ctx context.Context, rdb redis.UniversalClient, l *runs.Ledger, tenant, id string) (DomainReport, error) {
	subject, err := l.Core().Subject(ctx, ledger.Tenant(tenant), id)
	if err != nil {
		return DomainReport{}, err
	}
	known, err := knownDomain(tenant, subject)
	if err != nil {
		return DomainReport{}, err
	}
	d, err := DomainOf(ctx, rdb, l, known.DomainName, 0)
	if err != nil || d.Known == nil {
		return DomainReport{}, err
	}
	known = *d.Known
	r := DomainReport{KnownDomain: known}
	for _, row := range d.Rows {
		r.row = &row
		r.Checked = row.Outcome == "" && row.Kind == tasks.TypeVerify
		if r.Checked {
			r.Held = Stopped(row.Ledger)
		}
		switch e := row.Evidence; {
		case e == nil:
		case e.Compared != nil:
			r.ProvenAt = e.At
		case known.State != dnscheck.Present.String():
			r.Reason = e.Advice()
			if len(e.Findings) > 0 {
				r.Finding = &e.Findings[0]
			}
		}
	}
	if s := d.Swept; s != nil {
		if s.ProvenAt.After(r.ProvenAt) {
			r.ProvenAt = s.ProvenAt
		}
		if s.Absence != nil {
			r.AbsentSince = s.Absence.Since
			if r.Reason == "" {
				r.Reason = s.Sentence
			}
		}
	}
	return r, nil
}
