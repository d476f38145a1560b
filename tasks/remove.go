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
	Help: `Example:

    enqueue clients remove clients.csv --follow`,
	Columns:  []Column{{Name: "organization_id", Required: true}, {Name: "client_id", Required: true}},
	Scopes:   []string{"delete:organization_clients"},
	Together: schema.MaxClientsPerRequest,
	check:    func(r *Row) error { return RemoveRow{r.values[0], r.values[1]}.Validate() },
}

// RemoveRow is the content of a row of [TypeRemove].
type RemoveRow struct {
	OrganizationID string `json:"organization_id"`
	ClientID       string `json:"client_id"`
}

// Validate checks the row, as far as that needs no tenant.
func (r RemoveRow) Validate() error {
	return errors.Join(schema.CheckID("organization_id", r.OrganizationID), schema.CheckID("client_id", r.ClientID))
}

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
