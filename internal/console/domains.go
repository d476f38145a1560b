package console

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/dnscheck"
	"orgops/internal/actions"
	"orgops/internal/customer"
	"orgops/internal/discovery"
	"orgops/internal/obstacle"
	"orgops/internal/remedy"
	"orgops/internal/status"
	"orgops/internal/view"
	"orgops/internal/web"
)

// rowsOfDomain is how many of its rows are shown after a search: the newest ones.
const rowsOfDomain = 10

// domainPage shows why a domain is, or is not, verified.
type domainPage struct {
	status.DomainName // of the request: its ID may be the domain's name

	All        bool // show the newest rows of all runs, which takes a search, and not only the one executed last
	Tenants    []string
	Problem    string               // why there is no answer; empty: there is one, or no request
	Candidates []status.KnownDomain // that may be meant
	Link       *customer.Link       // that was made by this request; nil: none was
	Answer     *domainAnswer
}

// domainAnswer is the known state of a domain.
type domainAnswer struct {
	// Button says that Check now has a worker check the domain once its record is there, so that it
	// stands for the command that submits the domain again.
	Button        bool
	Links         bool // links can be made
	Served        bool // by this worker
	Summary       summary
	RecordProblem string        // why the API's record could not be read; empty: it was
	Known         status.Domain // with the API's record, or else the one that a worker has read last
	Checked       *checkView
	Publish       customer.Instructions
	PublishText   string // the instructions, to be sent to the customer
	PublishError  string // why the record to publish is not known; empty: it is
}

// Do returns a remedy as a user of the page carries it out.
func (a *domainAnswer) Do(fix remedy.Fix) string {
	return sentence(fix.By(func(c remedy.Command) string {
		switch verify := a.Known.Verify(); {
		case a.Button && c == verify && a.Links:
			return "press Check now, or Make a link to have it checked for " + status.Span(customer.UsualLife)
		case a.Button && c == verify:
			return "press Check now"
		}
		return c.String()
	}))
}

// summary is the answer in a sentence or two, and the remedy.
type summary struct {
	Class, Title, Text string

	Facts []status.Fact // since when, until when
	Fix   remedy.Fix
}

// domains shows a domain: GET /domains.
func (s *site) domains(w http.ResponseWriter, r *http.Request) {
	v := s.view(r.Context())
	p := s.askedFor(v, r.URL.Query())
	code := http.StatusOK
	if p.ID != "" || p.Organization != "" {
		code = s.answer(r.Context(), v, &p, s.notices.of(r).Checked)
	}
	s.showDomain(w, r, code, p)
}

// showDomain writes the page.
func (s *site) showDomain(w http.ResponseWriter, r *http.Request, code int, p domainPage) {
	title := "Domains"
	if p.Answer != nil {
		title = "Domain " + status.Shown(cmp.Or(p.Answer.Known.Name(), p.ID))
	}
	s.show(w, r, code, "domains", page{Title: title, Section: "domains", Data: p})
}

// checkDomain checks a domain now, and leads to its page: POST /domains/check. It changes nothing,
// so read-only pages allow it; but it queries servers of others and takes a permit, so a minute has
// at most six.
func (s *site) checkDomain(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	v := s.view(ctx)
	asked := s.askedFor(v, r.PostForm).DomainName
	meant, err := s.meant(ctx, v, asked)
	if err != nil || len(meant) > 1 { // the page says so
		http.Redirect(w, r, domainURL(asked), http.StatusSeeOther)
		return
	}
	name := meant[0].DomainName
	d, err := domainOf(v, name)
	if err != nil {
		s.lead(w, r, domainURL(asked), "Not checked: "+err.Error(), true)
		return
	}
	here, served := s.here.of(d.In())
	if served && !s.checks.Allow() {
		s.lead(w, r, domainURL(name), "Not checked: these pages run at most six checks a minute, since each queries "+
			"servers of other operators. Try again in ten seconds.", true)
		return
	}
	s.log.InfoContext(ctx, "domain checked by hand", "user", userOf(ctx), "tenant", name.Tenant,
		"organization", name.Organization, "domain", name.ID)

	// The domain's stored state, and the check of its record.
	record, recordErr := s.readRecord(ctx, d)
	known, err := stateOf(ctx, d, false)
	if err != nil {
		s.lead(w, r, domainURL(name), "Not checked: "+unread(err), true)
		return
	}
	checked := checkNow(ctx, here, served, record, known)
	found := facts{record: record, err: recordErr, known: known, check: checked.Findings}
	if checked.Domain = name; found.published() && !found.verified() {
		checked.Do = haveChecked(ctx, d)
	}
	s.leadWith(w, r, domainURL(name), notice{Checked: checked})
}

