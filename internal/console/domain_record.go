package console

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orgops/dnscheck/dnsname"
	"orgops/internal/discovery"
	"orgops/internal/view"
	"orgops/tasks"
)

// recordWait is how long a page waits for the API's record, permit included.
const recordWait = 6 * time.Second

// Bounds of the reads of the API, each of which takes a permit from the tenant's tasks.
const (
	readEvery = 500 * time.Millisecond
	readBurst = 20
)

// mayRead waits until the API may be read once.
func (s *site) mayRead(ctx context.Context) error {
	if err := s.reads.Wait(ctx); err != nil {
		return fmt.Errorf(
			"too many requests to the API: these pages send at most two a second (%w); try again in a few seconds", err)
	}
	return nil
}

// readRecord reads the API's record; its request waits for a permit.
func (s *site) readRecord(ctx context.Context, d view.Domain) (discovery.Domain, error) {
	here, served := s.here.of(d.In())
	if !served || here.API == nil {
		return discovery.Domain{},
			fmt.Errorf(
				"this worker does not serve tenant %s, so it has no credentials for the API: open the pages of a worker that does",
				d.Tenant)
	}
	ctx, cancel := context.WithTimeout(ctx, recordWait)
	defer cancel()
	if err := s.mayRead(ctx); err != nil {
		return discovery.Domain{}, err
	}
	record, err := here.API.DiscoveryDomain(ctx, d.Organization, d.ID)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %s, including the wait for a permit: see the tenant's page for delays (%w)",
			recordWait, err)
	}
	if err != nil {
		return discovery.Domain{}, err
	}
	return discovery.Of(d.Organization, record), nil
}

// pagesOfNames is how many pages of an organization's domains are read to find a name: a
// thousand domains, a permit for each hundred.
const pagesOfNames = 10

// listedAs returns the id of the domain that has a name instead of an id; empty if its organization
// has none of that name.
func (s *site) listedAs(ctx context.Context, here Tenant, named view.Domain) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, recordWait)
	defer cancel()
	from := ""
	for range pagesOfNames {
		if err := s.mayRead(ctx); err != nil {
			return "", err
		}
		page, next, err := here.API.DiscoveryDomainsPage(ctx, named.Organization, from)
		if err != nil {
			return "", errors.New("the organization's domains could not be listed: " + printable(err.Error()))
		}
		for _, l := range page {
			if dnsname.Key(l.Record.Domain) != dnsname.Typed(named.ID) {
				continue
			}
			if l.Err != nil && tasks.CheckDomainID(l.Record.ID) != nil {
				return "", errors.New("the API's record of that name violates the specification: " + printable(l.Err.Error()))
			}
			return l.Record.ID, nil // reading it finds other faults
		}
		if next == "" {
			return "", nil
		}
		from = next
	}
	return "", nil
}
