package status

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/sweep"
)

// Candidate is a watched domain as the evaluation of a sweep would decide on it.
type Candidate struct {
	sweep.Candidate

	// Since is when its absence began, zero if it is not absent, and Checks how many
	// sweeps have found it absent.
	Since  time.Time
	Checks int
	// Action is that of the rules: see [sweep.Rules.ActionOn].
	Action sweep.Action
}

// Acts reports whether the next sweep would act on the domain if it found the same.
func (c Candidate) Acts() bool { return c.Status == sweep.StatusDue && c.Held == "" }

// Decision returns the decision on the domain, in words.
func (c Candidate) Decision() string { return decision(c.Assessment, c.Held, c.Action) }

func decision(of sweep.Assessment, held string, a sweep.Action) string {
	why := reason(of.Reason)
	switch {
	case held != "":
		return fmt.Sprintf("held back: %s (it would be %s)", reason(held), done(a))
	case of.Status == sweep.StatusDue:
		return "to be " + done(a) + ": " + why
	case of.Status == sweep.StatusAtRisk:
		return fmt.Sprintf("at risk: %s; not %s before %s", why, done(a), Stamp(of.NotBefore))
	case of.Status == sweep.StatusUnsure, of.Status == sweep.StatusProtected:
		return "nothing: " + why
	}
	return why
}

// done returns the effect of an action, in words.
func done(a sweep.Action) string {
	switch a {
	case sweep.Unroute:
		return "unrouted"
	case sweep.SetPending:
		return "set to pending"
	case sweep.Report, "":
		return "reported"
	}
	return Shown(string(a))
}

// Preview is the evaluation of a tenant's next sweep if that found the same as
// the last ones.
type Preview struct {
	RuledSweeps
	Candidates  []Candidate // first the domains to be acted on, then by start of absence
	NextBreaker sweep.Breaker
}

// PreviewOf evaluates the tenant's watched domains at that time, by the state that the last
// sweep has left, and returns those of the organization; "": all. It writes nothing.
func PreviewOf(ctx context.Context, rdb redis.UniversalClient, tenant, organization string, at time.Time) (p Preview, err error) {
	if p.RuledSweeps, err = ruledSweeps(ctx, rdb, tenant); err != nil {
		return Preview{}, err
	}
	store := sweep.NewStore(rdb, tenant)
	e, states := sweep.Evaluation{Rules: p.Rules, Breaker: p.Breaker, At: at}, sweep.States{Tenant: tenant, Store: store}
	if s := p.Summary; s != nil {
		tally, err := store.Counts(ctx, s.Tick)
		if err != nil {
			return Preview{}, err
		}
		e.Organizations, e.Tally, e.Run = s.Organizations, tally, s.Run
	}
	for d, err := range states.Watched(ctx) {
		if err != nil && d.ID != "" {
			e.AddUnreadable()
			continue
		}
		if err != nil {
			return Preview{}, fmt.Errorf("tenant %s: %w", tenant, err)
		}
		e.Add(d.ID, d.DomainState)
		c := Candidate{Action: p.Rules.ActionOn(d.DomainState)}
		if d.Absence != nil {
			c.Since, c.Checks = d.Absence.Since, d.Absence.Checks
		}
		p.Candidates = append(p.Candidates, c)
	}
	all, breaker, _ := e.Decide()
	p.NextBreaker = breaker
	for i, c := range all {
		p.Candidates[i].Candidate = c
	}
	p.Candidates = slices.DeleteFunc(p.Candidates, func(c Candidate) bool { return organization != "" && c.OrganizationID != organization })
	slices.SortStableFunc(p.Candidates, compareCandidates)
	return p, nil
}

func compareCandidates(a, b Candidate) int {
	if due := a.Status == sweep.StatusDue; due != (b.Status == sweep.StatusDue) {
		if due {
			return -1
		}
		return 1
	}
	return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
}

// WriteCandidates writes a line for each of the first most candidates, and the number of the
// others.
func WriteCandidates(out io.Writer, candidates []Candidate, most int) error {
	w := NewTable(out)
	fmt.Fprintln(w, "DOMAIN\tNAME\tORGANIZATION\tABSENT SINCE\tSWEEPS\tDECISION")
	for _, c := range candidates[:min(most, len(candidates))] {
		since, checks := "-", "-"
		if !c.Since.IsZero() {
			since, checks = Stamp(c.Since), fmt.Sprint(c.Checks)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", Shown(c.ID), Shown(c.Domain), Shown(c.OrganizationID), since, checks, c.Decision())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	more(out, int64(len(candidates)-most))
	return nil
}
