package sandbox

import "github.com/miekg/dns"

// CrowdOptions are the measures of a crowd.
type CrowdOptions struct {
	Organizations int
	// Absent is the share of domains whose tokens do not stand, Servfail of those
	// that DNS answers with SERVFAIL for; each from 0 to 1, both at most 1.
	Absent, Servfail float64
}

// Crowd is what SeedCrowd has added.
type Crowd struct {
	Organizations int `json:"organizations"`
	Domains       int `json:"domains"`
	Absent        int `json:"absent"`   // of these
	Servfail      int `json:"servfail"` // of these
}

// mostOfCrowd is how many domains an organization of a crowd has at the most.
const mostOfCrowd = 3

// SeedCrowd adds organizations with one to three verified domains each, whose tokens
// stand in the zone but for the shares that are asked for. The same seed has the same
// crowd.
func (s *Sandbox) SeedCrowd(o CrowdOptions) Crowd {
	crowd := Crowd{Organizations: o.Organizations}
	for range o.Organizations {
		org := s.AddOrganization("", s.organizationName())
		for range 1 + s.names.IntN(mostOfCrowd) {
			d := s.AddDomain(org, Domain{Status: statusVerified, Use: new(true)})
			crowd.Domains++
			switch share := s.names.Float64(); {
			case share < o.Absent:
				crowd.Absent++
			case share < o.Absent+o.Servfail:
				crowd.Servfail++
				s.SetRCode(d.Host, dns.RcodeServerFailure, -1)
			default:
				s.SetTXT(d.Host, d.TXT)
			}
		}
	}
	return crowd
}
