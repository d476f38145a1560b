package tasks

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"

	"orgops/apiclient/schema"
	"orgops/dnscheck/dnsname"
	"orgops/internal/discovery"
	"orgops/internal/untrusted"
)

// TypeVerify is the kind of rows that verify a discovery domain once its token is in DNS
// (specification 4.1).
const TypeVerify = "domain:verify"

var verify = Kind{
	Name: TypeVerify, Command: "domains verify",
	Label: "Prove by DNS that organizations own their discovery domains, and set them to verified.",
	Help: `A domain may be named by its name (domain) instead of its id: in punycode or Unicode, in any case. A worker finds it among the
domains of organization_id. Without organization_id the ids are those of the last row about the domain that was executed, from
any source. A row is refused if the record has another name.

With --pending no rows are given: a worker scans the organizations, at the tenant's pace, and each pending domain becomes a
row of the run. That takes one request for each organization and one for each hundred of them.

Examples:

    enqueue domains verify domains.csv --follow
    enqueue domains verify --pending`,
	Columns: []Column{
		{Name: "organization_id", Required: true, Or: "domain"},
		{Name: "discovery_domain_id", Required: true, Or: "domain"}, {Name: "domain"},
		{Name: "verification_host"}, {Name: "verification_txt", Exact: true},
		{Name: "use_for_organization_discovery", Bool: true},
	},
	Scopes:   []string{UpdateDomains, ReadDomains},
	Awaits:   true,
	Proves:   true,
	Requests: 2, // a GET, to prove it, and the PATCH
	check: func(r *Row) (err error) {
		v := r.values
		if v[2] == "" && strings.Contains(v[1], ".") { // no id has a dot
			v[2] = v[1]
			v[1] = ""
		}
		if v[2] != "" {
			if r.domain, err = dnsname.CheckDomain(v[2]); err != nil {
				return err
			}
			v[2] = r.domain
		}
		row := VerifyRow{OrganizationID: v[0], DiscoveryDomainID: v[1], Domain: v[2], VerificationHost: v[3],
			VerificationTXT: v[4]}
		if v[0] == "" && v[1] == "" { // package intake adds the ids
			return row.checkRecord()
		}
		return row.Validate()
	},
}

// LeastGiveUp is the shortest give-up of a submission. A check of a slow zone takes as long: a
// shorter time is mistyped, and its rows would expire at their first check.
const LeastGiveUp = 10 * time.Second

// Awaited returns from when until when a row of a kind that awaits something ([Kind].Awaits) waits
// for it: from its submission, or from its first begin if its time was up by then, for the give-up
// of its run, or for that of its tenant if the run has none (0). first is zero for a row that has
// not begun.
func Awaited(submitted, first time.Time, ofRun, ofTenant time.Duration) (start, end time.Time) {
	giveUp := cmp.Or(ofRun, ofTenant)
	start = submitted
	if !first.Before(start.Add(giveUp)) {
		start = first
	}
	return start, start.Add(giveUp)
}

// VerifyRow is the content of a row of [TypeVerify].
type VerifyRow struct {
	OrganizationID string `json:"organization_id"`
	// DiscoveryDomainID may be empty if Domain is not: a worker finds it.
	DiscoveryDomainID string `json:"discovery_domain_id"`
	// Domain, if given, must be the name of the record, in any form.
	Domain string `json:"domain,omitempty"`
	// VerificationHost and VerificationTXT, if given, must be those of the record.
	VerificationHost string `json:"verification_host,omitempty"`
	VerificationTXT  string `json:"verification_txt,omitempty"`
	// UseForOrganizationDiscovery is set as given; nil: unchanged.
	UseForOrganizationDiscovery *bool `json:"use_for_organization_discovery,omitempty"`
	// Restore says that a revocation had set the domain to pending and is undone: by
	// a full proof only, and with UseForOrganizationDiscovery only if the record omits the
	// flag. No submitter can set it: the intake ignores members that begin with orgops_.
	Restore bool `json:"orgops_restore,omitempty"`
	// Undo says that a run of [TypeUpdate] had set the domain to pending, and that the row undoes
	// it. No submitter can set it, as with Restore.
	Undo *Undo `json:"orgops_undo,omitempty"`
	// Listed is the record as a listing returned it; nil for a row that was submitted. No
	// submitter can set it, as with Restore.
	Listed *ListedRecord `json:"orgops_listed,omitempty"`
}

// ListedRecord is the record of a row's domain as a listing returned it.
type ListedRecord struct {
	ScannedRecord
	// At is when the listing was requested, in Redis' time.
	At time.Time `json:"at"`
}

// Validate checks the row, as far as that needs no tenant.
func (r VerifyRow) Validate() error {
	err := schema.CheckID("organization_id", r.OrganizationID)
	if r.DiscoveryDomainID != "" || r.Domain == "" {
		err = CheckDomainIDs(r.OrganizationID, r.DiscoveryDomainID)
	}
	if err == nil && r.Domain != "" {
		_, err = dnsname.CheckDomain(r.Domain)
	}
	if err != nil {
		return err
	}
	return r.checkRecord()
}

// ListedDomain returns the record that a listing returned; nil: the row was submitted.
func (r VerifyRow) ListedDomain() *discovery.Domain {
	if r.Listed == nil {
		return nil
	}
	return new(r.Listed.Of(r.OrganizationID, r.DiscoveryDomainID))
}

// checkRecord checks the record in the row.
func (r VerifyRow) checkRecord() error {
	if r.VerificationHost != "" {
		if err := dnsname.CheckHost(r.VerificationHost); err != nil {
			return fmt.Errorf("verification_host: %w", err)
		}
	}
	if err := checkToken(r.VerificationTXT); err != nil {
		return fmt.Errorf("verification_txt: %w", err)
	}
	return nil
}

var (
	// quotedToken is a token with the quotation marks of a zone file, a program or a text.
	quotedToken = regexp.MustCompile("(?s)^[\"'`\u201c\u201e\u2018\u00ab].*[\"'`\u201c\u201d\u2018\u2019\u00bb]$")
	// shortenedToken is a number as spreadsheets write one of many digits.
	shortenedToken = regexp.MustCompile(`^-?[0-9]([.,][0-9]+)?[Ee]\+[0-9]+$`)
)

// checkToken refuses a value that no record of the tenant has: the file was changed on its way.
func checkToken(token string) error {
	bare := strings.TrimFunc(token, func(r rune) bool { return unicode.IsSpace(r) || unicode.In(r, unicode.C) })
	switch {
	case len(token) > maxToken:
		return fmt.Errorf("at most %d bytes, got %d", maxToken, len(token))
	case bare != token:
		return fmt.Errorf("%s has blanks or invisible characters around it: give the token without", untrusted.Value(token))
	case quotedToken.MatchString(token):
		return fmt.Errorf("%s is in quotation marks: give the token without", untrusted.Value(token))
	case strings.Contains(token, "+") && shortenedToken.MatchString(token):
		return fmt.Errorf("%s is a number as a spreadsheet shortens it: format the column as text, and fill it again",
			untrusted.Value(token))
	}
	return nil
}