// askedFor returns the page of a request, without its answer.
func (s *site) askedFor(v view.View, asked url.Values) domainPage {
	p := domainPage{
		DomainName: status.DomainName{Tenant: field(asked, "tenant"), Organization: field(asked, "organization"),
			ID: field(asked, "domain")},
		All: field(asked, "all") != "",
	}
	p.Tenants = s.here.among(v)
	return p
}

// answer finds the domain and reads its state. checked is a check that the user has just made of
// some domain; nil: there is none. It returns the status of the page.
func (s *site) answer(ctx context.Context, v view.View, p *domainPage, checked *checkView) int {
	// Find the domain.
	meant, err := s.meant(ctx, v, p.DomainName)
	if err != nil {
		p.Problem = err.Error()
		if refused, ok := errors.AsType[*web.Refusal](err); ok {
			return refused.Status
		}
		return http.StatusServiceUnavailable
	}
	if len(meant) > 1 {
		p.Candidates = meant
		return http.StatusOK
	}
	name := meant[0].DomainName
	p.DomainName = name
	d, err := domainOf(v, name)
	if err != nil {
		p.Problem = err.Error()
		return http.StatusNotFound
	}

	// Its record at the API, and its state in Redis: without the first the second is shown.
	here, served := s.here.of(d.In())
	record, recordErr := s.readRecord(ctx, d)
	known, err := stateOf(ctx, d, p.All)
	if err != nil {
		p.Problem = unread(err)
		return http.StatusServiceUnavailable
	}

	// The actions that the user may take.
	found := facts{record: record, err: recordErr, known: known, linked: p.Link != nil}
	p.Answer = &domainAnswer{Served: served, Known: known}
	p.Answer.Button = served && known.Known != nil && page{User: web.Of(ctx).User}.May("check")
	p.Answer.Links = s.links != nil && known.Known != nil

	// The API's record replaces the one that a worker has read.
	if recordErr != nil {
		p.Answer.RecordProblem = printable(recordErr.Error())
	} else {
		p.Answer.Known.Record = nil
		p.Answer.Known.Known = new(status.KnownOf(name.Tenant, record))
	}

	// The summary, and the record to publish.
	if checked != nil && checked.Domain == name {
		p.Answer.Checked = checked
		found.check = checked.Findings
	}
	if found.held, err = d.In().Obstacles(ctx); err != nil {
		p.Problem = unread(err)
		return http.StatusServiceUnavailable
	}
	p.Answer.Summary = found.summary()
	if found.published() && !found.verified() {
		p.Answer.Summary.Fix = remedy.To("%s", p.Answer.Checked.Do)
	}
	p.Answer.instruct(ctx, here, p.Link != nil)
	return http.StatusOK
}

// instruct sets the instructions for the domain's owner. The zone is searched only if the API was
// read, which bounds how often. linked says that a link was made just now: then the record is
// checked.
func (a *domainAnswer) instruct(ctx context.Context, t Tenant, linked bool) {
	checker := t.DNS
	if a.RecordProblem != "" {
		checker = nil
	}
	var err error
	if a.Publish, err = customer.InstructionsOf(ctx, a.Known, checker); err == nil {
		if linked {
			a.Publish.Checked = true
			a.Publish.Command = ""
		}
		a.PublishText, err = a.Publish.Text()
	}
	if err != nil {
		a.PublishError = err.Error()
	}
}

// stateOf reads the state of the domain in Redis, with the newest rows of all runs, or else the one
// that was executed last.
func stateOf(ctx context.Context, d view.Domain, all bool) (status.Domain, error) {
	ctx, cancel := context.WithTimeout(ctx, lookUpWait)
	defer cancel()
	rows := 0
	if all {
		rows = rowsOfDomain
	}
	return d.State(ctx, rows)
}

// haveChecked has a worker check a domain whose record was found, and returns the next step.
func haveChecked(ctx context.Context, d view.Domain) string {
	command := toVerify(d.DomainName)
	report, err := d.In().Report(ctx, d.ID)
	if err != nil || report.Organization != d.Organization { // no row was executed, or another organization had it then
		return command
	}
	err = report.CheckNow(ctx, 0)
	if many, ok := errors.AsType[*actions.TooManyChecks](err); ok {
		return capital(many.Error()) + "."
	}
	if err != nil {
		return command
	}
	switch report.Check {
	case status.CheckLater:
		return "The last attempt of its open row failed, and a worker makes the next one by itself: see the row below."
	case status.CheckShared:
		return "A worker has begun a check within the last minute. The next one, at " + report.Next.Format("15:04:05 MST") +
			", verifies it if every server confirms the record: reload this page then."
	}
	return "A worker checks it now, and verifies it if every server confirms the record: reload this page in half a minute."
}

