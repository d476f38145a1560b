package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/watch"
	"orgops/tasks"
)

// Case is a domain that the judging of a sweep would decide on.
type Case struct {
	tasks.Case

	// Since is when it was first seen to be absent, zero if it is not any more, and
	// Checks how many sweeps have seen so.
	Since  time.Time
	Checks int
	// Action is what the rules would have done to it; see [tasks.Rules.ActionOn].
	Action tasks.Action
}

// Acts says whether the next sweep would have something done, if it sees no more.
func (c Case) Acts() bool { return c.As == tasks.StandsDue && c.Held == "" }

// Decision says in words what becomes of the domain.
func (c Case) Decision() string { return decision(c.Stands, c.Held, c.Action) }

func decision(s tasks.Stands, held string, a tasks.Action) string {
	why := reason(s.Why)
	switch {
	case held != "":
		return fmt.Sprintf("held back: %s (it would be %s)", reason(held), done(a))
	case s.As == tasks.StandsDue:
		return "to be " + done(a) + ": " + why
	case s.As == tasks.StandsAtRisk:
		return fmt.Sprintf("at risk: %s; not %s before %s", why, done(a), stamp(s.From))
	case s.As == tasks.StandsUnsure, s.As == tasks.StandsProtected:
		return "nothing: " + why
	}
	return why
}

// done is what an action does, in words.
func done(a tasks.Action) string {
	switch a {
	case tasks.ActUnroute:
		return "unrouted"
	case tasks.ActPending:
		return "set to pending"
	case tasks.ActReport, "":
		return "reported"
	}
	return Shown(string(a))
}

// Preview is the evaluation of a tenant's next sweep if that found the same as
// the last ones.
type Preview struct {
	Cases   []Case // those to be acted on first, then by how long they have been absent
	Breaker tasks.Breaker
	Judged  tasks.Judged // what it would have come to
}

// PreviewOf judges the tenant's domains as at that time, by the judgement of the last
// sweep; those of one organization alone, where it is named. It writes nothing.
func PreviewOf(ctx context.Context, rdb redis.UniversalClient, tenant, organization string, rules tasks.Rules, last Judgement, at time.Time) (Preview, error) {
	s := tasks.Sitting{Rules: rules, Breaker: last.breaker(), At: at}
	if j := last.Judged; j != nil {
		tally, err := watch.New(rdb, tenant).Tally(ctx, j.Tick)
		if err != nil {
			return Preview{}, err
		}
		s.Organizations, s.Tally, s.Run = j.Organizations, tally, j.Run
	}
	var absences []tasks.Absence // of each case; zero: it is not absent
	var actions []tasks.Action   // of each case
	for r, err := range attended(ctx, rdb, tenant) {
		if err != nil {
			return Preview{}, err
		}
		s.Add(r.ID, r.Memory)
		var a tasks.Absence
		if r.Absence != nil {
			a = *r.Absence
		}
		absences, actions = append(absences, a), append(actions, rules.ActionOn(r.Memory))
	}
	var d Preview
	var judged []tasks.Case
	judged, d.Breaker, d.Judged = s.Decide()
	for i, c := range judged {
		if organization == "" || c.OrganizationID == organization {
			d.Cases = append(d.Cases, Case{Case: c, Since: absences[i].Since, Checks: absences[i].Checks, Action: actions[i]})
		}
	}
	slices.SortStableFunc(d.Cases, compareCases)
	return d, nil
}

func compareCases(a, b Case) int {
	due := func(c Case) int {
		if c.As == tasks.StandsDue {
			return 0
		}
		return 1
	}
	return cmp.Or(due(a)-due(b), a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
}

// attended are the domains that the judging of a sweep decides on.
func attended(ctx context.Context, rdb redis.UniversalClient, tenant string) iter.Seq2[Remembered, error] {
	return func(yield func(Remembered, error) bool) {
		for id, err := range watch.New(rdb, tenant).Attended(ctx) {
			if err != nil {
				yield(Remembered{}, err)
				return
			}
			r, ok, err := RememberedOf(ctx, rdb, tenant, id)
			if !ok && err == nil {
				continue
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// CaseTable writes a line for the first most cases, and how many more there are.
func CaseTable(out io.Writer, cases []Case, most int) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "DOMAIN\tNAME\tORGANIZATION\tABSENT SINCE\tSWEEPS\tDECISION")
	for _, c := range cases[:min(most, len(cases))] {
		since, checks := "-", "-"
		if !c.Since.IsZero() {
			since, checks = stamp(c.Since), fmt.Sprint(c.Checks)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", Shown(c.ID), Shown(c.Domain), Shown(c.OrganizationID), since, checks, c.Decision())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	more(out, int64(len(cases)-most))
	return nil
}
