package tasks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"
)

// Version is the payload version that this worker writes, and the newest
// that it reads. A payload with a newer one is left for a newer worker.
const Version = 1

// Types of tasks. The type of a row task is also the kind of its run;
// [TypeConfirm] is the second half of [TypeVerify], and [TypeWalk] finds its rows.
const (
	TypeVerify  = "domain:verify"
	TypeConfirm = "domain:confirm"
	TypeUpdate  = "domain:update"
	TypeRemove  = "clients:remove"
	TypeCreate  = "template:create"
	TypeWalk    = "domains:walk"
)

// DefaultTenant is the tenant of a payload that names none.
const DefaultTenant = "default"

// Envelope is the part that every payload has. It is read first and
// leniently, so that a payload whose other members this worker cannot read
// still settles its rows.
type Envelope struct {
	V         int       `json:"v"`
	Tenant    string    `json:"tenant,omitempty"`
	Run       string    `json:"run"`
	Item      *int64    `json:"item,omitempty"`  // the row, of a task that is one row
	Items     []int64   `json:"items,omitempty"` // the rows, of a batch
	CreatedAt time.Time `json:"created_at"`      // when the run was, or the row found by its walk; RFC 3339 in UTC
	// Generation is that of the run when the task was enqueued: a run that is
	// resumed has tasks of a higher one, and drops those of the lower ones.
	Generation int `json:"generation,omitempty"`
	// Alone says that the rows are part of no bulk run: the worker that takes the
	// task up writes them down, under the id of Run. See [Producer.Enqueue].
	Alone bool `json:"alone,omitempty"`
}

// Rows are the run's rows that the task stands for.
func (e Envelope) Rows() []int64 {
	if e.Item != nil {
		return []int64{*e.Item}
	}
	return e.Items
}

// kindOfType is the kind of the run that a task of type typ belongs to.
func kindOfType(typ string) string {
	if typ == TypeConfirm || typ == TypeWalk {
		return TypeVerify
	}
	return typ
}

// readEnvelope reads the envelope of a task of that type and ignores everything else.
func readEnvelope(typ string, payload []byte) (Envelope, error) {
	var e Envelope
	if err := json.Unmarshal(payload, &e); err != nil {
		return e, fmt.Errorf("payload: %w", err)
	}
	if e.Tenant == "" {
		e.Tenant = DefaultTenant
	}
	if err := CheckRunID(e.Run); err != nil {
		return e, fmt.Errorf("payload: %w", err)
	}
	if typ == TypeWalk {
		if len(e.Rows()) > 0 {
			return e, errors.New("payload: a walk stands for no row, and this one names some")
		}
		return e, nil
	}
	if len(e.Rows()) == 0 || (e.Item != nil && len(e.Items) > 0) {
		return e, errors.New("payload: want either item or items")
	}
	if first := slices.Min(e.Rows()); first < 0 {
		return e, fmt.Errorf("payload: row %d: rows count from 0", first)
	}
	return e, nil
}

// decodeStrict reads a whole payload: unknown members and anything after
// the object are refused.
func decodeStrict(payload []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(payload))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON object")
	}
	return nil
}

var (
	runPattern    = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	tenantPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)
)

// CheckRunID refuses what cannot be a run's id.
func CheckRunID(id string) error {
	if !runPattern.MatchString(id) {
		return fmt.Errorf("run: want 1 to 64 of A-Z a-z 0-9 _ -, got %.80q", id)
	}
	return nil
}

// CheckTenant refuses what cannot be a tenant's name.
func CheckTenant(name string) error {
	if !tenantPattern.MatchString(name) {
		return fmt.Errorf("tenant: want 1 to 32 of a-z 0-9 _ - beginning with a letter or digit, got %.80q", name)
	}
	return nil
}
