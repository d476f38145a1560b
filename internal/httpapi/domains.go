package httpapi

import (
	"context"
	"errors"
	"net/http"

	"orgops/internal/actions"
	"orgops/internal/customer"
	"orgops/internal/ids"
	"orgops/internal/ledger"
	"orgops/internal/status"
	"orgops/internal/untrusted"
	"orgops/internal/view"
)

// mostDomains is how many domains a list has at most.
const mostDomains = 50

type domainsJSON struct {
	Domains []status.KnownDomain `json:"domains"`
	// Prefix says that no domain has the name, and that those of these names begin with it.
	Prefix bool `json:"prefix"`
	More   bool `json:"more"` // there may be others
}

// domains answers with the caller's domains of a name, an id or an organization: GET /v1/domains.
func (s *Server) domains(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), s.limits.Request)
	defer cancel()
	tenant, err := tenantOf(r)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	name := query.Get("name")
	id := query.Get("id")
	organization := query.Get("organization")

	// The parameters select one domain, or those of a name or an organization.
	switch {
	case name != "" && id != "":
		return badRequest("Give either the parameter name or id.")
	case name == "" && id == "" && organization == "":
		return badRequest("Give one of the parameters name, id and organization.")
	case len(name) > longestName:
		return badRequest("The parameter name must have at most %d bytes.", longestName)
	}

	found, err := s.view(ctx).Find(ctx, status.DomainQuery{Tenant: tenant, Organization: organization, ID: id,
		Name: name, Most: mostDomains})
	if err != nil {
		return err
	}
	answerJSON(w, http.StatusOK, domainsJSON{Domains: append([]status.KnownDomain{}, found.Domains...),
		Prefix: found.Prefix, More: found.More})
	return nil
}

// longestName is the longest domain name, in bytes of UTF-8.
const longestName = 4 * 253

// tenantOf returns the name of the tenant that a request about a run or domains names; "": it names
// none.
func tenantOf(r *http.Request) (string, error) {
	name := r.URL.Query().Get("tenant")
	if name == "" {
		return "", nil
	}
	if err := ids.CheckTenant(name); err != nil {
		return "", badRequest("The parameter tenant: %s.", err)
	}
	return name, nil
}

// domain answers with the state of a domain: GET /v1/domains/{id}.
func (s *Server) domain(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), s.limits.Request)
	defer cancel()
	d, err := s.ownDomain(ctx, r)
	if err != nil {
		return err
	}
	answerJSON(w, http.StatusOK, d.DomainReport)
	return nil
}

// ownDomain returns the state of the domain in the path, of the tenant that the request names or of
// whichever of the caller's has it. A domain of others does not exist for the caller.
func (s *Server) ownDomain(ctx context.Context, r *http.Request) (view.Report, error) {
	id := r.PathValue("id")
	tenant, err := tenantOf(r)
	if err != nil {
		return view.Report{}, err
	}

	// Whichever of the caller's tenants has it.
	v := s.view(ctx)
	found, err := v.Find(ctx, status.DomainQuery{Tenant: tenant, ID: id, Most: mostDomains})
	if err != nil {
		return view.Report{}, err
	}
	none := newProblem(http.StatusNotFound, "not-found",
		"You have no discovery domain %s of which a worker has executed a row.", untrusted.Value(id))
	switch len(found.Domains) {
	case 0:
		return view.Report{}, none
	case 1:
	default:
		var tenants []string
		for _, k := range found.Domains {
			tenants = append(tenants, k.Tenant)
		}
		return view.Report{}, several("discovery domain", id, tenants)
	}

	// Its state.
	t, err := v.Tenant(found.Domains[0].Tenant)
	if err != nil {
		return view.Report{}, err
	}
	d, err := t.Report(ctx, id)
	if errors.Is(err, ledger.ErrNotFound) { // removed meanwhile
		err = none
	}
	return d, err
}

// checkDomain requests a check of a domain: POST /v1/domains/{id}/check.
func (s *Server) checkDomain(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), s.limits.Request)
	defer cancel()
	d, err := s.ownDomain(ctx, r)
	if err != nil {
		return err
	}
	err = d.CheckNow(ctx, 0)
	if many, ok := errors.AsType[*actions.TooManyChecks](err); ok {
		return newProblem(http.StatusTooManyRequests, "too-many-checks",
			"The checks of this %s in a minute are used up.", many.Of).after(many.After)
	}
	if errors.Is(err, actions.ErrVerified) {
		return newProblem(http.StatusConflict, "state", "The domain is verified: there is nothing to check.")
	}
	if err != nil {
		return err
	}
	s.log.InfoContext(ctx, "check of a domain requested", "caller", callerOf(ctx).Name, "tenant", d.Tenant,
		"organization", d.Organization, "domain", d.ID, "effect", d.Check)
	answerJSON(w, http.StatusAccepted, d.DomainReport)
	return nil
}

// link makes a link to the page of a domain: POST /v1/domains/{id}/links.
func (s *Server) link(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), s.limits.Request)
	defer cancel()
	d, err := s.linked(ctx, r)
	if err != nil {
		return err
	}
	life, err := customer.ParseLife(r.URL.Query().Get("for"))
	if err != nil {
		return badRequest("The parameter for: %s.", err)
	}
	caller := callerOf(ctx)
	link, err := s.links.Make(ctx, d.DomainReport, life, caller.Name)
	if nothing, ok := errors.AsType[*customer.NothingToShowError](err); ok {
		return newProblem(http.StatusConflict, "state", "%s.", nothing)
	}
	if err != nil {
		return err
	}
	s.log.InfoContext(ctx, "link made", "caller", caller.Name, "tenant", d.Tenant, "organization", d.Organization,
		"domain", d.ID, "expires_at", link.Expires)
	answerJSON(w, http.StatusCreated, link)
	return nil
}

// revokeLinks makes the links to a domain void: DELETE /v1/domains/{id}/links.
func (s *Server) revokeLinks(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), s.limits.Request)
	defer cancel()
	d, err := s.linked(ctx, r)
	if err == nil {
		err = s.links.Revoke(ctx, d.DomainName)
	}
	if err != nil {
		return err
	}
	s.log.InfoContext(ctx, "links revoked", "caller", callerOf(ctx).Name, "tenant", d.Tenant,
		"organization", d.Organization, "domain", d.ID)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// linked returns the state of the domain in the path, if this server makes links.
func (s *Server) linked(ctx context.Context, r *http.Request) (view.Report, error) {
	if s.links == nil {
		return view.Report{}, newProblem(http.StatusNotImplemented, "no-links",
			"This server makes no links: it was started without --link-keys and --link-url.")
	}
	return s.ownDomain(ctx, r)
}
