package tasks

import "time"

// Notice is something that has happened to a domain or to a tenant, for other
// systems and for the log.
type Notice struct {
	// ID is the notice's own: the same notice told again has the same id, and that of
	// a later run under the same run's id has another.
	ID string
	// Type is one of the types below.
	Type string
	At   time.Time
	Data NoticeData
}

// Types of notices. docs/reference/events.md has their comments.
const (
	NoticeVerified    = "domain.verified" // a domain was proven and marked verified
	NoticeExpired     = "domain.expired"  // the token of a domain did not appear in time
	NoticeAtRisk      = "domain.at_risk"  // the token of a verified domain was found to be gone for the first time
	NoticeLost        = "domain.lost"     // the token of a verified domain was gone for the whole grace period; action says what was done
	NoticeRestored    = "domain.restored" // the token of such a domain is there again; if it had been acted on, it was restored
	NoticeRunFinished = "run.finished"    // all rows of a run are settled
	NoticeBreakerOpen = "breaker.open"    // a sweep found too many tokens gone at once; no sweep acts on a domain until an operator closes the breaker
)

// NoticeTypes are all of them.
var NoticeTypes = []string{
	NoticeVerified, NoticeExpired, NoticeAtRisk, NoticeLost, NoticeRestored, NoticeRunFinished, NoticeBreakerOpen,
}

// NoticeData is what a notice says; what does not concern it is left out. What
// strangers wrote is cut, and has its control characters quoted.
// docs/reference/events.md has the comments of the fields.
type NoticeData struct {
	Tenant            string    `json:"tenant"`                        // name of the tenant
	OrganizationID    string    `json:"organization_id,omitempty"`     // organization of the domain
	DiscoveryDomainID string    `json:"discovery_domain_id,omitempty"` // id of the domain
	Domain            string    `json:"domain,omitempty"`              // name of the domain, as far as it is known
	Run               string    `json:"run,omitempty"`                 // id of the run, or of the sweep
	Tick              int64     `json:"tick,omitempty"`                // of the sweep, a Unix second
	Reason            string    `json:"reason,omitempty"`              // for people
	Since             time.Time `json:"since,omitzero"`                // when the token was first seen to be gone
	Action            string    `json:"action,omitempty"`              // what was done: report, unroute or pending

	Kind   string           `json:"kind,omitempty"`   // of a run
	Counts map[string]int64 `json:"counts,omitempty"` // of a run: rows by outcome
}
