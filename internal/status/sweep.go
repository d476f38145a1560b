package status

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/sweep"
)

// Sweep is the result of a complete sweep of a tenant.
type Sweep struct {
	sweep.Summary

	Tick time.Time `json:"tick"` // instead of the Unix second
	// Revoked is how many domains were revoked since the sweep ended. It is 0 if none was lost, and
	// those of more than seven days ago are forgotten.
	Revoked int64 `json:"revoked_since,omitempty"`
}

// SweepOf reads the result of the tenant's last complete sweep; nil: there was none.
func SweepOf(ctx context.Context, rdb redis.UniversalClient, tenant string) (*Sweep, error) {
	store := sweep.NewStore(rdb, tenant)
	states := sweep.States{Tenant: tenant, Store: store}
	summary, raw, err := states.Summary(ctx)
	if err != nil || raw == nil {
		return nil, err
	}
	s := &Sweep{Summary: summary, Tick: TickAt(summary.Tick)}
	if s.Lost > 0 {
		s.Revoked, err = store.RevokedSince(ctx, summary.At)
	}
	return s, err
}

// StillLost returns how many of the lost domains were not revoked since.
func (s Sweep) StillLost() int64 { return max(0, s.Lost-s.Revoked) }

// ReviewLost is what to do about lost domains, apart from asking their owners. It never names the
// command that changes them: what is printed here is pasted into shells.
func ReviewLost(tenant string) string {
	return "to list lost domains, and which may be revoked: enqueue domains revoke --dry-run --tenant " + tenant
}

// String describes the result.
func (s Sweep) String() string {
	text := fmt.Sprintf("%s (run %s): %d organizations, %d domains: %d present, %d absent (%d lost, %d unproven), %d unknown",
		Stamp(s.Tick), Shown(s.Run), s.Organizations, s.Domains(), s.Present, s.Absent, s.Lost, s.Unproven, s.Unknown)
	if s.Revoked > 0 {
		text += fmt.Sprintf("; %d revoked since", s.Revoked)
	}
	return text
}

// RulesText describes when a domain is lost, and what is never revoked.
func RulesText(r sweep.Rules) string {
	text := fmt.Sprintf("a domain whose record was proven is lost once %d sweeps have found its record gone over %s",
		r.AbsentChecks, Span(r.Grace))
	if len(r.Protect) > 0 {
		text += "; never revoked: " + strings.Join(r.Protect, ", ")
	}
	return text
}

// ScheduleText describes a schedule of sweeps; the zero Cron is none.
func ScheduleText(c sweep.Cron, now time.Time) string {
	if c.String() == "" {
		return "none: sweeps are started by hand"
	}
	return fmt.Sprintf("%s, next at %s", c, Stamp(c.Next(now)))
}

// SkippedTick describes the tick of the schedule that was skipped last; "": none was.
func SkippedTick(s sweep.SkippedTick) string {
	if s.Tick == 0 {
		return ""
	}
	text := fmt.Sprintf("the tick of %s: %s", Stamp(TickAt(s.Tick)), s.Why)
	if s.InRow > 1 {
		text += fmt.Sprintf(" (%d in a row)", s.InRow)
	}
	return text
}