// facts are the sources of a domain's page: the API's record, what Redis has, why no row of the
// tenant is executed, and the result of a check that was made just now.
type facts struct {
	record discovery.Domain
	err    error // why there is no record
	known  status.Domain
	held   []obstacle.Obstacle
	check  *status.Findings // nil: none was made
	linked bool             // a link was made just now, with which a row is submitted if none is open
}

// verified reports whether the domain is verified by the API's record, or else as a worker has read
// it last.
func (f facts) verified() bool {
	if f.err == nil {
		return f.record.IsVerified()
	}
	return f.known.Known != nil && f.known.Known.Status == string(schema.StatusVerified)
}

// published reports whether the check has found the record.
func (f facts) published() bool { return f.check != nil && f.check.State == dnscheck.Present.String() }

// missing reports whether the check, or else the last sweep, has found no record, and how it says
// so.
func (f facts) missing() (text string, is bool) {
	switch {
	case f.check != nil && f.check.State == dnscheck.Absent.String():
		return printable(f.check.Explanation()), true
	case f.check == nil && f.known.Swept != nil && f.known.Swept.Absence != nil:
		return f.known.Swept.Brief(), true
	}
	return "", false
}

// summary returns the answer of the page: the newest of the facts decide.
func (f facts) summary() summary {
	// The open row, and its obstacles.
	rows := f.known.Rows
	open := slices.IndexFunc(rows, func(d status.DomainRow) bool { return d.Outcome == "" })
	missing, isMissing := f.missing()
	held := slices.DeleteFunc(slices.Clone(f.held), func(o obstacle.Obstacle) bool {
		return open < 0 || !status.Concerns(o, rows[open].Ledger)
	})
	revoked := f.known.RevokedBy(f.verified())

	// The first case that is true.
	switch {
	case apiclient.NotFound(f.err):
		return summary{Class: "bad", Title: "The API has no such domain",
			Text: "No domain of this organization has this id, or it was deleted.",
			Fix:  remedy.To("compare both ids with those in the tenant")}
	case revoked != nil && f.verified():
		return summary{Class: "wait", Title: "Verified, but not used for discovery: it was revoked",
			Text: "Revoked: " + revoked.String() + ".", Fix: remedy.To("to undo that: %s", f.known.Swept.Undo)}
	case revoked != nil && !f.published() && open < 0:
		return summary{Class: "wait", Title: "Not verified: it was revoked", Text: "Revoked: " + revoked.String() + ".",
			Fix: remedy.To("have the record published again; the next sweep restores the domain, or at once: %s",
				f.known.Verify())}
	case f.verified() && isMissing:
		return summary{Class: "wait", Title: "Verified, but the TXT record is missing", Text: missing,
			Fix: remedy.To("%s", f.known.FixOfAbsence())}
	case f.verified() && f.err != nil:
		return summary{Class: "wait", Title: "Verified when a worker read its record last",
			Text: "The API's record could not be read now."}
	case f.verified():
		return summary{Class: "good", Title: "Verified",
			Text: "The API reports the domain as verified. There is nothing to do."}
	case f.published():
		return summary{Class: "wait", Title: "Not verified yet, but the TXT record is published",
			Text: "The check has just found it."}
	case len(held) > 0:
		return summary{Class: "bad", Title: "Not verified yet, and its row waits: no row of the tenant is executed",
			Text: printable(sentence(held[0].What)), Facts: rows[open].Facts(), Fix: remedy.To("%s", held[0].Fix)}
	case open >= 0:
		text := missing
		if text == "" {
			text = printable(rows[open].Text())
		}
		return summary{Class: "wait", Title: "Not verified yet: a run is checking it", Text: text,
			Facts: rows[open].Facts(), Fix: rows[open].Fix}
	case f.linked:
		return summary{Class: "wait", Title: "Not verified yet: it is checked as long as the link is valid",
			Text: "A row of it was submitted with the link. A worker checks it within seconds."}
	case len(rows) > 0 && !rows[0].Well():
		return summary{Class: "bad", Title: "Not verified, and no run checks it any more", Text: printable(rows[0].Text()),
			Facts: rows[0].Facts(), Fix: rows[0].Fix}
	case f.err == nil:
		return summary{Class: "bad", Title: "Not verified, and no run checks it",
			Text: "The domain is " + printable(string(f.record.Status)) + ", and no executed row waits for its record.",
			Fix:  remedy.To("to verify it: %s", f.known.Verify())}
	}
	return summary{Class: "wait", Title: "Unknown",
		Text: "The API's record could not be read, and no executed row waits for the domain's.",
		Fix:  remedy.To("see the data from Redis below")}
}
