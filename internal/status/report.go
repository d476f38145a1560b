package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/dnscheck"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/tenant"
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
func Report(ctx context.Context, rdb redis.UniversalClient, l *ledger.Ledger, tenant, id string) (DomainReport, error) {
	subject, err := l.Subject(ctx, ledger.Tenant(tenant), id)
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

// CheckEffect is the effect of [CheckNow].
type CheckEffect string

// The effects.
const (
	// CheckDue: the domain's open row is checked as soon as workers have time, or is being checked.
	CheckDue CheckEffect = "due"
	// CheckSubmitted: a row was submitted, since the domain had no open one.
	CheckSubmitted CheckEffect = "submitted"
	// CheckShared: the check was asked for within the same minute.
	CheckShared CheckEffect = "shared"
)

// The checks that may be asked for in a minute.
const (
	organizationChecks = 10
	tenantChecks       = 60
	// checkShare is the part of the tenant's rate that they may use, and checkRequests what each of
	// them takes at most.
	checkShare    = 0.05
	checkRequests = 2
)

// TooManyChecks is the error of a check beyond what may be asked for.
type TooManyChecks struct {
	Of string // "organization" or "tenant"
	// After is when to ask again.
	After time.Duration
}

func (e *TooManyChecks) Error() string {
	return fmt.Sprintf("too many checks of this %s were asked for: ask again in %s", e.Of, e.After)
}

// ErrVerified is the error of a check of a verified domain: sweeps check these.
var ErrVerified = errors.New("the domain is verified: nothing is to be checked")

// CheckNow has workers check the domain's record now: the domain's open row becomes due, or one is
// submitted in the name of the caller. Nothing else changes: the row waits for pace, pauses, stops
// and blocks as others do. The error is [ErrVerified] or a [TooManyChecks] if nothing was done.
func CheckNow(ctx context.Context, rdb redis.UniversalClient, l *ledger.Ledger, d DomainReport,
	caller string) (CheckEffect, error) {
	if d.Status == "verified" {
		return "", ErrVerified
	}
	settings, _, err := tenant.ReadAnnounced(ctx, rdb, d.Tenant)
	if err != nil {
		return "", err
	}
	if check, err := countCheck(ctx, rdb, d, settings); err != nil || check != "" {
		return check, err
	}
	if d.Checked {
		_, err := l.Hasten(ctx, d.last.in(d.row.Ledger), d.last.row)
		if !errors.Is(err, ledger.ErrNotFound) {
			return CheckDue, err
		}
	}
	row := tasks.VerifyRow{OrganizationID: d.Organization, DiscoveryDomainID: d.ID}
	content, err := json.Marshal(row)
	if err != nil {
		return "", err
	}
	_, _, err = l.SubmitRow(ctx, ledger.NewRun{
		ID: ledger.RunID(tasks.NewRunID(time.Now())), Tenant: ledger.Tenant(d.Tenant), Kind: tasks.TypeVerify,
		Description: ledger.Description{
			Label: "check now", Caller: caller, Format: intake.FormatJSONL, GiveUp: settings.GiveUp,
		},
	}, content)
	return CheckSubmitted, err
}

// checkScript counts a check of a domain in a minute, once, unless there would be too many.
var checkScript = redis.NewScript(`
local domain, organization = 'd:' .. ARGV[1], 'o:' .. ARGV[2]
if redis.call('HEXISTS', KEYS[1], domain) == 1 then return 'shared' end
if tonumber(redis.call('HGET', KEYS[1], organization) or 0) >= tonumber(ARGV[3]) then return 'organization' end
if tonumber(redis.call('HGET', KEYS[1], 'all') or 0) >= tonumber(ARGV[4]) then return 'tenant' end
redis.call('HSET', KEYS[1], domain, '1')
redis.call('HINCRBY', KEYS[1], organization, 1)
redis.call('HINCRBY', KEYS[1], 'all', 1)
redis.call('EXPIRE', KEYS[1], 120)
return ''`)

// countCheck returns [CheckShared] if the domain's check was counted before in this minute.
func countCheck(ctx context.Context, rdb redis.UniversalClient, d DomainReport,
	s tenant.Announced) (CheckEffect, error) {
	most := tenantChecks
	// Without a limit no worker has announced one.
	if limit, err := s.Limit(); err == nil && !limit.Rate.IsUnlimited() {
		most = min(most, max(1, int(limit.Rate.PerSecond()*60*checkShare/checkRequests)))
	}
	now := time.Now().UTC()
	key := "orgops:v3:{tenant:" + d.Tenant + "}:checks:" + now.Format("1504")
	of, err := checkScript.Run(ctx, rdb, []string{key}, d.ID, d.Organization, organizationChecks, most).Text()
	switch {
	case err != nil:
		return "", fmt.Errorf("count the checks of tenant %s: %w", d.Tenant, err)
	case of == "shared":
		return CheckShared, nil
	case of != "":
		left := time.Minute - now.Sub(now.Truncate(time.Minute))
		return "", &TooManyChecks{Of: of, After: left.Round(time.Second) + time.Second}
	}
	return "", nil
}
