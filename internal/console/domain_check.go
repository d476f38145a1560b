package console

import (
	"context"
	"net/http"
	"time"

	"orgops/apiclient"
	"orgops/internal/status"
)

// checkWait bounds a check: a proof takes eight seconds at most, the diagnosis six.
const checkWait = 30 * time.Second

// Bounds of the checks: each queries some dozen servers of others.
const (
	checkEvery = 10 * time.Second
	checkBurst = 3
)

// checkView is the result of a check by hand.
type checkView struct {
	Domain   status.DomainName `json:"domain"`
	Problem  string            `json:"problem,omitempty"`
	Of       string            `json:"of,omitempty"` // the source of host and value
	Findings *status.Findings  `json:"findings,omitempty"`
	Do       string            `json:"do,omitempty"` // the next step if the record was found
}

// checkDomain checks a domain now, and leads to its page: POST /domains/check. It changes nothing,
// so read-only pages allow it; but it queries servers of others and takes a permit, so a minute has
// at most six.
func (s *site) checkDomain(w http.ResponseWriter, r *http.Request) {
	ctx, asked := r.Context(), s.askedFor(r.Context(), r.PostForm).DomainName
	meant, err := s.meant(ctx, asked)
	if err != nil || len(meant) > 1 { // the page says so
		http.Redirect(w, r, domainURL(asked), http.StatusSeeOther)
		return
	}
	name := meant[0].DomainName
	tenant, served := s.tenant(name.Tenant)
	if served && !s.checks.Allow() {
		s.lead(w, r, domainURL(name), "Not checked: these pages run at most six checks a minute, since each queries "+
			"servers of other operators. Try again in ten seconds.", true)
		return
	}
	s.Logger.InfoContext(ctx, "domain checked by hand", "user", userOf(ctx), "tenant", name.Tenant,
		"organization", name.Organization, "domain", name.ID)
	record, recordErr := s.readRecord(ctx, tenant, served, name)
	known, err := s.known(ctx, name, false)
	if err != nil {
		s.lead(w, r, domainURL(name), "Not checked: "+unread(err), true)
		return
	}
	v := checkNow(ctx, tenant, served, record, known)
	found := facts{record: record, err: recordErr, known: known, check: v.Findings}
	if v.Domain = name; found.published() && !found.verified() {
		v.Do = s.haveChecked(ctx, name)
	}
	s.leadWith(w, r, domainURL(name), notice{Checked: v})
}

// findings returns those of the check; nil: there was none, or it has no result.
func (v *checkView) findings() *status.Findings {
	if v == nil {
		return nil
	}
	return v.Findings
}

// checkNow checks the domain as a worker does before it PATCHes it to verified. Host and value
// are those of the API's record or, if that was not read, of the record that a worker read
// before. They are never a user's input, since the page shows the records that are found there.
func checkNow(ctx context.Context, t Tenant, served bool, record apiclient.DiscoveryDomain,
	known status.Domain) *checkView {
	ctx, cancel := context.WithTimeout(ctx, checkWait)
	defer cancel()
	asked := status.TXTRecord{Host: record.VerificationHost, TXT: record.VerificationTXT, Domain: record.Domain}
	v := &checkView{Of: "the API's current record"}
	switch {
	case !served || t.DNS == nil:
		v.Problem = "this worker does not serve the tenant and has none of its resolvers: open the pages of a worker that does"
		return v
	case asked.Host == "" && known.Record != nil:
		asked = status.TXTRecord{Host: known.Record.Host, TXT: known.Record.TXT, Domain: known.Record.Domain}
		v.Of = "the record that a worker read for an open row"
	case asked.Host == "":
		v.Problem = "host and value of the record are unknown: the API's record could not be read, and no open row has a copy"
		return v
	}
	found, err := status.Check(ctx, t.DNS, asked)
	switch {
	case err != nil:
		v.Problem = "the check did not finish in time: " + printable(err.Error())
	case found.Error != "":
		v.Problem = "the record was not checked: " + printable(found.Error)
	default:
		v.Findings = found.Findings
	}
	return v
}
