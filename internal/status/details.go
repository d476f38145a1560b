package status

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/activity"
	"orgops/internal/ledger"
	"orgops/internal/obstacle"
	"orgops/internal/stamp"
)

// RunDetails is a run with what only readers and operators see: it names operators, the state of
// the tenant, and the runs of others that repeat rows.
type RunDetails struct {
	Run

	Stuck      *Stuck              `json:"stuck,omitempty"`       // why it makes no progress; nil: it does
	Obstacles  []obstacle.Obstacle `json:"obstacles,omitempty"`   // why no row is executed
	Children   []Run               `json:"children,omitempty"`    // the runs that repeat rows of it
	Activity   []activity.Entry    `json:"activity,omitempty"`    // the newest 100 entries about it, the first one first
	Waiting    *Waiting            `json:"waiting_for,omitempty"` // why its open rows wait; nil: not known
	OpenRows   []Row               `json:"open_rows,omitempty"`   // the first of them
	FailedRows []Row               `json:"failed_rows,omitempty"` // the first of them
	FailedBy   *FailedReasons      `json:"failed_by_reason,omitempty"`
}

// DetailsOf reads the details of a run, apart from its rows and obstacles. sample is the number of
// notes to read to count why rows wait.
func DetailsOf(ctx context.Context, rdb redis.Cmdable, l *ledger.Ledger, r ledger.Run,
	sample int) (d RunDetails, err error) {
	d.Run = RunOf(r)
	if d.Text, err = runText(ctx, rdb, r); err != nil {
		return d, err
	}
	d.Stuck = StuckOf(r, time.Now())
	for _, c := range r.Children {
		child, err := l.Get(ctx, r.Tenant, c.ID)
		switch {
		case errors.Is(err, ledger.ErrNotFound):
			d.Children = append(d.Children, Run{ID: c.ID, Parent: r.ID, State: NotStarted})
		case err != nil:
			return d, err
		default:
			d.Children = append(d.Children, RunOf(child))
		}
	}
	d.Activity, _, err = activity.Page(ctx, rdb, activity.Query{Tenants: []string{string(r.Tenant)}, Run: string(r.ID),
		Since: r.CreatedAt, Limit: 100})
	if err != nil {
		return d, err
	}
	slices.Reverse(d.Activity)
	d.Waiting, err = WaitingOf(ctx, l, r, sample)
	return d, err
}

// SubmitterOf returns who has submitted or started a run; "": it is not known any more. It names
// operators.
func SubmitterOf(ctx context.Context, rdb redis.Cmdable, r ledger.Run) (string, error) {
	if r.Caller != "" {
		return r.Caller, nil
	}
	for _, action := range []activity.Action{activity.Submitted, activity.SweepStarted} {
		entries, _, err := activity.Page(ctx, rdb, activity.Query{Tenants: []string{string(r.Tenant)}, Run: string(r.ID),
			Action: action, Since: r.CreatedAt, Limit: 1})
		if err != nil {
			return "", err
		}
		if len(entries) > 0 {
			return entries[0].Who(), nil
		}
	}
	return "", nil
}

// ReadRows adds why no row is executed, and the first most open rows and failed rows.
func (d *RunDetails) ReadRows(ctx context.Context, rdb redis.Cmdable, l *ledger.Ledger, most int) (err error) {
	if !d.Ended() {
		if d.Obstacles, err = ObstaclesOf(ctx, rdb, l, d.Tenant); err != nil {
			return err
		}
		d.Obstacles = slices.DeleteFunc(d.Obstacles, func(o obstacle.Obstacle) bool { return !Concerns(o, d.Ledger) })
		if d.OpenRows, _, err = RowsPage(ctx, l, d.Ledger, RowsQuery{Which: OpenRows, Limit: most}); err != nil {
			return err
		}
	}
	if d.FailedRows, err = FirstFailed(ctx, l, d.Ledger, most); err != nil {
		return err
	}
	if err := ReadRevoked(ctx, rdb, d.Ledger, d.FailedRows); err != nil {
		return err
	}
	d.FailedBy, err = FailedByReason(ctx, rdb, l, d.Ledger)
	return err
}

// Facts returns what the run is, whose, and when.
func (d RunDetails) Facts() []Fact {
	all := []Fact{
		{Name: "kind", Text: string(d.Kind)},
		{Name: "tenant", Text: string(d.Tenant)},
		{Name: "label", Text: Shown(d.Label)},
		{Name: "priority", Text: d.Priority},
		{Name: "submitted by", Text: Shown(d.Caller)},
		{Name: "retry of", Run: d.Parent},
		{Name: "undoes", Run: d.Ledger.Undoes},
	}
	for _, child := range d.Children {
		by := Fact{Name: "retried by", Run: child.ID, Text: "(" + child.Brief() + ")"}
		if child.State == NotStarted { // it has no page
			by.Text = by.Value()
			by.Run = ""
		}
		all = append(all, by)
	}
	all = append(all,
		Fact{Name: "scan", Text: d.Scan.String()},
		Fact{Name: "created", Text: stamp.UTC(d.CreatedAt)},
		Fact{Name: "cancelled", Text: stamp.UTC(d.CancelledAt)},
		Fact{Name: "ended", Text: stamp.UTC(d.EndedAt)},
	)
	return facts(append(all, d.Undo.facts()...)...)
}

// StateText returns the state in words; of a paused run the user who has paused it.
func (d RunDetails) StateText() string { return cmp.Or(pausedBy(d.Ledger, d.Activity), d.Text) }
