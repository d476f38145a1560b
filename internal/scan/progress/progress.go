// Package progress has the settings and the progress of the scans that find the rows of runs, as
// they are stored with a run. What creates and shows runs needs no more of scans and sweeps.
package progress

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// Scan is the progress of the scan that finds the rows of a run, stored as JSON with the
// run. That of a scan which has not begun has its settings alone.
type Scan struct {
	Organization string `json:"organization_id,omitempty"` // the only one that is scanned; "": all

	// Tick and SpreadUntil are a sweep's, Unix seconds: when it was scheduled, or started
	// by hand, and until when its checks are spread from then on; 0: they are due at once.
	Tick        int64 `json:"tick,omitempty"`
	SpreadUntil int64 `json:"spread_until,omitempty"`
	// Pending is set if a sweep checks pending domains too, and proves those whose token
	// is there.
	Pending bool `json:"verify_pending,omitempty"`

	// Client is the client whose organizations the scan finds; empty: it finds domains. Without List
	// the rows are the list of these organizations, and change nothing.
	Client string `json:"client_id,omitempty"`
	// List is the run that has listed them, of this incarnation, with Counted rows: the client is
	// removed from those that still have it, if no others have it.
	List            string `json:"list,omitempty"`
	ListIncarnation string `json:"list_incarnation,omitempty"`
	Counted         int64  `json:"counted,omitempty"`
	Found           int64  `json:"organizations_with_client,omitempty"`
	Entitled        int64  `json:"organizations_entitled,omitempty"`  // of these, by active app entitlement
	Protected       int64  `json:"organizations_protected,omitempty"` // that are left out

	Read   int64  `json:"organizations_read"`
	Gone   int64  `json:"organizations_gone,omitempty"`   // that were answered with 404: deleted since they were listed
	Missed int64  `json:"organizations_missed,omitempty"` // that could not be read
	Why    string `json:"why,omitempty"`                  // the first of these could not be read
	// Early is why the scan ended before it had reached all organizations; "": it did not.
	Early string `json:"ended_early,omitempty"`
	Ended bool   `json:"ended,omitempty"`
}

// Complete reports whether no organization was left out so far.
func (p Scan) Complete() bool { return p.Missed == 0 && p.Early == "" }

// Due returns when a domain found by the sweep is checked, a Unix second; 0: at once. Domains are
// spread evenly, and a domain has the same part of the time in each sweep.
func (p Scan) Due(domainID string) int64 {
	if p.SpreadUntil <= p.Tick {
		return 0
	}
	hash := sha256.Sum256([]byte(domainID))
	part, _ := bits.Mul64(binary.BigEndian.Uint64(hash[:]), uint64(p.SpreadUntil-p.Tick))
	return p.Tick + int64(part) //nolint:gosec // it is less than SpreadUntil-Tick
}
