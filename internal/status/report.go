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
	"orgops/internal/ledger"
	"orgops/internal/rowfile"
	"orgops/internal/tenant"
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
	// Check is the effect of [CheckNow]; "": it was not called.
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
	_, open, err := checkRun(ctx, l, r.KnownDomain)
	if err == nil && open.ID != "" {
		r.Checked = true
		r.Held = Stopped(open)
		r.Next = time.Time{}
		r.open.segment = ledger.Segment{Tenant: open.Tenant, Run: open.ID, Incarnation: open.Incarnation}
	}
	return err
}

// Domain returns the domain with its rows, whose texts are not all for its owner.
func (r DomainReport) Domain() Domain { return r.domain }

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
	// CheckShared: a check of the domain was requested in the same minute, and may have read the
	// record already. The open row is checked once more when the next minute begins.
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

// CheckNow makes the domain's open row due, or submits one, and sets Check and Next of the report.
// The row waits for pace, pauses, stops and blocks as others do. After a check in the same minute
// the row is due when the next minute begins, and counts as a check of that minute. The error is
// [ErrVerified] or a [TooManyChecks] if nothing was done.
func CheckNow(ctx context.Context, rdb redis.Cmdable, l *ledger.Ledger, d *DomainReport, by Requester) error {
	if d.Status == "verified" {
		return ErrVerified
	}
	settings, _, err := tenant.ReadAnnounced(ctx, rdb, d.Tenant)
	if err != nil {
		return err
	}

	// When it may be checked: in this minute, or else when the next one begins.
	now := time.Now().UTC()
	minute := now
	effect := CheckDue
	counted, err := countCheck(ctx, rdb, *d, by, settings, minute)
	if err == nil && !counted {
		minute = now.Truncate(time.Minute).Add(time.Minute)
		effect = CheckShared
		_, err = countCheck(ctx, rdb, *d, by, settings, minute)
	}
	if many, ok := errors.AsType[*TooManyChecks](err); ok {
		many.After += minute.Sub(now).Round(time.Second)
	}
	if err != nil {
		return err
	}

	// The open row is made due then, unless an execution begins by itself: then it is due, or no
	// worker has executed it yet.
	if d.open != (openAt{}) {
		done, err := l.Hasten(ctx, d.open.segment, d.open.row, minute)
		gone := errors.Is(err, ledger.ErrNotFound) || done == ledger.RowSettled // meanwhile
		if err != nil && !gone {
			return err
		}
		switch {
		case done == ledger.RowFailing:
			d.Check = CheckLater
			return nil
		case done == ledger.RowWritten:
			d.Check = effect
			d.Next = minute
			return nil
		case !gone:
			d.Check = CheckDue
			d.Next = now
			return nil
		}
		d.Checked = false
	}

	// There is no open row.
	d.Check = CheckSubmitted
	d.Next = now
	return submit(ctx, l, *d, by)
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
			Label: "check now", Caller: by.Caller, Format: rowfile.FormatJSONL, GiveUp: by.GiveUp,
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
redis.call('EXPIRE', KEYS[1], 180)
if by_link then
	redis.call('HINCRBY', KEYS[2], ARGV[1], 1)
	redis.call('EXPIRE', KEYS[2], 2 * 86400)
end
return ''`)

// countCheck counts a check of the domain in the minute of that time. It reports false if one was
// counted before.
func countCheck(ctx context.Context, rdb redis.Cmdable, d DomainReport, by Requester, s tenant.Announced,
	at time.Time) (counted bool, err error) {
	most := tenantChecks
	// Without a limit no worker has announced one.
	if limit, err := s.Pace(); err == nil && !limit.Rate.IsUnlimited() {
		most = min(most, max(1, int(limit.Rate.PerSecond()*60*checkShare/checkRequests)))
	}
	checks := "orgops:v3:{tenant:" + d.Tenant + "}:checks:"
	keys := []string{checks + at.Format("1504"), checks + at.Format(time.DateOnly)}
	of, err := checkScript.Run(ctx, rdb, keys, d.ID, d.Organization, organizationChecks, most, by.Link, linkChecks).Text()
	switch {
	case err != nil:
		return false, fmt.Errorf("count the checks of tenant %s: %w", d.Tenant, err)
	case of == "shared":
		return false, nil
	case of != "":
		period := time.Minute
		if of == "link" {
			period = 24 * time.Hour
		}
		left := period - at.Sub(at.Truncate(period))
		return false, &TooManyChecks{Of: of, After: left.Round(time.Second) + time.Second}
	}
	return true, nil
}
