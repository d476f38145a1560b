package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"orgops/apiclient/schema"
	"orgops/dnscheck/dnsname"
	"orgops/internal/status"
	"orgops/internal/view"
	"orgops/internal/web"
)

const (
	// mostCandidates is how many domains are offered to choose from.
	mostCandidates = 50
	// lookUpWait bounds a search in Redis for rows about an id, which reads the stored rows: about
	// ten seconds for a million. The connections of Config.Redis bound how many run at a time.
	lookUpWait = 20 * time.Second
)

// meant finds the domain that a request names by its id, its name, or the beginning of its name. It
// returns several if these are those of several.
func (s *site) meant(ctx context.Context, v view.View, asked status.DomainName) ([]status.KnownDomain, error) {
	t, err := checkAsked(v, asked)
	if err != nil {
		return nil, err
	}
	byName := strings.Contains(asked.ID, ".")
	if !byName && asked.Organization != "" {
		return []status.KnownDomain{{DomainName: asked}}, nil
	}
	found, err := s.candidates(ctx, t, asked, byName)
	if err == nil && len(found) == 0 {
		err = &web.Refusal{Status: http.StatusBadRequest, Text: notKnown(asked, byName)}
	}
	return found, err
}

// checkAsked checks the input of the form, and returns the tenant that it names.
func checkAsked(v view.View, asked status.DomainName) (view.Tenant, error) {
	t, err := tenantOf(v, asked.Tenant)
	if err != nil {
		return t, err
	}
	if asked.Organization != "" {
		if err := t.Organization(asked.Organization); err != nil {
			return t, notFound(err)
		}
		err = schema.CheckID("organization", asked.Organization)
	}
	switch {
	case asked.ID == "":
		err = errors.Join(err, errors.New("domain: want its id or its name"))
	case strings.Contains(asked.ID, "."):
		err = errors.Join(err, dnsname.CheckHost(dnsname.Key(asked.ID)))
	case asked.Organization != "":
		err = errors.Join(err, schema.CheckID("domain", asked.ID))
	case len(asked.ID) > longestAsked:
		err = errors.Join(err, fmt.Errorf("domain: %d bytes: want an id, a name, or the beginning of a name", len(asked.ID)))
	}
	if err != nil {
		return t, &web.Refusal{Status: http.StatusBadRequest, Text: err.Error()}
	}
	return t, nil
}

// longestAsked is the longest name, in bytes of UTF-8.
const longestAsked = 4 * 253

func notKnown(asked status.DomainName, byName bool) string {
	if byName && asked.Organization != "" {
		return fmt.Sprintf("organization %s has no domain of that name among those read; try the id of the domain",
			asked.Organization)
	}
	return fmt.Sprintf("no domain of tenant %s has that id, or a name that begins so, by the rows that were executed: "+
		"name the organization too, or %s", asked.Tenant, status.LearnNames(asked.Tenant))
}

// candidates returns the domains that may be meant, each once.
func (s *site) candidates(ctx context.Context, t view.Tenant, asked status.DomainName,
	byName bool) ([]status.KnownDomain, error) {
	ctx, cancel := context.WithTimeout(ctx, lookUpWait)
	defer cancel()
	fits := func(k status.KnownDomain) bool {
		return (asked.Organization == "" || asked.Organization == k.Organization) &&
			schema.CheckID("organization", k.Organization) == nil && schema.CheckID("domain", k.ID) == nil
	}
	known, err := t.Find(ctx, asked.ID, mostCandidates, fits)
	if err != nil {
		return nil, errors.New(unread(err))
	}
	found := known.Domains
	if len(found) > 0 && (!byName || !known.Prefix || asked.Organization == "") {
		return found, nil
	}
	if byName {
		if here, served := s.here.of(t); asked.Organization != "" && served && here.API != nil {
			named, err := t.Domain(asked.Organization, asked.ID)
			if err != nil {
				return nil, err
			}
			id, err := s.listedAs(ctx, here, named)
			if err != nil || id == "" {
				return found, err
			}
			asked.ID = id
			return []status.KnownDomain{{DomainName: asked}}, nil
		}
		return found, nil
	}
	if schema.CheckID("domain", asked.ID) != nil {
		return nil, nil
	}
	// An id that a newer name has replaced in the index.
	r, ok, err := t.Swept(ctx, asked.ID)
	if err != nil {
		return nil, errors.New(unread(err))
	}
	swept := status.KnownDomain{
		DomainName: status.DomainName{Tenant: asked.Tenant, Organization: r.Organization, ID: asked.ID},
	}
	if ok && fits(swept) {
		found = append(found, swept)
	}
	return found, nil
}
