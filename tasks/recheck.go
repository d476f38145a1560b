package tasks

import (
	"encoding/json"
	"fmt"

	"orgops/internal/discovery"
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
	OrganizationID    string `json:"organization_id"`
	DiscoveryDomainID string `json:"discovery_domain_id"`
	ScannedRecord
	// Prove says that a pending domain is verified if its token is there, even if no
	// revocation has set it to pending.
	Prove bool  `json:"prove,omitempty"`
	Tick  int64 `json:"tick"` // of the sweep, a Unix second
}

// Record returns the domain's record.
func (r RecheckRow) Record() discovery.Domain {
	return r.Of(r.OrganizationID, r.DiscoveryDomainID)
}

// Validate checks the row, as far as that needs no tenant.
func (r RecheckRow) Validate() error {
	if r.Tick <= 0 {
		return fmt.Errorf("tick: want a Unix second, got %d", r.Tick)
	}
	return checkMembers(r.Record())
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
