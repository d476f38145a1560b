package sandbox

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/miekg/dns"
)

// Sample has a run of each kind, and an organization to sweep.
type Sample struct {
	// CSV: organization_id, discovery_domain_id, verification_host, verification_txt; most rows have
	// the two ids only
	Domains   []byte
	Clients   []byte // CSV: organization_id, client_id; one organization's 230
	Templates []byte // JSON Lines: 25 requests

	DomainRows []SampleRow // the rows of Domains, in their order

	// Swept are the domains of an organization to sweep: four verified ones, of which one
	// has lost its record and one gets no answer.
	Swept []SweptDomain
}

// SampleRow is a domain of the sample and its case.
type SampleRow struct {
	Organization, Domain string // ids
	// "at_once", "late", "servfail_first", "never", "other_value", "quoted", "doubled_host",
	// "verified_before", "flag_false", "flag_absent", "split", "alias"
	Case    string
	Outcome string // "done", "unchanged" or "expired"
}

// SweptDomain is a verified domain, and the state that a sweep finds.
type SweptDomain struct {
	Organization, Domain string // ids
	State                string // "present", "absent" or "unknown"
}

const (
	outcomeDone      = "done"
	outcomeUnchanged = "unchanged"
	outcomeExpired   = "expired"

	sampleDomains   = 200
	sampleLate      = 3 * time.Second // after which late records appear, spread over the second that follows
	sampleClients   = 230             // three DELETEs of at most 100
	sampleTemplates = 25
	perOrganization = 5 // domains
)

// sampleCase is a case of a domain: its record, and the records that are published.
type sampleCase struct {
	name, outcome string
	rows          int // of the 200; the rest are at_once
	record        func(*Domain)
	publish       func(*Sandbox, Domain, time.Duration)
}

var sampleCases = []sampleCase{
	{name: "late", outcome: outcomeDone, rows: 10, publish: func(s *Sandbox, d Domain, late time.Duration) {
		s.SetTXTAt(d.Host, late, d.TXT)
	}},
	{name: "servfail_first", outcome: outcomeDone, rows: 6, publish: func(s *Sandbox, d Domain, _ time.Duration) {
		s.SetTXT(d.Host, d.TXT)
		s.SetRCode(d.Host, dns.RcodeServerFailure, 2)
	}},
	{name: "never", outcome: outcomeExpired, rows: 6, publish: func(*Sandbox, Domain, time.Duration) {}},
	{name: "other_value", outcome: outcomeExpired, rows: 6, publish: func(s *Sandbox, d Domain, _ time.Duration) {
		s.SetTXT(d.Host, "v=spf1 -all", s.names.token())
	}},
	{name: "quoted", outcome: outcomeExpired, rows: 4,
		publish: func(s *Sandbox, d Domain, _ time.Duration) { s.SetTXT(d.Host, `"`+d.TXT+`"`) }},
	{name: "doubled_host", outcome: outcomeExpired, rows: 4,
		publish: func(s *Sandbox, d Domain, _ time.Duration) { s.SetTXT(d.Host+"."+d.Domain, d.TXT) }},
	{name: "verified_before", outcome: outcomeUnchanged, rows: 10,
		record: func(d *Domain) {
			d.Status = statusVerified
			d.Use = new(true)
		}},
	{name: "flag_false", outcome: outcomeDone, rows: 8, record: func(d *Domain) { d.Use = new(false) }},
	{name: "flag_absent", outcome: outcomeDone, rows: 8, record: func(d *Domain) { d.Use = nil }},
	{name: "split", outcome: outcomeDone, rows: 8, publish: func(s *Sandbox, d Domain, _ time.Duration) {
		s.SetTXTStrings(d.Host, []string{d.TXT[:10], "", d.TXT[10:]})
	}},
	{name: "alias", outcome: outcomeDone, rows: 8, publish: func(s *Sandbox, d Domain, _ time.Duration) {
		target := "proof." + d.Domain
		s.SetCNAME(d.Host, target)
		s.SetTXT(target, d.TXT)
	}},
}

var atOnce = sampleCase{name: "at_once", outcome: outcomeDone}

