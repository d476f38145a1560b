package status

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/dnscheck/dnsname"
	"orgops/internal/index"
	"orgops/internal/ledger"
)

// DomainName names a discovery domain.
type DomainName struct {
	Organization string `json:"organization_id"`
	ID           string `json:"discovery_domain_id"`
	Tenant       string `json:"tenant"`
}

// KnownDomain is the entry of a discovery domain in the index of names, as the last execution of a
// row about it has read it.
type KnownDomain struct {
	DomainName

	Name   string    `json:"domain"`
	Host   string    `json:"verification_host"`
	TXT    string    `json:"verification_txt"` // "": too long to be kept
	Status string    `json:"status"`
	Read   time.Time `json:"read_at"` // the record
	// State is the result of the last check: present, absent or unknown; "": the last row made
	// none.
	State string    `json:"state,omitempty"`
	At    time.Time `json:"checked_at"`
	Next  time.Time `json:"next_check,omitzero"`

	last domainRow
}

// domainRow names the row that was executed last; its run may be deleted.
type domainRow struct {
	run     ledger.RunID
	segment int
	row     ledger.Row
}

// Found are the domains that a text may mean.
type Found struct {
	// Domains have it as their id or name, or names that begin with it if Prefix is true.
	Domains []KnownDomain
	Prefix  bool
	// More says that not all domains were read that may be meant.
	More bool
}

// The bounds of a search: how many domains are read at a time, and at most.
const (
	findPage = 200
	findMost = 10_000
)

// Find returns at most n domains of the tenant whose id or name is the text, in any case and in
// Unicode or punycode, or, if there is none, whose names begin with it; of these it keeps those for
// which keep is true. It reads the index of names, which has the domains of executed rows.
func Find(ctx context.Context, l *ledger.Ledger, tenant, text string, n int,
	keep func(KnownDomain) bool) (found Found, err error) {
	t, key := ledger.Tenant(tenant), dnsname.Key(text)
	byID := func(skip int) ([]ledger.Subject, error) {
		s, err := l.Subject(ctx, t, text)
		if skip > 0 || errors.Is(err, ledger.ErrNotFound) {
			return nil, nil
		}
		return []ledger.Subject{s}, err
	}
	byName := func(skip int) ([]ledger.Subject, error) { return l.SubjectsNamed(ctx, t, key, skip, findPage) }
	byPrefix := func(skip int) ([]ledger.Subject, error) { return l.Subjects(ctx, t, key, skip, findPage) }
	for i, read := range []func(skip int) ([]ledger.Subject, error){byID, byName, byPrefix} {
		found, err = kept(tenant, read, n, keep)
		if found.Prefix = i == 2; err != nil || len(found.Domains) > 0 {
			break
		}
	}
	return found, err
}

// FindOf returns at most n domains of an organization, as Find does, among the first of the index.
func FindOf(ctx context.Context, l *ledger.Ledger, tenant, organization string, n int,
	keep func(KnownDomain) bool) (Found, error) {
	read := func(skip int) ([]ledger.Subject, error) {
		return l.Subjects(ctx, ledger.Tenant(tenant), "", skip, findPage)
	}
	return kept(tenant, read, n, func(k KnownDomain) bool { return k.Organization == organization && keep(k) })
}

// kept returns the first n of the domains that are read, page by page, for which keep is true.
func kept(tenant string, read func(skip int) ([]ledger.Subject, error), n int,
	keep func(KnownDomain) bool) (found Found, err error) {
	for skip := 0; skip < findMost; skip += findPage {
		subjects, err := read(skip)
		if err != nil {
			return Found{}, err
		}
		for _, s := range subjects {
			k, err := knownDomain(tenant, s)
			if err != nil {
				return Found{}, err
			}
			if keep(k) {
				found.Domains = append(found.Domains, k)
			}
			if len(found.Domains) == n {
				return found, nil
			}
		}
		if len(subjects) < findPage {
			return found, nil
		}
	}
	found.More = true
	return found, nil
}

func knownDomain(tenant string, s ledger.Subject) (KnownDomain, error) {
	k, err := index.Read(s)
	return KnownDomain{
		DomainName: DomainName{Tenant: tenant, Organization: k.OrganizationID, ID: k.ID}, Name: k.Domain,
		Host: k.Host, TXT: k.TXT,
		Status: string(k.Status), Read: k.Read, State: k.State, At: k.At, Next: k.Next,
		last: domainRow{k.Run, k.Segment, k.Row},
	}, err
}

// LearnNames says how the names of a tenant's domains get into the index.
func LearnNames(tenant string) string {
	return fmt.Sprintf(
		"have the tenant's domains read: `enqueue domains verify --tenant %s --pending` reads those that are pending, "+
			"`enqueue domains sweep --tenant %s` those that are verified", tenant, tenant)
}
