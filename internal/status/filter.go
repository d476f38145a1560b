package status

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/cli"
	"orgops/internal/ledger"
	"orgops/internal/untrusted"
)

// RunFilter selects runs; an empty member selects all. Its texts are flags of commands, and
// parameters of pages and of the HTTP API.
type RunFilter struct {
	Tenant string `noenv:"true" placeholder:"NAME" help:"Only runs of this tenant."`
	State  string `noenv:"true" placeholder:"STATE" help:"Only runs in this state: attention (paused, held, or with failed rows or a fault), open, paused, ended, done, failed or cancelled."`
	Kind   string `noenv:"true" placeholder:"KIND" help:"Only runs of this kind, such as domain:verify."`
	Label  string `noenv:"true" placeholder:"TEXT" help:"Only runs with this text in their label."`
	Caller string `noenv:"true" placeholder:"NAME" help:"Only runs of the HTTP client of this name."`
	Since  string `noenv:"true" placeholder:"TIME" help:"Only runs submitted since this time, such as 2026-12-01T02:00:00Z, 2026-12-01, or 8h for the last eight hours."`
	Until  string `noenv:"true" placeholder:"TIME" help:"Only runs submitted before this time."`

	// May reports whether the reader may see a tenant; nil: all.
	May func(tenant string) bool `kong:"-"`
	// Held are tenants of which no row is executed until somebody acts: see ReadHeld.
	Held         map[string]bool `kong:"-"`
	since, until time.Time
}

// RunStates are the states of runs to filter by; "": any.
var RunStates = map[string]func(r ledger.Run) bool{
	"":          func(ledger.Run) bool { return true },
	"attention": func(r ledger.Run) bool { return Failed(r) > 0 || len(Trouble(r)) > 0 || r.Paused },
	Open:        func(r ledger.Run) bool { return !r.Ended() },
	Paused:      func(r ledger.Run) bool { return r.Paused },
	Ended:       ledger.Run.Ended,
	"done":      func(r ledger.Run) bool { return State(r) == "done" },
	"failed":    func(r ledger.Run) bool { return Failed(r) > r.Counts[ledger.Cancelled] },
	"cancelled": func(r ledger.Run) bool { return !r.CancelledAt.IsZero() },
}

// Parameters returns pointers to the texts by the names of their parameters.
func (f *RunFilter) Parameters() map[string]*string {
	return map[string]*string{"tenant": &f.Tenant, "state": &f.State, "kind": &f.Kind, "label": &f.Label,
		"caller": &f.Caller, "since": &f.Since, "until": &f.Until}
}

// ReadRunFilter reads and checks the parameters of an address.
func ReadRunFilter(query url.Values) (f RunFilter, err error) {
	for name, text := range f.Parameters() {
		*text = strings.TrimSpace(query.Get(name))
	}
	return f, f.Check(time.Now())
}

// Check reads the times, and returns an error for a text that is malformed.
func (f *RunFilter) Check(now time.Time) (err error) {
	if RunStates[f.State] == nil {
		names := slices.Sorted(maps.Keys(RunStates))[1:]
		return fmt.Errorf("state: want one of %s, got %s", strings.Join(names, ", "), untrusted.Value(f.State))
	}
	if f.since, err = timeOf("since", f.Since, now); err == nil {
		f.until, err = timeOf("until", f.Until, now)
	}
	return err
}

// timeOf reads a time, a date, or an age; "": the zero time.
func timeOf(name, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := cli.ParseAgo(text, now)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: %w", name, err)
	}
	return at, nil
}

// Selects reports whether the filter selects the run.
func (f RunFilter) Selects(r ledger.Run) bool {
	has := func(text, part string) bool { return strings.Contains(strings.ToLower(text), strings.ToLower(part)) }
	return (RunStates[f.State](r) || (f.State == "attention" && f.wrong(r))) && f.ofTenant(r.Tenant) &&
		(f.Kind == "" || string(r.Kind) == f.Kind) && has(r.Label, f.Label) && (f.Caller == "" || r.Caller == f.Caller) &&
		!r.CreatedAt.Before(f.since) && (f.until.IsZero() || r.CreatedAt.Before(f.until))
}

func (f RunFilter) ofTenant(t ledger.Tenant) bool {
	return (f.Tenant == "" || string(t) == f.Tenant) && (f.May == nil || f.May(string(t)))
}

// wrong reports whether the run needs attention.
func (f RunFilter) wrong(r ledger.Run) bool {
	return RunStates["attention"](r) || (!r.Ended() && f.Held[string(r.Tenant)])
}

// Query returns the query of a page of the selected runs, the newest first.
func (f RunFilter) Query(after ledger.Place, limit int) ledger.Query {
	return ledger.Query{Tenant: f.ofTenant, Match: f.Selects, Open: f.State == Open || f.State == Paused,
		Caller: f.Caller, Since: f.since, Until: f.until, After: after, Limit: limit, MaxRead: 2500}
}

// List returns a page of the selected runs. The first page begins with open runs, those that need
// attention before the others: limit at most of the newest 500, and left says that there are more.
// Those that have ended fill the page, the newest first: there is at least one. next is where the
// next page begins; zero: this is the last one.
func (f RunFilter) List(ctx context.Context, l *ledger.Ledger, after ledger.Place,
	limit int) (runs []ledger.Run, left bool, next ledger.Place, err error) {
	q := f.Query(after, limit)
	if q.Open {
		runs, next, err = l.Page(ctx, q)
		return runs, false, next, err
	}
	if after == (ledger.Place{}) {
		first := f.Query(after, 500)
		first.Open = true
		first.Match = func(r ledger.Run) bool { return !r.Ended() && f.Selects(r) }
		if runs, _, err = l.Page(ctx, first); err != nil {
			return nil, false, next, err
		}
		right := slices.DeleteFunc(slices.Clone(runs), f.wrong)
		runs = append(slices.DeleteFunc(runs, func(r ledger.Run) bool { return !f.wrong(r) }), right...)
		left = len(runs) > limit
		runs = runs[:min(limit, len(runs))]
		q.Limit = max(limit-len(runs), 1) // the next page begins after it
	}
	q.Match = func(r ledger.Run) bool { return r.Ended() && f.Selects(r) }
	ended, next, err := l.Page(ctx, q)
	return append(runs, ended...), left, next, err
}

// Describe describes the runs of a list, with the reasons why open ones wait.
func Describe(ctx context.Context, rdb redis.Cmdable, all []ledger.Run, ahead []Estimate) ([]Run, error) {
	runs := RunsOf(all)
	for i, r := range all {
		text, err := runText(ctx, rdb, r, ahead[i].Held...)
		if err != nil {
			return nil, err
		}
		runs[i].Text = text
		if held := ahead[i].Held; len(held) > 0 && runs[i].State == Open {
			runs[i].Held = held[0].Why
		}
	}
	return runs, nil
}