// Seed adds a sample to the tenant and the zone. The delay of the late records begins now.
func (s *Sandbox) Seed() Sample {
	var sample Sample
	s.seedDomains(&sample)
	sample.Clients = s.seedClients(sampleClients, sampleClients)
	s.seedTemplates(&sample)
	s.seedSwept(&sample)
	return sample
}

func (s *Sandbox) shuffledCases() []sampleCase {
	cases := make([]sampleCase, 0, sampleDomains)
	for _, c := range sampleCases {
		cases = append(cases, slices.Repeat([]sampleCase{c}, c.rows)...)
	}
	cases = append(cases, slices.Repeat([]sampleCase{atOnce}, sampleDomains-len(cases))...)
	s.names.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
	return cases
}

func (s *Sandbox) seedDomains(sample *Sample) {
	cases := s.shuffledCases()
	const header = "organization_id,discovery_domain_id,verification_host,verification_txt"
	sample.Domains = s.csvRows(len(cases), perOrganization, header, func(org string, i int) []string {
		c := cases[i]
		d := Domain{Use: new(true)}
		if c.record != nil {
			c.record(&d)
		}
		d = s.AddDomain(org, d)
		if c.publish == nil {
			s.SetTXT(d.Host, d.TXT)
		} else {
			c.publish(s, d, sampleLate+time.Duration(i%5)*200*time.Millisecond)
		}
		row := []string{org, d.ID, "", ""}
		if i%8 == 0 {
			row[2] = d.Host
			row[3] = d.TXT
		}
		sample.DomainRows = append(sample.DomainRows, SampleRow{Organization: org, Domain: d.ID,
			Case: c.name, Outcome: c.outcome})
		return row
	})
}

// seedTemplates makes the requests, and adds two of the templates: one with other content, so that
// its request is refused, one with the same.
func (s *Sandbox) seedTemplates(sample *Sample) {
	for i := range sampleTemplates {
		t := s.template(i)
		switch i {
		case 7:
			taken := t.copy()
			taken.Claims["portrait"] = !taken.Claims["portrait"]
			s.AddTemplate(taken)
		case 14:
			s.AddTemplate(t)
		}
		sample.Templates = append(sample.Templates, templateRow(t)...)
	}
}

// seedSwept is called last, so that it does not change the names of the others.
func (s *Sandbox) seedSwept(sample *Sample) {
	org := s.AddOrganization("", s.organizationName())
	for _, state := range []string{"present", "absent", "unknown", "present"} {
		d := s.AddDomain(org, Domain{Status: statusVerified, Use: new(true)})
		switch state {
		case "present":
			s.SetTXT(d.Host, d.TXT)
		case "unknown":
			s.SetTXT(d.Host, d.TXT)
			s.SetRCode(d.Host, dns.RcodeServerFailure, -1)
		}
		sample.Swept = append(sample.Swept, SweptDomain{Organization: org, Domain: d.ID, State: state})
	}
}

// template returns a request with a unique name. The first has no claims, which is the
// smallest legal request.
func (s *Sandbox) template(i int) Template {
	t := Template{
		Name: fmt.Sprintf("Licence check %d", s.names.count()), Type: "mdl", Dialect: "simplified/1.0",
		WellKnownTrustedIssuers: "aamva", Claims: map[string]bool{},
	}
	for j := range i % len(claimNames) {
		t.Claims[claimNames[j]] = j%4 != 3
	}
	return t
}

// templateRow returns the template's request (specification 4.3) on a line.
func templateRow(t Template) []byte {
	line, err := json.Marshal(map[string]any{
		"name": t.Name, "type": t.Type, "dialect": t.Dialect,
		"presentation": presentation(t.Claims), "well_known_trusted_issuers": t.WellKnownTrustedIssuers,
	})
	if err != nil {
		return nil // strings and booleans always encode
	}
	return append(line, '\n')
}

var words = []string{
	"amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "harbour", "island", "juniper", "kestrel",
	"lantern", "meadow", "north", "orchid", "pebble", "quarry", "river", "summit", "tundra", "umber", "valley",
	"willow", "yarrow", "zephyr",
}

// domainName returns a name below .example, which is reserved (RFC 2606).
func (s *Sandbox) domainName() string { return s.organizationName() + ".example" }

func (s *Sandbox) organizationName() string {
	n := s.names.count()
	return fmt.Sprintf("%s-%d", words[n%len(words)], n)
}
