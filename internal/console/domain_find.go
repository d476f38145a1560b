package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/intake"
	"orgops/internal/status"
	"orgops/tasks"
)

// pagesOfNames is how many pages of an organization's domains are read to find a name: a
// thousand domains, a permit for each hundred.
const pagesOfNames = 10

// leastAsked is the least length of an id or name: none is shorter, and a text that is in
// every row would have every row decoded.
const leastAsked = 4

// meant finds the domain. It returns the zero name if there are several, and sets them in p.
func (s *site) meant(ctx context.Context, p *domainPage) (status.DomainName, error) {
	if err := checkAsked(p); err != nil {
		return status.DomainName{}, &refusal{status: http.StatusBadRequest, text: err.Error()}
	}
	name := status.DomainName{Tenant: p.Tenant, Organization: p.Organization, ID: p.Domain}
	byName := strings.Contains(p.Domain, ".")
	if !byName && name.Organization != "" {
		return name, nil
	}
	found, err := s.candidates(ctx, p, byName)
	if err != nil {
		return status.DomainName{}, err
	}
	switch len(found) {
	case 0:
		return status.DomainName{}, &refusal{status: http.StatusBadRequest, text: notFound(p, byName)}
	case 1:
		return found[0], nil
	}
	p.Candidates = found
	return status.DomainName{}, nil
}

// checkAsked checks the input of the form.
func checkAsked(p *domainPage) error {
	err := tasks.CheckTenant(p.Tenant)
	if p.Organization != "" {
		err = errors.Join(err, apiclient.CheckID("organization", p.Organization))
	}
	switch {
	case p.Domain == "":
		err = errors.Join(err, errors.New("domain: want its id or its name"))
	case len(p.Domain) < leastAsked:
		err = errors.Join(err, fmt.Errorf("domain: too short, too many rows would match: want %d characters or more", leastAsked))
	case strings.Contains(p.Domain, "."):
		err = errors.Join(err, dnscheck.CheckHost(p.Domain))
	default:
		err = errors.Join(err, apiclient.CheckID("domain", p.Domain))
	}
	return err
}

func notFound(p *domainPage, byName bool) string {
	switch {
	case byName && p.Organization != "":
		return fmt.Sprintf("organization %s has no domain of that name among those read; try the id of the domain", p.Organization)
	case byName:
		return "no stored row has a host below that domain: name the organization too, or use the id of the domain"
	}
	return fmt.Sprintf("no run of tenant %s has a row for that domain, and no sweep has checked it: name the organization too", p.Tenant)
}

// candidates returns the domains that may be meant, each once.
func (s *site) candidates(ctx context.Context, p *domainPage, byName bool) ([]status.DomainName, error) {
	ctx, cancel := context.WithTimeout(ctx, lookUpWait)
	defer cancel()
	if t, served := s.tenant(p.Tenant); byName && p.Organization != "" && served && t.API != nil {
		if id, err := s.listedAs(ctx, t, p.Organization, p.Domain); err != nil || id != "" {
			return []status.DomainName{{Tenant: p.Tenant, Organization: p.Organization, ID: id}}, err
		}
		return nil, nil
	}
	var found []status.DomainName
	add := func(organization, id string) {
		d := status.DomainName{Tenant: p.Tenant, Organization: organization, ID: id}
		fits := p.Organization == "" || p.Organization == organization
		if fits && apiclient.CheckID("organization", organization) == nil && apiclient.CheckID("domain", id) == nil && !slices.Contains(found, d) {
			found = append(found, d)
		}
	}
	if !byName {
		r, ok, err := status.SweptDomainOf(ctx, s.Redis, p.Tenant, p.Domain)
		if err != nil {
			return nil, errors.New(unread(err))
		}
		if ok {
			add(r.OrganizationID, p.Domain)
		}
	}
	rows := intake.DomainRows
	if byName {
		rows = intake.NameRows
	}
	for row, err := range rows(ctx, s.Ledger, p.Tenant, p.Domain) {
		if err != nil {
			return nil, errors.New(unread(err))
		}
		if add(row.Organization, row.Domain); len(found) == mostCandidates {
			break
		}
	}
	return found, nil
}

// listedAs returns the id of the organization's domain of that name; empty if it has none.
func (s *site) listedAs(ctx context.Context, t Tenant, organization, name string) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, recordWait)
	defer cancel()
	from := ""
	for range pagesOfNames {
		if err := s.mayRead(ctx); err != nil {
			return "", err
		}
		page, next, err := t.API.DiscoveryDomainsPage(ctx, organization, from)
		if err != nil {
			return "", errors.New("the organization's domains could not be listed: " + printable(err.Error()))
		}
		for _, l := range page {
			if !strings.EqualFold(l.Record.Domain, strings.TrimSuffix(name, ".")) {
				continue
			}
			if l.Err != nil && apiclient.CheckID("domain", l.Record.ID) != nil {
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
