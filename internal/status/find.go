package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/apiclient/schema"
	"orgops/dnscheck/dnsname"
	"orgops/internal/discovery"
	"orgops/internal/ids"
	"orgops/internal/index"
	"orgops/internal/ledger"
	"orgops/internal/redisconn"
	"orgops/internal/remedy"
	"orgops/internal/sweep"
	"orgops/internal/tenant"
	"orgops/internal/untrusted"
	"orgops/tasks"
)

// DomainName names a discovery domain.
type DomainName struct {
	Organization string `json:"organization_id"`
	ID           string `json:"discovery_domain_id"`
	Tenant       string `json:"tenant"`
}

// Verify is the command that submits a row of the domain, whatever became of former ones.
func (d DomainName) Verify() remedy.Command {
	return remedy.Command{Name: "domains verify",
		Flags: fmt.Sprintf("--tenant %s --org %s --domain %s", d.Tenant, d.Organization, d.ID)}
}

// KnownDomain is the entry of a discovery domain in the index of names, as the last execution of a
// row about it has read it.
type KnownDomain struct {
	DomainName

	Name   string    `json:"domain"`
	Host   string    `json:"verification_host"`
	TXT    string    `json:"verification_txt"` // "": too long to be kept
	Status string    `json:"status"`
	Read   time.Time `json:"read_at"` // the record; zero: it is the platform's, or only sweeps know the domain
	// Flag is use_for_organization_discovery; nil: not known, or the record has none.
	Flag *bool `json:"-"`
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

// DomainQuery selects domains of tenants.
type DomainQuery struct {
	// Tenant is the tenant of the domains; "": any of those that have, or had, a run and for which
	// InTenant is true.
	Tenant   string
	InTenant func(name string) bool // nil: it is true for each
	// ID is a discovery domain id. Name is a name as a person types it ([dnsname.Typed]), or the
	// beginning of one. A text may be given as both. Without either the domains of the organization
	// are selected.
	ID, Name string
	// Organization is the organization of the domains; "": any.
	Organization string
	// Swept selects also the domain of the ID that sweeps alone have stored; the result has its ids
	// and its name.
	Swept bool
	// Keep reports whether a domain is selected; nil: each is.
	Keep func(KnownDomain) bool
	// Most bounds how many domains are found, at least 1.
	Most int
}

// Found are the domains that a query selects, in the order of their tenants and names.
type Found struct {
	Domains []KnownDomain
	// Prefix says that no domain has the id or the name, and that the names of these begin with it.
	Prefix bool
	// More says that there may be others.
	More bool
}

// The bounds of a search in a tenant: how many domains are read at a time, and at most.
const (
	findPage = 200
	findMost = 10_000
)

// NoTenantError says that a tenant does not exist: no worker has served it here, and nothing of it
// is stored.
type NoTenantError struct{ Name string }

func (e *NoTenantError) Error() string { return "there is no tenant " + untrusted.Plain(e.Name, 100) }

// Find returns the domains that a query selects: those whose id or name is the given one, in
// whichever tenant, or, if there is none, those whose names begin with it. It reads the index of
// names, which has the domains of executed rows. If it finds none and the query's tenant does not
// exist, the error is a [NoTenantError].
func Find(ctx context.Context, rdb redis.Cmdable, q DomainQuery) (Found, error) {
	if name := dnsname.Typed(q.Name); name != "" {
		q.Name = name
	}
	tenants, err := q.tenants(ctx, rdb)
	if err != nil {
		return Found{}, err
	}
	var found Found
	switch {
	case q.ID == "" && q.Name == "":
		found, err = q.in(ctx, rdb, tenants, q.ofOrganization)
	default:
		found, err = q.in(ctx, rdb, tenants, q.exact)
		if err != nil || len(found.Domains) > 0 || q.Name == "" {
			break
		}
		found, err = q.in(ctx, rdb, tenants, q.beginning)
		found.Prefix = len(found.Domains) > 0
	}
	if err != nil {
		return Found{}, err
	}
	if len(found.Domains) == 0 && q.Tenant != "" {
		return found, CheckExists(ctx, rdb, q.Tenant)
	}
	return found, nil
}

// CheckExists returns a [NoTenantError] unless a worker has served the tenant here, or a run of it
// is or was stored.
func CheckExists(ctx context.Context, rdb redis.Cmdable, name string) error {
	if ids.CheckTenant(name) != nil {
		return &NoTenantError{name}
	}
	names, err := Tenants(ctx, ledger.New(rdb))
	if err != nil || slices.Contains(names, name) {
		return err
	}
	_, served, err := tenant.ReadAnnounced(ctx, rdb, name)
	if err == nil && !served {
		err = &NoTenantError{name}
	}
	return err
}

// Tenants returns the names of the tenants that have, or had, a run, and of those of the sessions,
// in order.
func Tenants(ctx context.Context, l *ledger.Ledger, sessions ...ledger.Session) (names []string, err error) {
	all, err := l.Tenants(ctx)
	for _, s := range sessions {
		all = append(all, s.Tenants...)
	}
	for _, t := range all {
		names = append(names, string(t))
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// tenants returns the tenants that are searched.
func (q DomainQuery) tenants(ctx context.Context, rdb redis.Cmdable) ([]string, error) {
	if q.Tenant != "" {
		return []string{q.Tenant}, nil
	}
	names, err := Tenants(ctx, ledger.New(rdb))
	return slices.DeleteFunc(names, func(name string) bool { return q.InTenant != nil && !q.InTenant(name) }), err
}

// readTenant reads domains of a tenant, and calls found for each until that returns false.
type readTenant func(ctx context.Context, rdb redis.Cmdable, tenant string,
	found func(KnownDomain) bool) (more bool, err error)

// in returns what read finds in each of the tenants. The reads of all tenants are sent together.
func (q DomainQuery) in(ctx context.Context, rdb redis.Cmdable, tenants []string,
	read readTenant) (Found, error) {
	// What each tenant has.
	each := make([]Found, len(tenants))
	readOne := func(i int, rdb redis.Cmdable) error {
		one := &each[i]
		more, err := read(ctx, rdb, tenants[i], func(k KnownDomain) bool {
			if (q.Organization != "" && k.Organization != q.Organization) || (q.Keep != nil && !q.Keep(k)) {
				return true
			}
			if len(one.Domains) == q.Most {
				one.More = true
				return false
			}
			one.Domains = append(one.Domains, k)
			return true
		})
		one.More = one.More || more
		return err
	}
	var err error
	if len(tenants) == 1 {
		err = readOne(0, rdb)
	} else {
		err = redisconn.Batch(ctx, rdb, len(tenants), readOne)
	}

	// All of it, or the first.
	var all Found
	for _, one := range each {
		all.Domains = append(all.Domains, one.Domains...)
		all.More = all.More || one.More
	}
	if len(all.Domains) > q.Most {
		all.Domains = all.Domains[:q.Most]
		all.More = true
	}
	return all, err
}

// exact finds the domains that have the id or the name.
func (q DomainQuery) exact(ctx context.Context, rdb redis.Cmdable, tenant string,
	found func(KnownDomain) bool) (more bool, err error) {
	l := ledger.New(rdb)

	// By its id, which an older entry of the index may have lost to a newer one.
	if q.ID != "" {
		s, err := l.Subject(ctx, ledger.Tenant(tenant), q.ID)
		switch {
		case err == nil:
			k, err := knownDomain(tenant, s)
			if err != nil || !found(k) {
				return false, err
			}
		case !errors.Is(err, ledger.ErrNotFound):
			return false, err
		case q.Swept && tasks.CheckDomainID(q.ID) == nil:
			k, ok, err := sweptName(ctx, rdb, tenant, q.ID)
			if err != nil || (ok && !found(k)) {
				return false, err
			}
		}
	}

	// By its name.
	if q.Name == "" {
		return false, nil
	}
	return eachSubject(tenant, found, func(skip int) ([]ledger.Subject, error) {
		return l.SubjectsNamed(ctx, ledger.Tenant(tenant), q.Name, skip, findPage)
	})
}

// beginning finds the domains whose names begin with the name.
func (q DomainQuery) beginning(ctx context.Context, rdb redis.Cmdable, tenant string,
	found func(KnownDomain) bool) (more bool, err error) {
	l := ledger.New(rdb)
	return eachSubject(tenant, found, func(skip int) ([]ledger.Subject, error) {
		return l.Subjects(ctx, ledger.Tenant(tenant), q.Name, skip, findPage)
	})
}

// ofOrganization finds the domains of the organization.
func (q DomainQuery) ofOrganization(ctx context.Context, rdb redis.Cmdable, tenant string,
	found func(KnownDomain) bool) (more bool, err error) {
	subjects, more, err := ledger.New(rdb).SubjectsAbout(ctx, ledger.Tenant(tenant), q.Organization, findMost)
	for _, s := range subjects {
		k, err := knownDomain(tenant, s)
		if err != nil || !found(k) {
			return more, err
		}
	}
	return more, err
}

// eachSubject calls found for the domains that are read, page by page, until it returns false; more
// reports that not all were read.
func eachSubject(tenant string, found func(KnownDomain) bool,
	read func(skip int) ([]ledger.Subject, error)) (more bool, err error) {
	for skip := 0; skip < findMost; skip += findPage {
		subjects, err := read(skip)
		if err != nil {
			return false, err
		}
		for _, s := range subjects {
			k, err := knownDomain(tenant, s)
			if err != nil || !found(k) {
				return false, err
			}
		}
		if len(subjects) < findPage {
			return false, nil
		}
	}
	return true, nil
}

// sweptName returns the ids and the name of a domain whose state sweeps have stored; ok is false if
// there is none.
func sweptName(ctx context.Context, rdb redis.Cmdable, tenant, id string) (k KnownDomain, ok bool, err error) {
	value, err := sweep.NewStore(rdb, tenant).Domain(ctx, id)
	if err != nil || value == nil {
		return KnownDomain{}, false, err
	}
	s, err := sweep.ReadState(value)
	if err != nil {
		return KnownDomain{}, false, fmt.Errorf("discovery domain %s of tenant %s: %w", id, tenant, err)
	}
	return KnownOf(tenant, discovery.Domain{OrganizationID: s.OrganizationID, ID: id, Name: s.Domain}), true, nil
}

// knownDomain returns the domain of an entry of a tenant's index of names.
func knownDomain(tenant string, s ledger.Subject) (KnownDomain, error) {
	e, err := index.Read(s)
	k := KnownOf(tenant, e.Domain)
	k.Read = e.Read
	k.State = e.State
	k.At = e.At
	k.Next = e.Next
	k.last = domainRow{e.Run, e.Segment, e.Row}
	return k, err
}

// KnownOf returns a domain of the tenant by its record.
func KnownOf(tenant string, d discovery.Domain) KnownDomain {
	return KnownDomain{
		DomainName: DomainName{Tenant: tenant, Organization: d.OrganizationID, ID: d.ID},
		Name:       d.Name,
		Host:       d.Host,
		TXT:        d.TXT,
		Status:     string(d.Status),
		Flag:       d.Flag,
	}
}

// record returns the record of the domain.
func (k KnownDomain) record() discovery.Domain {
	return discovery.Domain{
		OrganizationID: k.Organization,
		ID:             k.ID,
		Name:           k.Name,
		Host:           k.Host,
		TXT:            k.TXT,
		Status:         schema.DomainStatus(k.Status),
		Flag:           k.Flag,
	}
}

// LearnNames says how the names of a tenant's domains get into the index; "": of any tenant.
func LearnNames(tenant string) string {
	tenant = cmp.Or(tenant, "TENANT")
	return fmt.Sprintf(
		"have the tenant's domains read: `enqueue domains verify --tenant %s --pending` reads those that are pending, "+
			"`enqueue domains sweep --tenant %s` those that are verified", tenant, tenant)
}
