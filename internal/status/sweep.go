package status

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/remedy"
	"orgops/internal/stamp"
	"orgops/internal/sweep"
	"orgops/tasks"
)

// Sweep is the result of a complete sweep of a tenant.
type Sweep struct {
	sweep.Summary

	Tick time.Time `json:"tick"` // instead of the Unix second
	// Revoked is how many of the lost domains were revoked since, or set to pending by a row.
	Revoked int64 `json:"revoked_since,omitempty"`
}

// SweepOf reads the result of the tenant's last complete sweep; nil: there was none.
func SweepOf(ctx context.Context, rdb redis.Cmdable, tenant string) (*Sweep, error) {
	store := sweep.NewStore(rdb, tenant)
	states := sweep.States{Tenant: tenant, Store: store}
	summary, raw, err := states.Summary(ctx)
	if err != nil || raw == nil {
		return nil, err
	}
	s := &Sweep{Summary: summary, Tick: TickAt(summary.Tick)}
	if s.Lost > 0 {
		s.Revoked, err = store.RevokedOf(ctx, summary.Tick)
	}
	return s, err
}

// StillLost returns how many of the lost domains were not revoked since.
func (s Sweep) StillLost() int64 { return max(0, s.Lost-s.Revoked) }

// runText returns the state of a run in words: see [State]. That of the tenant's last complete
// sweep counts lost domains that were revoked since as revoked, and those without a clear answer.
func runText(ctx context.Context, rdb redis.Cmdable, r ledger.Run, held ...Hold) (string, error) {
	if r.Kind != tasks.TypeRecheck {
		return State(r, held...), nil
	}
	s, err := SweepOf(ctx, rdb, string(r.Tenant))
	if err != nil || s == nil || s.Run != string(r.ID) {
		return State(r, held...), err
	}
	revoked := min(s.Revoked, r.Counts[ledger.Lost])
	if revoked > 0 {
		r.Counts = maps.Clone(r.Counts)
		r.Counts[ledger.Lost] -= revoked
	}
	text := State(r, held...)
	if revoked > 0 {
		text += fmt.Sprintf(", %s revoked since", Grouped(revoked))
	}
	if s.Unknown > 0 {
		text += fmt.Sprintf(", %s unknown", Grouped(s.Unknown))
	}
	return text, nil
}

// What to do about findings of sweeps, of one domain or of several.
const (
	publishAgain = "have the record published again: the next sweep finds it"
	publishFirst = "have the record published: the next sweep proves it; the domain stays verified until then"
	takeBack     = "look for a tool that manages domains, such as Terraform, take what it shall not change out of its files, " +
		"and verify again"
)

// reviewLost is the remedy for lost domains. It never names the command that changes them, since
// users paste printed commands into shells.
func reviewLost(tenant string) string {
	return publishAgain + "; to list lost domains, and which may be revoked: " +
		remedy.Command{Name: "domains revoke", Flags: "--dry-run --tenant " + tenant}.String()
}

// String describes the result.
func (s Sweep) String() string {
	lost := Grouped(s.StillLost()) + " lost"
	if s.Revoked > 0 {
		lost += fmt.Sprintf(", %s revoked since", Grouped(s.Revoked))
	}
	// Others of the absent may be unproven too: their rows say so before the grace period is over.
	gone := fmt.Sprintf("gone for the grace period: %s, %s unproven", lost, Grouped(s.Unproven))
	return fmt.Sprintf("%s (run %s): %s, %s: %s present, %s absent (%s), %s unknown",
		stamp.UTC(s.Tick), Shown(s.Run), CountOf(s.Organizations, "organization"), CountOf(s.Domains(), "domain"),
		Grouped(s.Present), Grouped(s.Absent), gone, Grouped(s.Unknown))
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
	return fmt.Sprintf("%s, next at %s", c, stamp.UTC(c.Next(now)))
}

// SkippedTick describes the tick of the schedule that was skipped last; "": none was.
func SkippedTick(s sweep.SkippedTick) string {
	if s.Tick == 0 {
		return ""
	}
	text := fmt.Sprintf("the tick of %s: %s", stamp.UTC(TickAt(s.Tick)), s.Why)
	if s.InRow > 1 {
		text += fmt.Sprintf(" (%d in a row)", s.InRow)
	}
	return text
}
