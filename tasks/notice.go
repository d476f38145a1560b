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

// Types of notices.
const (
	NoticeVerified    = "domain.verified"
	NoticeExpired     = "domain.expired"
	NoticeAtRisk      = "domain.at_risk"  // the token of a verified domain was seen to be gone for the first time
	NoticeLost        = "domain.lost"     // it was gone for the grace, and was acted on as Action says
	NoticeRestored    = "domain.restored" // it is back: what was taken away was given back, or nothing had been
	NoticeRunFinished = "run.finished"
	NoticeBreakerOpen = "breaker.open" // a sweep found too much gone at once; nothing is acted on until an operator closes the breaker
)

// NoticeTypes are all of them.
var NoticeTypes = []string{
	NoticeVerified, NoticeExpired, NoticeAtRisk, NoticeLost, NoticeRestored, NoticeRunFinished, NoticeBreakerOpen,
}

// NoticeData is what a notice says; what does not concern it is left out. What
// strangers wrote is cut, and has its control characters quoted.
type NoticeData struct {
	Tenant            string    `json:"tenant"`
	OrganizationID    string    `json:"organization_id,omitempty"`
	DiscoveryDomainID string    `json:"discovery_domain_id,omitempty"`
	Domain            string    `json:"domain,omitempty"`
	Run               string    `json:"run,omitempty"`
	Tick              int64     `json:"tick,omitempty"`   // of the sweep, a Unix second
	Reason            string    `json:"reason,omitempty"` // for people
	Since             time.Time `json:"since,omitzero"`   // when the token was first seen to be gone
	Action            string    `json:"action,omitempty"` // what was done: report, unroute or pending

	Kind   string           `json:"kind,omitempty"`   // of a run
	Counts map[string]int64 `json:"counts,omitempty"` // of a run: rows by outcome
}
