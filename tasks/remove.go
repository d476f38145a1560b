package tasks

import (
	"errors"
	"fmt"
	"time"

	"orgops/apiclient/schema"
)

// TypeRemove is the kind of rows that remove a client's association with an organization
// (specification 4.2).
const TypeRemove = "clients:remove"

var remove = Kind{
	Name: TypeRemove, Command: "clients remove",
	Label: "Remove client associations from organizations.",
	Help: `use_for_member_access is that of the association. It is not sent: the results of the run have it for the undo.

With --client and --everywhere no rows are given. A worker reads all organizations, one request for each hundred of them, and lists
those that have the client, as a run that removes nothing. Once their number is typed back, or is at most that of --expect, another run
reads them again: if an organization has the client that the list does not have, nothing is removed; one that no longer has
it is left out. Organizations of the tenant's setting protect are left out.

Examples:

    enqueue clients remove clients.csv --follow
    enqueue clients remove --client CLIENT --everywhere --follow`,
	Columns: []Column{
		{Name: "organization_id", Required: true}, {Name: "client_id", Required: true},
		{Name: "use_for_member_access", Bool: true},
	},
	Scopes:   []string{"delete:organization_clients"},
	Together: schema.MaxClientsPerRequest,
	check:    func(r *Row) error { return RemoveRow{OrganizationID: r.values[0], ClientID: r.values[1]}.Validate() },
}

// RemoveRow is the content of a row of [TypeRemove].
type RemoveRow struct {
	OrganizationID string `json:"organization_id"`
	ClientID       string `json:"client_id"`
	// UseForMemberAccess is that of the association before it is removed. The removal does not send
	// it: it is stored for the undo, whose request needs it. nil: the submitter does not say.
	UseForMemberAccess *bool `json:"use_for_member_access,omitempty"`
}

// Validate checks the row, as far as that needs no tenant.
func (r RemoveRow) Validate() error {
	return errors.Join(schema.CheckID("organization_id", r.OrganizationID), schema.CheckID("client_id", r.ClientID))
}

// CheckClient returns an error unless a client may have that id.
func CheckClient(id string) error { return schema.CheckID("client_id", id) }

// DefaultBatchWait is how long a removal that is submitted by itself waits for others of its
// organization, and MaxBatchWait the longest time that it may.
const (
	DefaultBatchWait = 2 * time.Second
	MaxBatchWait     = time.Minute
)

// CheckBatchWait returns an error unless a removal may wait so long for others.
func CheckBatchWait(d time.Duration) error {
	if d < 0 || d > MaxBatchWait || d%time.Millisecond != 0 {
		return fmt.Errorf("batch-wait: want 0s to %s in whole milliseconds, got %s", MaxBatchWait, d)
	}
	return nil
}
