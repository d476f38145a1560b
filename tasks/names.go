package tasks

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"orgops/apiclient/schema"
	"orgops/internal/ids"
	"orgops/internal/untrusted"
)

// DefaultTenant is the tenant of rows that name none.
const DefaultTenant = "default"

// Priority says whether the rows of a run are served before those of others.
type Priority string

// The priorities.
const (
	ByRows         Priority = "" // high, if the run has few rows
	HighPriority   Priority = "high"
	NormalPriority Priority = "normal"
)

// RunTime is the layout of the time with which the ids of [NewRunID] begin, in UTC.
const RunTime = "20060102-150405-"

// NewRunID returns an id that sorts by time: date, time and random letters.
func NewRunID(now time.Time) string {
	return now.UTC().Format(RunTime) + strings.ToLower(rand.Text()[:6])
}

// CheckRun returns an error unless tenant, id and priority of a run have their forms.
func CheckRun(tenant, id string, p Priority) error {
	err := errors.Join(ids.CheckTenant(tenant), ids.CheckRun(id))
	if !slices.Contains([]Priority{ByRows, HighPriority, NormalPriority}, p) {
		err = errors.Join(err, fmt.Errorf("priority: want high or normal, got %s", untrusted.Value(p)))
	}
	return err
}

// CheckOrganization returns an error unless the text has the form of an organization's id.
func CheckOrganization(id string) error { return schema.CheckID("organization_id", id) }

// CheckDomainID returns an error unless the text has the form of a discovery domain's id.
func CheckDomainID(id string) error { return schema.CheckID("discovery_domain_id", id) }
