package status

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/dnscheck"
	"orgops/dnscheck/report"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/tenant"
	"orgops/tasks"
)

// DomainReport is the state of a discovery domain for its owner, as workers have stored it. It
// names no run, caller or operator.
type DomainReport struct {
	KnownDomain

	// Checked reports whether the domain has an open row, whose executions check the record. Held is
	// why that row does not start; "": it may.
	Checked bool   `json:"checked"`
	Held    string `json:"held,omitempty"`
	// Reason is the result of the last check with the remedy, and Finding the mistake in the record;
	// "" and nil: there is none, or it is not known.
	Reason  string          `json:"reason,omitempty"`
	Finding *report.Finding `json:"finding,omitempty"`
	// ProvenAt is the time of the last stored proof; zero: none is stored.
	ProvenAt time.Time `json:"proven_at,omitzero"`
	// AbsentSince is the first time of the sweeps that found the record of the verified domain
	// absent; zero: the last sweep did not.
	AbsentSince time.Time `json:"absent_since,omitzero"`
	// Check is the effect of [CheckNow]; "": it was not called.
	Check CheckEffect `json:"check,omitempty"`

	domain Domain // with the row that was executed last, unless its run is deleted
}

// Report returns the state of a domain of the index of names, or [ledger.ErrNotFound]. It reads a
// fixed number of keys.
func Report(ctx context.Context, rdb redis.UniversalClient, l *ledger.Ledger, tenant,
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
	r := DomainReport{KnownDomain: known, domain: d}
	if err := r.readOpen(ctx, l); err != nil {
		return DomainReport{}, err
	}
	for _, row := range d.Rows {
		switch e := row.Evidence; {
		case e == nil:
		case e.Compared != nil:
			r.ProvenAt = e.At
		case known.State != dnscheck.Present.String():
			r.Reason = row.sentence
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

// readOpen adds whether a row of the domain is open: the one that was executed last, or one that
// was submitted by a check.
func (r *DomainReport) readOpen(ctx context.Context, l *ledger.Ledger) error {
	for _, row := range r.domain.Rows {
		if row.Outcome == "" && row.Kind == tasks.TypeVerify {
			r.Checked, r.Held = true, Stopped(row.Ledger)
			return nil
		}
	}
	if r.Status == "verified" {
		return nil
	}
	_, open, err := checkRun(ctx, l, r.KnownDomain)
	if err == nil && open.ID != "" {
		r.Checked, r.Held, r.Next = true, Stopped(open), time.Time{}
	}
	return err
}

// Instructions returns the record to publish: see [Domain.Instructions].
func (r DomainReport) Instructions(ctx context.Context, checker *dnscheck.Checker) (Instructions, error) {
	return r.domain.Instructions(ctx, checker)
}

// CheckEffect is the effect of [CheckNow].
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
	// CheckShared: a check of the domain was requested in the same minute.
	CheckShared CheckEffect = "shared"
)

// The most checks that are requested in a minute, and by the links to a domain in a day (UTC).
const (
	linkChecks         = 30
	organizationChecks = 10
	tenantChecks       = 60
	// checkShare is the part of the tenant's rate that they may use, and checkRequests what each of
	// them takes at most.
	checkShare    = 0.05
	checkRequests = 2
)

// TooManyChecks is the error of a check beyond the most of a minute, or of a day.
type TooManyChecks struct {
	Of string // "link", "organization" or "tenant"
	// After is when the next check may be requested.
	After time.Duration
}

func (e *TooManyChecks) Error() string {
	return fmt.Sprintf("too many checks of this %s were requested: repeat the request in %s", e.Of, e.After)
}

// ErrVerified is the error of a check of a verified domain: sweeps check these.
var ErrVerified = errors.New("the domain is verified: there is nothing to check")

// Requester is the origin of a check.
type Requester struct {
	Caller string        // in whose name a row is submitted
	GiveUp time.Duration // of that row; 0: the tenant's setting
	Link   bool          // the request is by a link
}

// CheckNow makes the domain's open row due, or submits one. The row waits for pace, pauses, stops
// and blocks as others do. The error is [ErrVerified] or a [TooManyChecks] if nothing was done.
func CheckNow(ctx context.Context, rdb redis.UniversalClient, l *ledger.Ledger, d DomainReport,
	by Requester) (CheckEffect, error) {
	if d.Status == "verified" {
		return "", ErrVerified
	}
	settings, _, err := tenant.ReadAnnounced(ctx, rdb, d.Tenant)
	if err != nil {
		return "", err
	}
	if check, err := countCheck(ctx, rdb, d, by, settings); err != nil || check != "" {
		return check, err
	}
	for _, row := range d.domain.Rows {
		if row.Outcome == "" && row.Kind == tasks.TypeVerify {
			done, err := l.Hasten(ctx, d.last.in(row.Ledger), d.last.row)
			switch {
			case err == nil && done == ledger.RowFailing:
				return CheckLater, nil
			case !errors.Is(err, ledger.ErrNotFound):
				return CheckDue, err
			}
			d.Checked = false // its run was deleted meanwhile
		}
	}
	if d.Checked { // by a row that was submitted here, and that no worker has executed yet
		return CheckDue, nil
	}
	return CheckSubmitted, submit(ctx, l, d, by)
}

// KeepChecked submits a row of a domain that is not verified, if no row of it is open.
func KeepChecked(ctx context.Context, l *ledger.Ledger, d DomainReport, by Requester) error {
	if d.Status == "verified" || d.Checked {
		return nil
	}
	return submit(ctx, l, d, by)
}

func submit(ctx context.Context, l *ledger.Ledger, d DomainReport, by Requester) error {
	row := tasks.VerifyRow{OrganizationID: d.Organization, DiscoveryDomainID: d.ID}
	content, err := json.Marshal(row)
	if err != nil {
		return err
	}
	id, _, err := checkRun(ctx, l, d.KnownDomain)
	if err != nil {
		return err
	}
	_, _, err = l.SubmitRow(ctx, ledger.NewRun{
		ID: id, Tenant: ledger.Tenant(d.Tenant), Kind: tasks.TypeVerify,
		Description: ledger.Description{
			Label: "check now", Caller: by.Caller, Format: intake.FormatJSONL, GiveUp: by.GiveUp,
		},
	}, content)
	return err
}

// checkRun returns the id of a submitted check, and the run if it is open. Until a worker has
// executed its row, another check has the same id, so that rows do not add up while the tenant is
// stopped; unless the run has ended without that, since it was cancelled.
func checkRun(ctx context.Context, l *ledger.Ledger, d KnownDomain) (id ledger.RunID, open ledger.Run, err error) {
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

// checkScript counts a check of a domain in a minute, once, unless there would be too many, and
// among those by links in a day.
var checkScript = redis.NewScript(`
local domain, organization = 'd:' .. ARGV[1], 'o:' .. ARGV[2]
if redis.call('HEXISTS', KEYS[1], domain) == 1 then return 'shared' end
local by_link, most_by_link = ARGV[5] == '1', tonumber(ARGV[6])
if by_link and tonumber(redis.call('HGET', KEYS[2], ARGV[1]) or 0) >= most_by_link then return 'link' end
if tonumber(redis.call('HGET', KEYS[1], organization) or 0) >= tonumber(ARGV[3]) then return 'organization' end
if tonumber(redis.call('HGET', KEYS[1], 'all') or 0) >= tonumber(ARGV[4]) then return 'tenant' end
redis.call('HSET', KEYS[1], domain, '1')
redis.call('HINCRBY', KEYS[1], organization, 1)
redis.call('HINCRBY', KEYS[1], 'all', 1)
redis.call('EXPIRE', KEYS[1], 120)
if by_link then
	redis.call('HINCRBY', KEYS[2], ARGV[1], 1)
	redis.call('EXPIRE', KEYS[2], 2 * 86400)
end
return ''`)

// countCheck returns [CheckShared] if the domain's check was counted before in this minute.
func countCheck(ctx context.Context, rdb redis.UniversalClient, d DomainReport, by Requester,
	s tenant.Announced) (CheckEffect, error) {
	most := tenantChecks
	// Without a limit no worker has announced one.
	if limit, err := s.Pace(); err == nil && !limit.Rate.IsUnlimited() {
		most = min(most, max(1, int(limit.Rate.PerSecond()*60*checkShare/checkRequests)))
	}
	now := time.Now().UTC()
	checks := "orgops:v3:{tenant:" + d.Tenant + "}:checks:"
	keys := []string{checks + now.Format("1504"), checks + now.Format(time.DateOnly)}
	of, err := checkScript.Run(ctx, rdb, keys, d.ID, d.Organization, organizationChecks, most, by.Link, linkChecks).Text()
	switch {
	case err != nil:
		return "", fmt.Errorf("count the checks of tenant %s: %w", d.Tenant, err)
	case of == "shared":
		return CheckShared, nil
	case of != "":
		period := time.Minute
		if of == "link" {
			period = 24 * time.Hour
		}
		left := period - now.Sub(now.Truncate(period))
		return "", &TooManyChecks{Of: of, After: left.Round(time.Second) + time.Second}
	}
	return "", nil
}
