package console

import (
	"context"
	"errors"
	"net/http"

	"orgops/internal/customer"
	"orgops/internal/ledger"
	"orgops/internal/status"
	"orgops/internal/view"
)

// makeLink makes a link to the page of a domain for its owner, and shows it on the domain's page:
// POST /domains/link. It is in this answer alone, without a redirect: a notice would store it, and
// anyone who has it can open the page.
func (s *site) makeLink(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	v := s.view(ctx)
	p := s.askedFor(v, r.PostForm)
	d, err := domainOf(v, p.DomainName)
	if err != nil {
		s.lead(w, r, domainURL(p.DomainName), "No link was made: "+err.Error(), true)
		return
	}
	link, err := s.linkTo(ctx, d)
	if err != nil {
		s.lead(w, r, domainURL(p.DomainName), "No link was made: "+printable(err.Error()), true)
		return
	}
	s.log.InfoContext(ctx, "link made", "user", userOf(ctx), "tenant", d.Tenant, "organization", d.Organization,
		"domain", d.ID, "expires_at", link.Expires)

	// The domain is read after that, since it may be checked from now on.
	p.Link = &link
	code := s.answer(ctx, v, &p, nil)
	s.showDomain(w, r, code, p)
}

// linkTo makes a link to the page of a domain, in the name of the user of the request.
func (s *site) linkTo(ctx context.Context, d view.Domain) (customer.Link, error) {
	if s.links == nil {
		return customer.Link{}, errors.New("this worker makes no links: it was started without --link-keys and --link-url")
	}
	ctx, cancel := context.WithTimeout(ctx, lookUpWait)
	defer cancel()
	report, err := d.In().Report(ctx, d.ID)
	if errors.Is(err, ledger.ErrNotFound) || (err == nil && report.Organization != d.Organization) {
		return customer.Link{}, errors.New("no row about the domain was executed, so its record is not known. " +
			toVerify(d.DomainName))
	}
	if err != nil {
		return customer.Link{}, errors.New(unread(err))
	}
	return s.links.Make(ctx, report.DomainReport, customer.UsualLife, userOf(ctx))
}

// toVerify is the remedy for a domain without an open row.
func toVerify(d status.DomainName) string { return "To verify it: " + d.Verify().String() }
