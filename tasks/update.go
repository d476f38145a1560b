package tasks

import (
	"errors"
	"strings"

	"orgops/apiclient/schema"
	"orgops/dnscheck/dnsname"
)

// TypeUpdate is the kind of rows that set a discovery domain's status or discovery flag
// (specification 4.1).
const TypeUpdate = "domain:update"

var update = Kind{
	Name: TypeUpdate, Command: "domains update",
	Label: "Set the status or use_for_organization_discovery of discovery domains.",
	Help: `A name instead of discovery_domain_id must be known from a row about the domain that was executed, from any source.

Example:

    enqueue domains update --org ORG --domain DOMAIN --status pending`,
	Columns: []Column{
		{Name: "organization_id", Required: true}, {Name: "discovery_domain_id", Required: true},
		{Name: "status"}, {Name: "use_for_organization_discovery", Bool: true},
	},
	Scopes:   []string{UpdateDomains, ReadDomains},
	Requests: 2,
	check: func(r *Row) (err error) {
		if name := r.values[1]; strings.Contains(name, ".") { // package intake finds the id
			r.values[1] = ""
			if r.domain, err = dnsname.CheckDomain(name); err == nil {
				err = schema.CheckID("organization_id", r.organization)
			}
			return err
		}
		row := UpdateRow{OrganizationID: r.values[0], DiscoveryDomainID: r.values[1]}
		if status := r.values[2]; status != "" {
			row.Status = new(schema.DomainStatus(status))
		}
		if use := r.values[3]; use != "" {
			row.UseForOrganizationDiscovery = new(use == "true")
		}
		return row.Validate()
	},
}

// UpdateRow is the content of a row of [TypeUpdate].
type UpdateRow struct {
	OrganizationID    string `json:"organization_id"`
	DiscoveryDomainID string `json:"discovery_domain_id"`
	// Status and UseForOrganizationDiscovery are set as given; nil: unchanged.
	Status                      *schema.DomainStatus `json:"status,omitempty"`
	UseForOrganizationDiscovery *bool                `json:"use_for_organization_discovery,omitempty"`
	// Undo says that the row undoes a change of another run. No submitter can set it: the intake
	// ignores members that begin with orgops_.
	Undo *Undo `json:"orgops_undo,omitempty"`
}

// Validate checks the row, as far as that needs no tenant.
func (r UpdateRow) Validate() error {
	return errors.Join(CheckDomainIDs(r.OrganizationID, r.DiscoveryDomainID), r.Update().Validate())
}

// Update returns the change that the row asks for.
func (r UpdateRow) Update() schema.DiscoveryDomainUpdate {
	return schema.DiscoveryDomainUpdate{Status: r.Status, UseForOrganizationDiscovery: r.UseForOrganizationDiscovery}
}
