package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"orgops/internal/customer"
	"orgops/internal/ledger"
	"orgops/internal/status"
	"orgops/internal/view"
	"orgops/tasks"
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
	asked, err := s.tenantOf(r)
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

	// A tenant of others has no domains here. One more than the list has shows that there are others.
	t, err := s.view(ctx).Tenant(asked)
	if err != nil {
		answerJSON(w, http.StatusOK, domainsJSON{Domains: []status.KnownDomain{}})
		return nil
	}
	var found status.Found
	if name+id == "" {
		found, err = t.FindOf(ctx, organization, mostDomains)
	} else {
		found, err = t.Find(ctx, name+id, mostDomains+1, func(k status.KnownDomain) bool {
			return (organization == "" || k.Organization == organization) &&
				(id == "" || k.ID == id)
		})
	}
	if err != nil {
		return err
	}
	n := min(len(found.Domains), mostDomains)
	answerJSON(w, http.StatusOK, domainsJSON{Domains: append([]status.KnownDomain{}, found.Domains[:n]...),
		Prefix: found.Prefix && name != "" && n > 0, More: n < len(found.Domains) || found.More})
	return nil
}

// longestName is the longest domain name, in bytes of UTF-8.
const longestName = 4 * 253

// tenantOf returns the name of the tenant that a request about domains names, or the caller's only
// one.
func (s *Server) tenantOf(r *http.Request) (string, error) {
	t := cmp.Or(r.URL.Query().Get("tenant"), s.view(r.Context()).OnlyTenant())
	if t == "" {
		return "", badRequest("The parameter tenant is missing: the token is for several tenants.")
	}
	if err := tasks.CheckTenant(t); err != nil {
		return "", badRequest("The parameter tenant: %s.", err)
	}
	return t, nil
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

// ownDomain returns the state of the domain in the path. A domain of others does not exist for the
// caller.
func (s *Server) ownDomain(ctx context.Context, r *http.Request) (view.Report, error) {
	id := r.PathValue("id")
	none := newProblem(http.StatusNotFound, "not-found",
		"You have no discovery domain %s of which a worker has executed a row.", shown(id))
	name, err := s.tenantOf(r)
	if err != nil {
		return view.Report{}, err
	}
	t, err := s.view(ctx).Tenant(name)
	if err != nil {
		return view.Report{}, none
	}
	d, err := t.Report(ctx, id)
	if errors.Is(err, ledger.ErrNotFound) {
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
	d.Check, err = d.CheckNow(ctx, 0)
	if many, ok := errors.AsType[*status.TooManyChecks](err); ok {
		return newProblem(http.StatusTooManyRequests, "too-many-checks",
			"The checks of this %s in a minute are used up.", many.Of).after(many.After)
	}
	if errors.Is(err, status.ErrVerified) {
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
	if _, err := d.Instructions(ctx, nil); err != nil { // the page would have nothing to show
		return newProblem(http.StatusConflict, "state", "%s.", err)
	}
	caller := callerOf(ctx)
	link, err := s.links.Make(ctx, d.DomainReport, life, caller.Name)
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
