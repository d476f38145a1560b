package schema

import "errors"

// Organization is an organization of the tenant. Only its ID is always present.
type Organization struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
}

// Identifier returns the id of the organization, unchecked.
func (o Organization) Identifier() string { return o.ID }

// Check returns an error unless the organization has an id.
func (o Organization) Check() error { return wantID(o.ID) }

// OrganizationOf is an organization as a list for a client has it (observed behaviour).
type OrganizationOf struct {
	Organization

	// Client is its association with the client; nil: it has none, or the tenant does not say.
	Client *ClientAssociation `json:"client,omitempty"`
	// AppEntitlement says that the removal of a client takes the application away from its members.
	AppEntitlement bool `json:"is_app_entitlement_active,omitempty"`
}

// ClientAssociation is the association of an organization with a client.
type ClientAssociation struct {
	UseForMemberAccess *bool `json:"use_for_member_access,omitempty"` // nil: the tenant does not say
}

func wantID(id string) error {
	if id == "" {
		return errors.New("missing or empty: id")
	}
	return nil
}
