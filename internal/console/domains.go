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
	"orgops/internal/ledger"
	"orgops/internal/obstacle"
	"orgops/internal/status"
	"orgops/internal/view"
	"orgops/internal/web"
	"orgops/tasks"
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
	Answer     *domainAnswer
}

// domainAnswer is the known state of a domain.
type domainAnswer struct {
	Served        bool // by this worker
	Summary       summary
	Record        schema.DiscoveryDomain // the API's
	RecordProblem string                 // why it could not be read; Record is empty then
	Known         status.Domain
	Checked       *checkView
	Publish       status.Instructions
	PublishText   string // the instructions, to be sent to the customer
	PublishError  string // why the record to publish is not known; empty: it is
}

// summary is the answer in a sentence or two, and the remedy.
type summary struct{ Class, Title, Text, Do string }

// domains shows a domain: GET /domains.
func (s *site) domains(w http.ResponseWriter, r *http.Request) {
	v := s.view(r.Context())
	p := s.askedFor(v, r.URL.Query())
	code := http.StatusOK
	if p.ID != "" || p.Organization != "" {
		code = s.answer(r.Context(), v, &p, s.notices.of(r).Checked)
	}
	title := "Domains"
	if p.Answer != nil {
		title = "Domain " + status.Shown(cmp.Or(p.Answer.Record.Domain, p.ID))
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
	here, served := s.here.of(d.In())
	record, recordErr := s.readRecord(ctx, d)
	known, err := stateOf(ctx, d, p.All)
	if err != nil {
		p.Problem = unread(err)
		return http.StatusServiceUnavailable
	}
	p.Answer = &domainAnswer{Served: served, Known: known}
	found := facts{record: record, err: recordErr, known: known}
	if checked != nil && checked.Domain == name {
		p.Answer.Checked, found.check = checked, checked.Findings
	}
	if found.held, err = d.In().Obstacles(ctx); err != nil {
		p.Problem = unread(err)
		return http.StatusServiceUnavailable
	}
	p.Answer.Summary = found.summary()
	if found.published() && !found.verified() {
		p.Answer.Summary.Do = p.Answer.Checked.Do
	}
	if recordErr != nil {
		p.Answer.RecordProblem = printable(recordErr.Error())
	} else {
		p.Answer.Record = record
	}
	p.Answer.instruct(ctx, here)
	return http.StatusOK
}

// instruct returns the record to publish: the API's, or else the one that a worker has read. The
// zone is searched only if the API was read, which bounds how often.
func (a *domainAnswer) instruct(ctx context.Context, t Tenant) {
	known, checker := a.Known, t.DNS
	if r := a.Record; a.RecordProblem == "" {
		known.Record, known.Known = nil, &status.KnownDomain{DomainName: known.DomainName, Name: r.Domain,
			Host: r.VerificationHost, TXT: r.VerificationTXT, Status: string(r.Status)}
	} else {
		checker = nil
	}
	var err error
	if a.Publish, err = known.Instructions(ctx, checker); err == nil {
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

// toDo returns the remedy for a failed or waiting row of a domain; empty: there is nothing to do.
func toDo(row status.DomainRow, of status.Domain) string {
	switch {
	case row.Outcome == "" && row.Ledger.Paused:
		return "The run is paused. Resume it on its page or with: enqueue runs resume " + string(row.Run)
	case row.Outcome == "", row.Well():
		return ""
	case row.Outcome == ledger.Lost && of.Swept != nil && of.Swept.Revoked != nil:
		return "" // it is revoked already
	case row.Outcome == ledger.Lost:
		return "Ask the customer to publish the record again: the next sweep finds it. " +
			capital(status.ReviewLost(of.Tenant))
	case row.Outcome == ledger.Unproven:
		return "Ask the customer to publish the record: the next sweep proves it. The domain stays verified until then."
	case row.Outcome == ledger.Withdrawn:
		return capital(status.ReviewWithdrawn)
	case row.Outcome == ledger.Refused && row.Ledger.Kind == tasks.TypeRecheck:
		return "Correct the record at the tenant: the next sweep reads it again."
	case row.RetriedBy != "":
		return "This row was submitted again: what became of it is on the page of run " + string(row.RetriedBy) + "."
	case !row.MayRetry:
		return "This row cannot be retried as it is: correct the cause, and submit it again."
	case row.Outcome == ledger.Expired:
		return "Once the customer has corrected the record, retry on the run's page or with: enqueue runs retry " +
			string(row.Run)
	case row.Outcome == ledger.Cancelled:
		return "The run was cancelled. To check the domain again, use: enqueue domains verify"
	}
	return "Once the cause is fixed, retry on the run's page or with: enqueue runs retry " + string(row.Run)
}

// haveChecked has a worker check a domain whose record was found, and returns the next step.
func haveChecked(ctx context.Context, d view.Domain) string {
	const command = "To verify it, run enqueue domains verify with --tenant, --org and --domain as above."
	report, err := d.In().Report(ctx, d.ID)
	if err != nil || report.Organization != d.Organization { // no row was executed, or another organization had it then
		return command
	}
	err = report.CheckNow(ctx, 0)
	if many, ok := errors.AsType[*status.TooManyChecks](err); ok {
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
	record schema.DiscoveryDomain
	err    error // why there is no record
	known  status.Domain
	held   []obstacle.Obstacle
	check  *status.Findings // nil: none was made
}

func (f facts) verified() bool { return f.err == nil && f.record.Status == schema.StatusVerified }

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
	rows := f.known.Rows
	open := slices.IndexFunc(rows, func(d status.DomainRow) bool { return d.Outcome == "" })
	missing, isMissing := f.missing()
	held := slices.DeleteFunc(slices.Clone(f.held), func(o obstacle.Obstacle) bool {
		return open < 0 || !status.Concerns(o, rows[open].Ledger)
	})
	switch {
	case apiclient.NotFound(f.err):
		return summary{"bad", "The API has no such domain", "No domain of this organization has this id, or it was deleted.",
			"Compare both ids with those in the tenant."}
	case f.verified() && isMissing:
		return summary{"wait", "Verified, but the TXT record is missing", missing,
			"Ask the customer to publish the record again at the host below."}
	case f.verified():
		return summary{"good", "Verified", "The API reports the domain as verified. There is nothing to do.", ""}
	case f.published():
		return summary{"wait", "Not verified yet, but the TXT record is published", "The check has just found it.", ""}
	case len(held) > 0:
		return summary{"bad", "Not verified yet, and its row waits: no row of the tenant is executed",
			printable(capital(held[0].What)) + ".", capital(held[0].Fix) + "."}
	case open >= 0:
		text := missing
		if text == "" {
			text = printable(rows[open].Text())
		}
		return summary{"wait", "Not verified yet: a run is checking it", text, cmp.Or(toDo(rows[open], f.known),
			"Ask the customer to compare the published record with host and value below. \"Check now\" explains the difference.")}
	case len(rows) > 0 && !rows[0].Well():
		return summary{"bad", "Not verified, and no run checks it any more", printable(rows[0].Text()), toDo(rows[0], f.known)}
	case f.err == nil:
		return summary{"bad", "Not verified, and no run checks it",
			"The domain is " + printable(string(f.record.Status)) + ", and no executed row waits for its record.",
			"To verify it, run enqueue domains verify with --tenant, --org and --domain as above."}
	}
	return summary{"wait", "Unknown", "The API's record could not be read, and no executed row waits for the domain's.",
		"See the data from Redis below."}
}

// verdictTone returns a class of ops.css for the state of a verdict.
func verdictTone(state string) string {
	switch state {
	case dnscheck.Present.String():
		return "good"
	case dnscheck.Absent.String():
		return "bad"
	}
	return "wait"
}
