package tasks

import (
	"crypto/rand"
	"fmt"
	"regexp"
	"strings"
	"time"

	"orgops/apiclient"
)

// DefaultTenant is the tenant of a run that names none.
const DefaultTenant = "default"

// DefaultGiveUp is how long a token may take to appear.
const DefaultGiveUp = 72 * time.Hour

// Summary is the result of a submission.
type Summary struct {
	Rows    int64 // all of the run
	Tasks   int64 // enqueued now, or before
	Settled int64 // rows that an earlier submission has settled: left alone
}

// Priority is the submitter's priority of a run, for all of its rows.
type Priority string

// The priorities.
const (
	ByRows         Priority = "" // high for runs of few rows
	HighPriority   Priority = "high"
	NormalPriority Priority = "normal"
)

// CheckPriority checks a priority.
func CheckPriority(p Priority) error {
	switch p {
	case ByRows, HighPriority, NormalPriority:
		return nil
	}
	return fmt.Errorf("priority: want high or normal, got %.40q", string(p))
}

// NewRunID makes an id that sorts by time: date, time and random letters.
func NewRunID(now time.Time) string {
	return now.UTC().Format("20060102-150405-") + strings.ToLower(rand.Text()[:6])
}

var (
	runPattern    = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	tenantPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)
)

// CheckRunID checks the id of a run.
func CheckRunID(id string) error {
	if !runPattern.MatchString(id) {
		return fmt.Errorf("run: want 1 to 64 of A-Z a-z 0-9 _ -, got %.80q", id)
	}
	return nil
}

// CheckTenant checks the name of a tenant.
func CheckTenant(name string) error {
	if !tenantPattern.MatchString(name) {
		return fmt.Errorf("tenant: want 1 to 32 of a-z 0-9 _ - beginning with a letter or digit, got %.80q", name)
	}
	return nil
}

// CheckOrganization checks the id of an organization.
func CheckOrganization(id string) error { return apiclient.CheckID("organization_id", id) }
