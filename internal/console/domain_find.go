package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"orgops/dnscheck/dnsname"
	"orgops/internal/ledger"
	"orgops/internal/status"
	"orgops/internal/view"
	"orgops/internal/web"
	"orgops/tasks"
)

const (
	// mostCandidates is how many domains are offered to choose from.
	mostCandidates = 50
	// lookUpWait bounds a search in Redis for rows about an id, which reads the stored rows: about
	// ten seconds for a million. The connections of Config.Redis bound how many run at a time.
	lookUpWait = 20 * time.Second
)

// meant finds the domain that a request names by its id, its name, or the beginning of its name, in
// the tenant that it names or else in all of the user's. It returns several if these are those of
// several.
func (s *site) meant(ctx context.Context, v view.View, asked status.DomainName) ([]status.KnownDomain, error) {
	if err := checkAsked(v, asked); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookUpWait)
	defer cancel()
	if asked.Tenant == "" {
		var err error
		if asked.Tenant, err = s.onlyTenant(ctx, v); err != nil {
			return nil, errors.New(unread(err))
		}
	}

	// Ids need no search.
	byName := strings.Contains(asked.ID, ".")
	if !byName && asked.Tenant != "" && asked.Organization != "" {
		return []status.KnownDomain{{DomainName: asked}}, nil
	}

	// What rows and sweeps have found.
	found, err := v.Find(ctx, status.DomainQuery{Tenant: asked.Tenant, Organization: asked.Organization,
		ID: asked.ID, Name: asked.ID, Swept: true, Most: mostCandidates, Keep: func(k status.KnownDomain) bool {
			return tasks.CheckDomainIDs(k.Organization, k.ID) == nil
		}})
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return nil, notFound(err)
	case err != nil:
		return nil, errors.New(unread(err))
	}
	domains := found.Domains

	// What the tenant lists of an organization, if no domain has that name.
	exact := len(domains) > 0 && !found.Prefix
	if byName && !exact && asked.Tenant != "" && asked.Organization != "" {
		id, err := s.listed(ctx, v, asked)
		if err != nil {
			return nil, err
		}
		if id != "" {
			asked.ID = id
			domains = []status.KnownDomain{{DomainName: asked}}
		}
	}
	if len(domains) == 0 {
		return nil, &web.Refusal{Status: http.StatusBadRequest, Text: notKnown(asked, byName)}
	}
	return domains, nil
}

// onlyTenant returns the name of the user's tenant, if there is only one here; "": there are
// several, or none.
func (s *site) onlyTenant(ctx context.Context, v view.View) (string, error) {
	names := s.here.among(v)
	tenants, err := v.Tenants(ctx)
	for _, t := range tenants {
		names = append(names, t.Name())
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if err != nil || len(names) != 1 {
		return "", err
	}
	return names[0], nil
}

// domainOf returns the domain of the view that has the name.
func domainOf(v view.View, name status.DomainName) (view.Domain, error) {
	t, err := v.Tenant(name.Tenant)
	if err != nil {
		return view.Domain{}, err
	}
	return t.Domain(name.Organization, name.ID)
}

// listed returns the id of the domain of a name and an organization, as the tenant lists it; "":
// this worker does not serve the tenant, or the organization has no domain of that name.
func (s *site) listed(ctx context.Context, v view.View, asked status.DomainName) (id string, err error) {
	d, err := domainOf(v, asked)
	if err != nil {
		return "", notFound(err)
	}
	here, served := s.here.of(d.In())
	if !served || here.API == nil {
		return "", nil
	}
	return s.listedAs(ctx, here, d)
}

// checkAsked checks the input of the form.
func checkAsked(v view.View, asked status.DomainName) error {
	if asked.Tenant != "" {
		if _, err := tenantOf(v, asked.Tenant); err != nil {
			return err
		}
	}
	var err error
	if asked.Organization != "" {
		if err := v.Organization(asked.Organization); err != nil {
			return notFound(err)
		}
		err = tasks.CheckOrganization(asked.Organization)
	}
	switch {
	case asked.ID == "":
		err = errors.Join(err, errors.New("domain: want its id or its name"))
	case strings.Contains(asked.ID, "."):
		err = errors.Join(err, dnsname.CheckHost(dnsname.Typed(asked.ID)))
	case asked.Organization != "":
		err = errors.Join(err, tasks.CheckDomainID(asked.ID))
	case len(asked.ID) > longestAsked:
		err = errors.Join(err, fmt.Errorf("domain: %d bytes: want an id, a name, or the beginning of a name", len(asked.ID)))
	}
	if err != nil {
		return &web.Refusal{Status: http.StatusBadRequest, Text: err.Error()}
	}
	return nil
}

// longestAsked is the longest name, in bytes of UTF-8.
const longestAsked = 4 * 253

// notKnown says that no domain was found, and how to find it.
func notKnown(asked status.DomainName, byName bool) string {
	if asked.Tenant == "" {
		return "no domain of your tenants has that id, or a name that begins so, by the rows that were executed: " +
			"name its tenant and its organization, or " + status.LearnNames("")
	}
	if byName && asked.Organization != "" {
		return fmt.Sprintf("organization %s has no domain of that name among those read; try the id of the domain",
			asked.Organization)
	}
	return fmt.Sprintf("no domain of tenant %s has that id, or a name that begins so, by the rows that were executed: "+
		"name the organization too, or %s", asked.Tenant, status.LearnNames(asked.Tenant))
}
