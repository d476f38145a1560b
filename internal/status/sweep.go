package status

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/sweep"
	"orgops/internal/tenant"
)

// SweepState is the state of a tenant's sweeps.
type SweepState struct {
	Tenant  string
	Summary *sweep.Summary // of the last sweep that was evaluated; nil: none was
	Breaker sweep.Breaker  // zero: it was never opened
}

// SweepStateOf reads the state of the tenant's sweeps.
func SweepStateOf(ctx context.Context, rdb redis.UniversalClient, tenant string) (s SweepState, err error) {
	s.Tenant = tenant
	store := sweep.NewStore(rdb, tenant)
	for name, into := range map[string]any{sweep.SummaryState: &s.Summary, sweep.BreakerState: &s.Breaker} {
		value, err := store.State(ctx, name)
		if err == nil && value != nil {
			err = json.Unmarshal(value, into)
		}
		if err != nil {
			return SweepState{}, fmt.Errorf("tenant %s: state %s: %w", tenant, name, err)
		}
	}
	return s, nil
}

// BreakerText describes the tenant's breaker and, if it holds domains back, how to confirm
// that these are gone.
func (s SweepState) BreakerText() string {
	b := s.Breaker
	var text string
	switch {
	case b.Open:
		text = fmt.Sprintf("OPEN since %s, nothing is acted on: %s", Stamp(b.At), reason(b.Why))
	case b.ID != "":
		text = "closed, but sweep " + Shown(b.ID) + " has held domains back: " + reason(b.Why)
	case !b.Confirmed.IsZero():
		return "closed; each absence before " + Stamp(b.Confirmed) + " is confirmed"
	default:
		return "closed"
	}
	return text + "; to confirm that these are gone: enqueue domains sweep --tenant " + s.Tenant + " --confirm " + Shown(b.ID)
}

// RuledSweeps are the sweeps of a tenant, by the rules of its workers.
type RuledSweeps struct {
	SweepState
	Rules sweep.Rules
}

func ruledSweeps(ctx context.Context, rdb redis.UniversalClient, name string) (RuledSweeps, error) {
	settings, _, err := tenant.ReadAnnounced(ctx, rdb, name)
	if err != nil {
		return RuledSweeps{}, err
	}
	state, err := SweepStateOf(ctx, rdb, name)
	return RuledSweeps{state, settings.Rules()}, err
}

// RulesText describes the action on domains whose token is gone, and when it is taken.
func RulesText(r sweep.Rules) string {
	text := fmt.Sprintf("%s, once %d sweeps have found the record gone over %s", r.Action, r.AbsentChecks, Span(r.Grace))
	if len(r.Protect) > 0 {
		text += "; never: " + strings.Join(r.Protect, ", ")
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

// SweepText describes the result of a sweep.
func SweepText(j sweep.Summary) string {
	return fmt.Sprintf("%s (run %s): %d organizations, %d domains: %s", Stamp(TickAt(j.Tick)), j.Run, j.Organizations, j.Present+j.Absent+j.Unknown, j)
}
