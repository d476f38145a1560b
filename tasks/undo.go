package tasks

import (
	"orgops/apiclient/schema"
	"orgops/internal/discovery"
)

// Undo is the change that a row undoes. A record that is no longer as the run set it is left as it
// is.
type Undo struct {
	Run string `json:"run"`
	// Status and UseForOrganizationDiscovery are as the run set them; nil: these are not put back.
	Status                      *schema.DomainStatus `json:"status,omitempty"`
	UseForOrganizationDiscovery *bool                `json:"use_for_organization_discovery,omitempty"`
}

// Holds reports whether the record is as the run set it.
func (u Undo) Holds(d discovery.Domain) bool {
	if u.Status != nil && d.Status != *u.Status {
		return false
	}
	set := u.UseForOrganizationDiscovery
	have := d.Flag
	return set == nil || (have != nil && *have == *set)
}

// LeftAlone is why a record is left as it is.
func (u Undo) LeftAlone() string {
	return "left as it is: it was changed since run " + u.Run + " set it"
}
