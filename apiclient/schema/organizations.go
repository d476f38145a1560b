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

func wantID(id string) error {
	if id == "" {
		return errors.New("missing or empty: id")
	}
	return nil
}
