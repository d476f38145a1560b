package actions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/rowfile"
	"orgops/internal/status"
	"orgops/internal/tenant"
	"orgops/tasks"
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

// CheckDomain makes the domain's open row due, or submits one, and sets Check and Next of the
// report. The row waits for pace, pauses, stops and blocks as others do. After a check in the same
// minute the row is due when the next minute begins, and counts as a check of that minute. The
// error is [ErrVerified] or a [TooManyChecks] if nothing was done.
func CheckDomain(ctx context.Context, rdb redis.Cmdable, l *ledger.Ledger, d *status.DomainReport, by Requester) error {
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
	effect := status.CheckDue
	counted, err := countCheck(ctx, rdb, *d, by, settings, minute)
	if err == nil && !counted {
		minute = now.Truncate(time.Minute).Add(time.Minute)
		effect = status.CheckShared
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
	if segment, row, open := d.OpenRow(); open {
		done, err := l.MakeDue(ctx, segment, row, minute)
		gone := errors.Is(err, ledger.ErrNotFound) || done == ledger.RowSettled // meanwhile
		if err != nil && !gone {
			return err
		}
		switch {
		case done == ledger.RowFailing:
			d.Check = status.CheckLater
			return nil
		case done == ledger.RowWritten:
			d.Check = effect
			d.Next = minute
			return nil
		case !gone:
			d.Check = status.CheckDue
			d.Next = now
			return nil
		}
		d.Checked = false
	}

	// There is no open row.
	d.Check = status.CheckSubmitted
	d.Next = now
	return submit(ctx, l, *d, by)
}

// KeepChecked submits a row of a domain that is not verified, if no row of it is open.
func KeepChecked(ctx context.Context, l *ledger.Ledger, d status.DomainReport, by Requester) error {
	if d.Status == "verified" || d.Checked {
		return nil
	}
	return submit(ctx, l, d, by)
}

func submit(ctx context.Context, l *ledger.Ledger, d status.DomainReport, by Requester) error {
	row := tasks.VerifyRow{OrganizationID: d.Organization, DiscoveryDomainID: d.ID}
	content, err := json.Marshal(row)
	if err != nil {
		return err
	}
	id, _, err := status.CheckRun(ctx, l, d.KnownDomain)
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
func countCheck(ctx context.Context, rdb redis.Cmdable, d status.DomainReport, by Requester, s tenant.Announced,
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
