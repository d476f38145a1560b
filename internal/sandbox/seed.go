package sandbox

import (
	"bytes"
	"encoding/csv"
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// rowsPerOrganization is the number of rows of an organization: the most domains that one
// can have, and the clients of one DELETE.
const rowsPerOrganization = 100

// spread calls row n times, with a new organization after every per rows.
func (s *Sandbox) spread(n, per int, row func(org string, i int)) {
	var org string
	for i := range n {
		if i%per == 0 {
			org = s.AddOrganization("", s.organizationName())
		}
		row(org, i)
	}
}

func (s *Sandbox) csvRows(n, per int, header string, row func(org string, i int) []string) []byte {
	rows := [][]string{strings.Split(header, ",")}
	s.spread(n, per, func(org string, i int) { rows = append(rows, row(org, i)) })
	var b bytes.Buffer
	_ = csv.NewWriter(&b).WriteAll(rows) // a write to a buffer cannot fail
	return b.Bytes()
}

// SeedDomains adds n pending domains with published TXT records, and returns the input
// file to verify them: CSV of organization_id, discovery_domain_id.
func (s *Sandbox) SeedDomains(n int) []byte { return s.seedPending(n, "discovery_domain_id", true) }

// seedPending adds n pending domains, and returns their file, with the column discovery_domain_id
// or domain.
func (s *Sandbox) seedPending(n int, column string, published bool) []byte {
	return s.csvRows(n, rowsPerOrganization, "organization_id,"+column, func(org string, _ int) []string {
		d := s.AddDomain(org, Domain{Use: new(true)})
		if published {
			s.SetTXT(d.Host, d.TXT)
		}
		return []string{org, map[string]string{"discovery_domain_id": d.ID, "domain": d.Domain}[column]}
	})
}

// SeedUpdates adds n verified domains with published TXT records, and returns the input
// file to update them: CSV of organization_id, discovery_domain_id, status,
// use_for_organization_discovery. Of three rows one sets the status to pending, one the
// flag to false, and one both.
func (s *Sandbox) SeedUpdates(n int) []byte {
	return s.csvRows(n, rowsPerOrganization, "organization_id,discovery_domain_id,status,use_for_organization_discovery",
		func(org string, i int) []string {
			d := s.AddDomain(org, Domain{Status: statusVerified, Use: new(true)})
			s.SetTXT(d.Host, d.TXT)
			row := []string{org, d.ID, statusPending, strconv.FormatBool(false)}
			switch i % 3 {
			case 1:
				row[3] = ""
			case 2:
				row[2] = ""
			}
			return row
		})
}

// SeedClients associates n clients, and returns the input file to remove them: CSV of
// organization_id, client_id.
func (s *Sandbox) SeedClients(n int) []byte { return s.seedClients(n, rowsPerOrganization) }

func (s *Sandbox) seedClients(n, per int) []byte {
	return s.csvRows(n, per, "organization_id,client_id", func(org string, _ int) []string {
		client := s.names.client()
		s.AddClients(org, client)
		return []string{org, client}
	})
}

// SeedTemplates returns the input file to create n templates with unused names: JSON Lines
// of requests.
func (s *Sandbox) SeedTemplates(n int) []byte {
	var lines []byte
	for i := range n {
		lines = append(lines, templateRow(s.template(i))...)
	}
	return lines
}

// BulkOptions configures [Sandbox.SeedBulk].
type BulkOptions struct {
	Organizations int
	// Absent is the share of domains without a TXT record, Servfail the share for which DNS
	// answers SERVFAIL; each from 0 to 1, together at most 1.
	Absent, Servfail float64
}

// Bulk counts what [Sandbox.SeedBulk] has added.
type Bulk struct {
	Organizations int `json:"organizations"`
	Domains       int `json:"domains"`
	Absent        int `json:"absent"`   // of these
	Servfail      int `json:"servfail"` // of these
}

// bulkDomains is the largest number of domains of an organization.
const bulkDomains = 3

// SeedBulk adds organizations with one to three verified domains each, and publishes their
// TXT records except for the given shares. The same seed adds the same data.
func (s *Sandbox) SeedBulk(o BulkOptions) Bulk {
	bulk := Bulk{Organizations: o.Organizations}
	for range o.Organizations {
		org := s.AddOrganization("", s.organizationName())
		for range 1 + s.names.IntN(bulkDomains) {
			d := s.AddDomain(org, Domain{Status: statusVerified, Use: new(true)})
			bulk.Domains++
			switch share := s.names.Float64(); {
			case share < o.Absent:
				bulk.Absent++
			case share < o.Absent+o.Servfail:
				bulk.Servfail++
				s.SetRCode(d.Host, dns.RcodeServerFailure, -1)
			default:
				s.SetTXT(d.Host, d.TXT)
			}
		}
	}
	return bulk
}
