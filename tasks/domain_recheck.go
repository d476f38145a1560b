package tasks

// A re-check looks and writes down what it has seen, once for each domain, token
// and tick: a second run of it finds that written already.

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
)

// RecheckPayload asks for one look at a discovery domain by a sweep; it is the
// payload of domain:recheck, a row's, and of domain:relook, which is looked at again
// between two sweeps and belongs to no row. Host, token and status are as the sweep
// read them.
type RecheckPayload struct {
	Envelope

	OrganizationID              string                 `json:"organization_id"`
	DiscoveryDomainID           string                 `json:"discovery_domain_id"`
	Domain                      string                 `json:"domain"`
	VerificationHost            string                 `json:"verification_host"`
	VerificationTXT             string                 `json:"verification_txt"`
	Status                      apiclient.DomainStatus `json:"status"`
	UseForOrganizationDiscovery *bool                  `json:"use_for_organization_discovery,omitempty"` // nil: not said
	Tick                        int64                  `json:"tick"`                                     // the sweep's, a Unix second
}

// Validate checks what does not need the tenant.
func (p RecheckPayload) Validate() error {
	if p.Tick <= 0 {
		return fmt.Errorf("tick: want a Unix second, got %d", p.Tick)
	}
	return p.checkRecord()
}

func (p RecheckPayload) checkRecord() error {
	if err := checkDomainIDs(p.OrganizationID, p.DiscoveryDomainID); err != nil {
		return err
	}
	switch {
	case len(p.Domain) > longestDomain:
		return fmt.Errorf("domain: at most %d octets, got %d", longestDomain, len(p.Domain))
	case p.VerificationTXT == "" || len(p.VerificationTXT) > longestToken:
		return fmt.Errorf("verification_txt: want 1 to %d octets, got %d", longestToken, len(p.VerificationTXT))
	case p.Status != apiclient.StatusVerified && p.Status != apiclient.StatusPending:
		return fmt.Errorf("status: want verified or pending, got %.20q", string(p.Status))
	}
	if err := dnscheck.CheckHost(p.VerificationHost); err != nil {
		return fmt.Errorf("verification_host: %w", err)
	}
	return nil
}

// longestDomain is the most octets that a domain has (specification 2.1).
const longestDomain = 255

// recheckRow is a row of a sweep: a record as its walk has read it, and when it is
// to be looked at.
type recheckRow struct {
	OrganizationID              string `json:"organization_id"`
	DiscoveryDomainID           string `json:"discovery_domain_id"`
	Domain                      string `json:"domain"`
	VerificationHost            string `json:"verification_host"`
	VerificationTXT             string `json:"verification_txt"`
	Status                      string `json:"status"`
	UseForOrganizationDiscovery *bool  `json:"use_for_organization_discovery,omitempty"`
	Tick                        int64  `json:"tick"`
	Due                         int64  `json:"due,omitempty"` // a Unix second; 0: at once
}

func (r recheckRow) payload(e Envelope) RecheckPayload {
	return RecheckPayload{
		Envelope: e, OrganizationID: r.OrganizationID, DiscoveryDomainID: r.DiscoveryDomainID, Domain: r.Domain,
		VerificationHost: r.VerificationHost, VerificationTXT: r.VerificationTXT, Status: apiclient.DomainStatus(r.Status),
		UseForOrganizationDiscovery: r.UseForOrganizationDiscovery, Tick: r.Tick,
	}
}

func parseRecheck(object json.RawMessage, _ Defaults) (Row, error) {
	var r recheckRow
	if err := decodeStrict(object, &r); err != nil {
		return Row{}, err
	}
	if r.Due < 0 {
		return Row{}, errors.New("due: want a Unix second")
	}
	row := Row{kind: TypeRecheck, organization: r.OrganizationID, id: r.DiscoveryDomainID, recheck: &r}
	if r.Due > 0 {
		row.due = time.Unix(r.Due, 0)
	}
	return row, r.payload(Envelope{}).Validate()
}
