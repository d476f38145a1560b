package sandbox

import "strconv"

// rowsPerOrganization is how many fresh rows share an organization: of
// domains an organization can have 100, and 100 clients fill one DELETE.
const rowsPerOrganization = 100

// spread calls row n times, with a fresh organization for each hundred.
func (s *Sandbox) spread(n int, row func(org string, i int)) {
	var org string
	for i := range n {
		if i%rowsPerOrganization == 0 {
			org = s.AddOrganization("", s.organizationName())
		}
		row(org, i)
	}
}

// SeedDomains adds n pending domains whose TXT records are published already,
// and returns the input file to verify them: CSV of organization_id,
// discovery_domain_id.
func (s *Sandbox) SeedDomains(n int) []byte {
	return s.seedPending(n, func(d Domain) { s.SetTXT(d.Host, d.TXT) })
}

// SeedUnpublished is SeedDomains without TXT records.
func (s *Sandbox) SeedUnpublished(n int) []byte { return s.seedPending(n, func(Domain) {}) }

func (s *Sandbox) seedPending(n int, publish func(Domain)) []byte {
	rows := [][]string{{"organization_id", "discovery_domain_id"}}
	s.spread(n, func(org string, _ int) {
		d := s.AddDomain(org, Domain{Use: new(true)})
		publish(d)
		rows = append(rows, []string{org, d.ID})
	})
	return csvOf(rows)
}

// SeedUpdates adds n verified domains whose TXT records are published, and
// returns the input file to update them: CSV of organization_id,
// discovery_domain_id, status, use_for_organization_discovery. One row in
// three sets both, one the status to pending, one the flag to false.
func (s *Sandbox) SeedUpdates(n int) []byte {
	rows := [][]string{{"organization_id", "discovery_domain_id", "status", "use_for_organization_discovery"}}
	s.spread(n, func(org string, i int) {
		d := s.AddDomain(org, Domain{Status: statusVerified, Use: new(true)})
		s.SetTXT(d.Host, d.TXT)
		row := []string{org, d.ID, statusPending, strconv.FormatBool(false)}
		switch i % 3 {
		case 1:
			row[3] = ""
		case 2:
			row[2] = ""
		}
		rows = append(rows, row)
	})
	return csvOf(rows)
}

// SeedClients associates n clients, and returns the input file to remove
// them: CSV of organization_id, client_id.
func (s *Sandbox) SeedClients(n int) []byte {
	rows := [][]string{{"organization_id", "client_id"}}
	s.spread(n, func(org string, _ int) {
		client := s.names.client()
		s.AddClients(org, client)
		rows = append(rows, []string{org, client})
	})
	return csvOf(rows)
}

// SeedTemplates returns the input file to create n templates whose names are
// free: JSON Lines of requests.
func (s *Sandbox) SeedTemplates(n int) []byte {
	var lines []byte
	for i := range n {
		lines = append(lines, templateRow(s.template(i))...)
	}
	return lines
}
