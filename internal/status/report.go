package status

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/dnscheck"
	"orgops/dnscheck/report"
	"orgops/internal/ledger"
	"orgops/tasks"
)

// DomainReport is the state of a discovery domain for its owner, as workers have stored it. It
// names no run, caller or operator.
type DomainReport struct {
	KnownDomain

	// Checked reports whether the row of the domain that was executed last is open, or one that was
	// asked for: their executions check the record. Held is why that row does not start; "": it may.
	Checked bool   `json:"checked"`
	Held    string `json:"held,omitempty"`
	// Until is when that row expires if its checks find no record until then, and later if they have
	// no answer; zero: not known, or there is no open row.
	Until time.Time `json:"checked_until,omitzero"`
	// Reason is the result of the last check with the remedy, and Finding the mistake in the record;
	// "" and nil: there is none, or it is not known.
	Reason  string          `json:"reason,omitempty"`
	Finding *report.Finding `json:"finding,omitempty"`
	// ProvenAt is the time of the last stored proof; zero: none is stored.
	ProvenAt time.Time `json:"proven_at,omitzero"`
	// AbsentSince is the first time of the sweeps that found the record of the verified domain
	// absent; zero: the last sweep did not.
	AbsentSince time.Time `json:"absent_since,omitzero"`
	// Check is the effect of a requested check; "": none was requested.
	Check CheckEffect `json:"check,omitempty"`

	domain Domain // with the row that was executed last, unless its run is deleted
	open   openAt // the open row
}

// openAt is the place of a domain's open row; zero: there is none.
type openAt struct {
	segment ledger.Segment
	row     ledger.Row
}

// Report returns the state of a domain of the index of names, or [ledger.ErrNotFound]. It reads a
// fixed number of keys.
func Report(ctx context.Context, rdb redis.Cmdable, l *ledger.Ledger, tenant,
	id string) (DomainReport, error) {
	subject, err := l.Subject(ctx, ledger.Tenant(tenant), id)
	if err != nil {
		return DomainReport{}, err
	}
	known, err := knownDomain(tenant, subject)
	if err != nil {
		return DomainReport{}, err
	}
	d := Domain{DomainName: known.DomainName, Known: &known}
	if err := d.addLast(ctx, l); err != nil {
		return DomainReport{}, err
	}
	if err := d.readSwept(ctx, rdb); err != nil {
		return DomainReport{}, err
	}
	if err := d.readAwaited(ctx, rdb); err != nil {
		return DomainReport{}, err
	}
	r := DomainReport{KnownDomain: known, domain: d}
	if err := r.readOpen(ctx, l); err != nil {
		return DomainReport{}, err
	}
	for _, row := range d.Rows {
		switch e := row.Evidence; {
		case e == nil:
		case e.IsProof():
			r.ProvenAt = e.At
		case known.State != dnscheck.Present.String():
			r.Reason = row.sentence
			if len(e.Findings) > 0 && e.State == dnscheck.Absent.String() {
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

// readOpen adds whether a row of the domain is open: the one that was executed last, or one that
// was submitted by a check.
func (r *DomainReport) readOpen(ctx context.Context, l *ledger.Ledger) error {
	for _, row := range r.domain.Rows {
		if row.Outcome == "" && row.Kind == tasks.TypeVerify {
			r.Checked = true
			r.Held = Stopped(row.Ledger)
			r.Next = row.NextCheck
			r.Until = row.Until
			r.open = openAt{r.last.in(row.Ledger), r.last.row}
			return nil
		}
	}
	if r.Status == "verified" {
		return nil
	}
	_, open, err := CheckRun(ctx, l, r.KnownDomain)
	if err == nil && open.ID != "" {
		r.Checked = true
		r.Held = Stopped(open)
		r.Next = time.Time{}
		r.open.segment = ledger.Segment{Tenant: open.Tenant, Run: open.ID, Incarnation: open.Incarnation}
	}
	return err
}

// OpenRow returns the place of the domain's open row; ok is false if there is none.
func (r DomainReport) OpenRow() (segment ledger.Segment, row ledger.Row, ok bool) {
	return r.open.segment, r.open.row, r.open != openAt{}
}

// Domain returns the domain with its rows, whose texts are not all for its owner.
func (r DomainReport) Domain() Domain { return r.domain }

// CheckEffect is the effect of a requested check: see package actions.
type CheckEffect string

// The effects.
const (
	// CheckDue: the domain's open row is checked as soon as workers have time, or is being checked.
	CheckDue CheckEffect = "due"
	// CheckLater: the last attempt of the domain's open row failed. The next one is made by itself: a
	// requested check uses up no attempt.
	CheckLater CheckEffect = "later"
	// CheckSubmitted: a row was submitted, since the domain had no open one.
	CheckSubmitted CheckEffect = "submitted"
	// CheckShared: a check of the domain was requested in the same minute, and may have read the
	// record already. The open row is checked once more when the next minute begins.
	CheckShared CheckEffect = "shared"
)

// CheckRun returns the id of the run by which a check of the domain is submitted, and the run if it
// is open. Until a worker has executed its row, another check has the same id, so that rows do not
// add up while the tenant is stopped; unless the run has ended without that, since it was
// cancelled.
func CheckRun(ctx context.Context, l *ledger.Ledger, d KnownDomain) (id ledger.RunID, open ledger.Run, err error) {
	for at := d.At; ; at = open.EndedAt {
		sum := sha256.Sum256([]byte(d.ID + " " + at.String()))
		id = ledger.RunID(fmt.Sprintf("check-%x", sum[:8]))
		open, err = l.Get(ctx, ledger.Tenant(d.Tenant), id)
		if errors.Is(err, ledger.ErrNotFound) {
			return id, ledger.Run{}, nil
		}
		if err != nil || !open.Ended() {
			return id, open, err
		}
	}
}
