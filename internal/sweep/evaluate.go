package sweep

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"orgops/internal/events"
)

// EndedSweep is a sweep whose run has ended.
type EndedSweep struct {
	Run      string
	Progress Progress
}

// Evaluator evaluates the sweeps of a tenant.
type Evaluator struct {
	States *States
	Rules  Rules
	Logger *slog.Logger
}

// Evaluate decides on the watched domains at the end of a sweep and returns the actions to
// submit, by domain id. Before that it stores breaker and summary.
//
// It can be repeated after an error or a kill at any point: the same states lead to the same
// decisions, and [ErrChanged] asks for a repetition. Once the actions are submitted they
// change the states, and another evaluation returns other rows: a caller that finds the
// run of the actions committed does not evaluate the sweep again.
func (e Evaluator) Evaluate(ctx context.Context, s EndedSweep) ([]ActionRow, error) {
	p := s.Progress
	if p.Tick <= 0 { // zero would assess domains that the sweep has not checked
		return nil, fmt.Errorf("evaluate sweep %s: tick: want a Unix second, got %d", s.Run, p.Tick)
	}
	v, err := e.read(ctx, s)
	if err != nil {
		return nil, err
	}
	if v.superseded() {
		e.Logger.InfoContext(ctx, "sweep not evaluated: a later sweep was", "tenant", e.States.Tenant, "run", s.Run, "tick", p.Tick, "later_run", v.last.Run, "later_tick", v.last.Tick)
		return nil, e.notifyOpen(ctx, v.breaker, s)
	}
	candidates, breaker, summary, err := e.decide(ctx, v)
	if err != nil {
		return nil, err
	}
	if err := e.store(ctx, v, breaker, summary); err != nil {
		return nil, err
	}
	e.log(ctx, summary)
	return actionRows(candidates, p.Tick), nil
}

// view has the values that an evaluation reads first, and replaces only these.
type view struct {
	EndedSweep

	now        time.Time
	breaker    Breaker
	breakerRaw []byte
	last       Summary
	lastRaw    []byte
}

func (e Evaluator) read(ctx context.Context, s EndedSweep) (v view, err error) {
	v.EndedSweep = s
	if v.now, err = e.States.Store.Clock(ctx); err != nil {
		return v, err
	}
	if v.breaker, v.breakerRaw, err = e.States.Breaker(ctx); err != nil {
		return v, err
	}
	v.last, v.lastRaw, err = e.States.Summary(ctx)
	return v, err
}

// whole reports whether the sweep is one of all organizations.
func (v view) whole() bool { return v.Progress.Organization == "" }

// superseded reports whether a later sweep of all organizations has been evaluated: its
// decisions and the domains that it has held back stay.
func (v view) superseded() bool {
	return v.whole() && v.last.Tick > v.Progress.Tick && !isAhead(v.last.Tick, v.now)
}

// decide assesses the watched domains, one after the other.
func (e Evaluator) decide(ctx context.Context, v view) ([]Candidate, Breaker, Summary, error) {
	p := v.Progress
	tally, err := e.States.Store.Counts(ctx, p.Tick)
	if err != nil {
		return nil, Breaker{}, Summary{}, err
	}
	evaluation := Evaluation{
		Rules: e.Rules, Breaker: v.breaker, Tick: p.Tick, Run: v.Run, Organizations: p.Read, Tally: tally,
		Complete: v.whole() && p.Complete(), At: v.now,
	}
	if p.Early != "" {
		evaluation.Early = "the sweep did not reach all organizations: " + p.Early
	}
	expired := func(domainID string) error { // it is no longer watched
		_, err := e.States.Store.SetDomain(ctx, DomainWrite{ID: domainID, Tick: p.Tick})
		return err
	}
	for d, err := range e.States.watched(ctx, expired) {
		switch {
		case err == nil:
			evaluation.Add(d.ID, d.DomainState)
		case d.ID == "":
			return nil, Breaker{}, Summary{}, err
		default: // a damaged state must not keep the other domains from being acted on or given back
			e.Logger.ErrorContext(ctx, "domain state unreadable", "tenant", e.States.Tenant, "discovery_domain_id", d.ID, "error", err, "help", Unreadable)
			evaluation.AddUnreadable()
		}
	}
	candidates, breaker, summary := evaluation.Decide()
	return candidates, breaker, summary, nil
}

// store stores breaker and summary, and notifies that the sweep has opened the breaker. If
// an operator or another evaluation changes the breaker before all is stored, the decisions
// are void.
func (e Evaluator) store(ctx context.Context, v view, breaker Breaker, summary Summary) (err error) {
	raw := v.breakerRaw
	if breaker != v.breaker {
		if raw, err = e.States.set(ctx, BreakerState, raw, breaker); err != nil {
			return err
		}
	}
	if err := e.notifyOpen(ctx, breaker, v.EndedSweep); err != nil {
		return err
	}
	if v.whole() {
		if _, err := e.States.set(ctx, SummaryState, v.lastRaw, summary); err != nil {
			return err
		}
	}
	_, now, err := e.States.Breaker(ctx)
	if err == nil && !bytes.Equal(now, raw) {
		err = ErrChanged
	}
	return err
}

func (e Evaluator) notifyOpen(ctx context.Context, b Breaker, s EndedSweep) error {
	if !b.Open || b.ID != s.Run {
		return nil
	}
	return e.States.notify(ctx, events.Event{
		ID: events.BreakerOpen + "-" + b.ID, Type: events.BreakerOpen, At: b.At,
		Data: events.Data{Run: b.ID, Tick: s.Progress.Tick, Reason: b.Why},
	})
}

// actionRows returns the rows of the candidates, by domain id, so that a repeated
// submission has the same order.
func actionRows(candidates []Candidate, tick int64) []ActionRow {
	var rows []ActionRow
	for _, c := range candidates {
		due := c.Status == StatusDue && c.Held == ""
		// A missed domain may not exist any more: then its state is deleted.
		if !due && c.Status != StatusInProgress && !c.Missed {
			continue
		}
		rows = append(rows, ActionRow{OrganizationID: c.OrganizationID, DiscoveryDomainID: c.ID, Tick: tick, Back: c.back, Finish: !due})
	}
	slices.SortFunc(rows, func(a, b ActionRow) int { return cmp.Compare(a.DiscoveryDomainID, b.DiscoveryDomainID) })
	return rows
}

func (e Evaluator) log(ctx context.Context, s Summary) {
	level := slog.LevelInfo
	if s.Why != "" {
		level = slog.LevelWarn
	}
	e.Logger.Log(ctx, level, "sweep evaluated", "tenant", e.States.Tenant, "run", s.Run, "tick", s.Tick, "organizations", s.Organizations,
		"present", s.Present, "absent", s.Absent, "unknown", s.Unknown, "newly_absent", s.Newly, "at_risk", s.AtRisk, "acted", s.Acted,
		"held", s.Held, "protected", s.Protected, "unreadable", s.Unreadable, "reason", s.Why)
}
