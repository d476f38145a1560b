package sweep

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/bits"
	"time"
)

// Ticks has the last tick of a tenant's schedule and its last sweeps, stored as JSON.
type Ticks struct {
	// Tick is the last one that was decided on, a Unix second; 0: none. Its sweep is Sweep,
	// or it was skipped, or it is the first one.
	Tick int64 `json:"tick,omitempty"`
	// Skipped is the last tick whose sweep was not started.
	Skipped SkippedTick `json:"skipped,omitzero"`
	// Sweep is the last one of the schedule, and ByHand the last of the whole tenant that
	// was started by a command.
	Sweep  TenantSweep `json:"sweep,omitzero"`
	ByHand TenantSweep `json:"by_hand,omitzero"`

	stored []byte
}

// SkippedTick is a tick whose sweep was not started.
type SkippedTick struct {
	Tick  int64  `json:"tick"`
	Why   string `json:"why"`
	InRow int    `json:"in_row"` // how many ticks up to this one were skipped, one after the other
}

// TenantSweep is a sweep of a whole tenant that was started, or is about to be.
type TenantSweep struct {
	Run  string    `json:"run"`
	Tick int64     `json:"tick"` // a Unix second
	At   time.Time `json:"at"`   // when that was decided, by Redis' clock
	// SpreadUntil is until when its checks are spread, a Unix second; 0: they are not.
	SpreadUntil int64 `json:"spread_until,omitempty"`
	// Pending is set if it checks pending domains too.
	Pending bool `json:"verify_pending,omitempty"`
	Started bool `json:"begun,omitempty"` // its run is created; only of sweeps of the schedule
}

const ticksState = "ticks"

// Ticks returns the tenant's ticks; the zero value if none are stored.
func (s *Store) Ticks(ctx context.Context) (Ticks, error) {
	var t Ticks
	stored, err := s.State(ctx, ticksState)
	if err != nil || stored == nil {
		return t, err
	}
	if err := json.Unmarshal(stored, &t); err != nil {
		return t, fmt.Errorf("read the ticks of tenant %s: %w", s.tenant, err)
	}
	t.stored = stored
	return t, nil
}

// SetTicks stores ticks that were read and changed. If another process has stored others
// meanwhile, ok is false and nothing is written.
func (s *Store) SetTicks(ctx context.Context, t *Ticks) (ok bool, err error) {
	value, err := json.Marshal(t)
	if err != nil {
		return false, fmt.Errorf("store the ticks of tenant %s: %w", s.tenant, err)
	}
	if ok, err = s.SetState(ctx, ticksState, t.stored, value); ok {
		t.stored = value
	}
	return ok, err
}

// Progress is the progress of the scan that finds the rows of a run, stored as JSON with the
// run. That of a scan which has not begun has its settings alone.
type Progress struct {
	Organization string `json:"organization_id,omitempty"` // the only one that is scanned; "": all

	// Tick and SpreadUntil are a sweep's, Unix seconds: when it was scheduled, or started
	// by hand, and until when its checks are spread from then on; 0: they are due at once.
	Tick        int64 `json:"tick,omitempty"`
	SpreadUntil int64 `json:"spread_until,omitempty"`
	// Pending is set if a sweep checks pending domains too, and proves those whose token
	// is there.
	Pending bool `json:"verify_pending,omitempty"`

	Read   int64  `json:"organizations_read"`
	Gone   int64  `json:"organizations_gone,omitempty"`   // that were answered with 404: deleted since they were listed
	Missed int64  `json:"organizations_missed,omitempty"` // that could not be read
	Why    string `json:"why,omitempty"`                  // the first of these could not be read
	// Early is why the scan ended before it had reached all organizations; "": it did not.
	Early string `json:"ended_early,omitempty"`
	Ended bool   `json:"ended,omitempty"`
}

// Complete reports whether no organization was left out so far.
func (p Progress) Complete() bool { return p.Missed == 0 && p.Early == "" }

// Due returns when a domain found by the sweep is checked, a Unix second; 0: at once. Domains are
// spread evenly, and a domain has the same part of the time in each sweep.
func (p Progress) Due(domainID string) int64 {
	if p.SpreadUntil <= p.Tick {
		return 0
	}
	hash := sha256.Sum256([]byte(domainID))
	part, _ := bits.Mul64(binary.BigEndian.Uint64(hash[:]), uint64(p.SpreadUntil-p.Tick))
	return p.Tick + int64(part) //nolint:gosec // it is less than SpreadUntil-Tick
}
