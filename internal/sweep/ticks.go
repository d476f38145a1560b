package sweep

import (
	"context"
	"encoding/json"
	"fmt"
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
