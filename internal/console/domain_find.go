package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/intake"
	"orgops/internal/status"
	"orgops/internal/web"
)

const (
	// mostCandidates is how many domains are offered to choose from.
	mostCandidates = 20
	// lookUpWait bounds a search in Redis, which reads the stored rows: about a second for a
	// million. The connections of Config.Redis bound how many run at a time.
	lookUpWait = 20 * time.Second
)

// leastAsked is the least length of an id or name: none is shorter, and a text that is in
// every row would have every row decoded.
const leastAsked = 4

// meant finds the domain that a request names by its id or name. It returns several if it does
// not name the organization and several have one.
func (s *site) meant(ctx context.Context, asked status.DomainName) ([]status.DomainName, error) {
	if err := checkAsked(ctx, asked); err != nil {
		return nil, err
	}
	byName := strings.Contains(asked.ID, ".")
	if !byName && asked.Organization != "" {
		return []status.DomainName{asked}, nil
	}
	found, err := s.candidates(ctx, asked, byName)
	if err == nil && len(found) == 0 {
		err = &web.Refusal{Status: http.StatusBadRequest, Text: notFound(asked, byName)}
	}
	return found, err
}

// checkAsked checks the input of the form.
func checkAsked(ctx context.Context, asked status.DomainName) error {
	if err := checkTenant(ctx, asked.Tenant); err != nil {
		return err
	}
	var err error
	user := web.Of(ctx).User
	if asked.Organization != "" {
		err = errors.Join(err, apiclient.CheckID("organization", asked.Organization))
	}
	switch {
	case asked.Organization != "" && !user.MayOrganization(asked.Organization):
		return &web.Refusal{
			Status: http.StatusForbidden, Text: "your access does not include organization " + asked.Organization,
		}
	case asked.ID == "":
		err = errors.Join(err, errors.New("domain: want its id or its name"))
	case len(asked.ID) < leastAsked:
		err = errors.Join(err, fmt.Errorf("domain: too short, too many rows would match: want %d characters or more",
			leastAsked))
	case strings.Contains(asked.ID, "."):
		err = errors.Join(err, dnscheck.CheckHost(asked.ID))
	default:
		err = errors.Join(err, apiclient.CheckID("domain", asked.ID))
	}
	if err != nil {
		return &web.Refusal{Status: http.StatusBadRequest, Text: err.Error()}
	}
	return nil
}

func notFound(asked status.DomainName, byName bool) string {
	switch {
	case byName && asked.Organization != "":
		return fmt.Sprintf("organization %s has no domain of that name among those read; try the id of the domain",
			asked.Organization)
	case byName:
		return "no stored row has a host below that domain: name the organization too, or use the id of the domain"
	}
	return fmt.Sprintf(
		"no run of tenant %s has a row for that domain, and no sweep has checked it: name the organization too", asked.Tenant)
}

// candidates returns the domains that may be meant, each once.
func (s *site) candidates(ctx context.Context, asked status.DomainName, byName bool) ([]status.DomainName, error) {
	ctx, cancel := context.WithTimeout(ctx, lookUpWait)
	defer cancel()
	if t, served := s.tenant(asked.Tenant); byName && asked.Organization != "" && served && t.API != nil {
		if id, err := s.listedAs(ctx, t, asked.Organization, asked.ID); err != nil || id != "" {
			return []status.DomainName{{Tenant: asked.Tenant, Organization: asked.Organization, ID: id}}, err
		}
		return nil, nil
	}
	var found []status.DomainName
	add := func(organization, id string) {
		d := status.DomainName{Tenant: asked.Tenant, Organization: organization, ID: id}
		fits := (asked.Organization == "" || asked.Organization == organization) &&
			web.Of(ctx).User.MayOrganization(organization)
		if fits && apiclient.CheckID("organization", organization) == nil && apiclient.CheckID("domain", id) == nil &&
			!slices.Contains(found, d) {
			found = append(found, d)
		}
	}
	if !byName {
		r, ok, err := status.SweptDomainOf(ctx, s.Redis, asked.Tenant, asked.ID)
		if err != nil {
			return nil, errors.New(unread(err))
		}
		if ok {
			add(r.Organization, asked.ID)
		}
	}
	rows := intake.DomainRows
	if byName {
		rows = intake.NameRows
	}
	for row, err := range rows(ctx, s.Ledger, asked.Tenant, asked.ID) {
		if err != nil {
			return nil, errors.New(unread(err))
		}
		if add(row.Organization, row.Domain); len(found) == mostCandidates {
			break
		}
	}
	return found, nil
}
