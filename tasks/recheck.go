package tasks

import (
	"encoding/json"
	"errors"
	"fmt"

	"orgops/apiclient/schema"
	"orgops/dnscheck/dnsname"
)

// TypeRecheck is the kind of rows that check a discovery domain for a sweep.
const TypeRecheck = "domain:recheck"

var recheck = Kind{
	Name: TypeRecheck, Command: "domains sweep",
	Label:       "Check all verified domains again now, or preview that.",
	Submitter:   Sweeps,
	WholeObject: true,
	Proves:      true,
	check:       checkIDsOf,
}

// RecheckRow is the content of a row of [TypeRecheck]: a record as the sweep's scan has read it.
type RecheckRow struct {
	OrganizationID    string              `json:"organization_id"`
	DiscoveryDomainID string              `json:"discovery_domain_id"`
	Domain            string              `json:"domain"`
	VerificationHost  string              `json:"verification_host"`
	VerificationTXT   string              `json:"verification_txt"`
	Status            schema.DomainStatus `json:"status"`
	// UseForOrganizationDiscovery is nil if the record omits it.
	UseForOrganizationDiscovery *bool `json:"use_for_organization_discovery,omitempty"`
	// Prove says that a pending domain is verified if its token is there, even if no
	// revocation has set it to pending.
	Prove bool  `json:"prove,omitempty"`
	Tick  int64 `json:"tick"` // of the sweep, a Unix second
}

// maxDomain bounds the name of a domain, in bytes (specification 2.1).
const maxDomain = 255

// Validate checks the row, as far as that needs no tenant.
func (r RecheckRow) Validate() error {
	if r.Tick <= 0 {
		return fmt.Errorf("tick: want a Unix second, got %d", r.Tick)
	}
	return r.checkMembers()
}

// CheckRecord returns why the record cannot be checked; nil: it can.
func (r RecheckRow) CheckRecord() error {
	if err := r.checkMembers(); err != nil {
		return err
	}
	return CheckProvable(r.Domain, r.VerificationHost)
}

func (r RecheckRow) checkMembers() error {
	if err := CheckDomainIDs(r.OrganizationID, r.DiscoveryDomainID); err != nil {
		return err
	}
	switch {
	case len(r.Domain) > maxDomain:
		return fmt.Errorf("domain: at most %d bytes, got %d", maxDomain, len(r.Domain))
	case r.VerificationTXT == "" || len(r.VerificationTXT) > maxToken:
		return fmt.Errorf("verification_txt: want 1 to %d bytes, got %d", maxToken, len(r.VerificationTXT))
	case r.Status == "":
		return errors.New("status: want that of the record")
	}
	if err := dnsname.CheckHost(r.VerificationHost); err != nil {
		return fmt.Errorf("verification_host: %w", err)
	}
	return nil
}

// checkIDsOf checks a row that no one submits as far as readers of runs need it.
func checkIDsOf(r *Row) error {
	var ids VerifyRow
	if err := json.Unmarshal(r.object, &ids); err != nil {
		return err
	}
	r.organization = ids.OrganizationID
	return CheckDomainIDs(ids.OrganizationID, ids.DiscoveryDomainID)
}
