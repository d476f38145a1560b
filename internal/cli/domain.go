package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/intake"
	"orgops/internal/pace"
	"orgops/internal/runs"
	"orgops/tasks"
)

// DomainName names a discovery domain.
type DomainName struct {
	Tenant, Organization, ID string
}

// Domain is what the ledger has of a discovery domain, and what sweeps have written down.
type Domain struct {
	Rows   []DomainState // the newest first
	More   int           // and how many were left out
	Record *tasks.Record // as a worker has read it for an open row; nil: none has
	// Remembered is what sweeps have written down, nil: nothing; the others are what they
	// go by.
	Remembered *Remembered
	Rules      tasks.Rules
	Judgement  Judgement
	// Other is an organization which rows name that have this domain's id, where
	// it is not the one that was asked for.
	Other string
}

// DomainState is a row about the domain, and how it stands.
type DomainState struct {
	intake.DomainRow

	State    runs.RowState
	Evidence *tasks.Evidence // the proof of a domain that was verified, else the last check that did not find the token; nil: there is none
}

// DomainOf reads what is known of the domain in Redis; of its rows at most that many.
func DomainOf(ctx context.Context, rdb redis.UniversalClient, ledger *runs.Ledger, name DomainName, rows int) (Domain, error) {
	var found Domain
	for row, err := range intake.DomainRows(ctx, ledger, name.Tenant, name.ID) {
		switch {
		case err != nil:
			return found, err
		case row.Organization != name.Organization:
			found.Other = cmp.Or(found.Other, row.Organization)
			continue
		case len(found.Rows) == rows:
			found.More++
			continue
		}
		if err := found.add(ctx, ledger, row); err != nil {
			return found, err
		}
	}
	return found, found.remember(ctx, rdb, name)
}

// add reads how the row stands.
func (d *Domain) add(ctx context.Context, ledger *runs.Ledger, row intake.DomainRow) error {
	state, err := ledger.Row(ctx, row.Run.ID, row.Item, tasks.RecordMark)
	if err != nil {
		return err
	}
	record := new(tasks.Record)
	if d.Record == nil && len(state.Kept) > 0 && json.Unmarshal(state.Kept, record) == nil {
		d.Record = record
	}
	shown := DomainState{DomainRow: row, State: state}
	if len(state.Evidence) > 0 {
		e, err := tasks.ReadEvidence(state.Evidence)
		if err != nil {
			return fmt.Errorf("row %d of run %s: %w", row.Item, row.Run.ID, err)
		}
		shown.Evidence = &e
	}
	d.Rows = append(d.Rows, shown)
	return nil
}

// remember adds what sweeps have written down of the domain, if it is the organization's.
func (d *Domain) remember(ctx context.Context, rdb redis.UniversalClient, name DomainName) error {
	r, ok, err := RememberedOf(ctx, rdb, name.Tenant, name.ID)
	switch {
	case err != nil || !ok:
		return err
	case r.OrganizationID != name.Organization:
		d.Other = cmp.Or(d.Other, r.OrganizationID)
		return nil
	}
	d.Remembered = &r
	d.Rules, d.Judgement, err = RulesFor(ctx, rdb, name.Tenant)
	return err
}

// NextLook is when the row is looked at next; zero where it is settled, or that is not
// known.
func (d DomainState) NextLook() time.Time {
	if d.State.Fate != nil {
		return time.Time{}
	}
	return AsOf(d.Run, d.State.Open).Next
}

// String is the row with its run and how it stands.
func (d DomainState) String() string {
	return fmt.Sprintf("run %s (%s, %s), row %d: %s", d.Run.ID, d.Run.Kind, stamp(d.Run.CreatedAt), d.Item, d.Stands())
}

// Stands says what became of the row, or why it is open and when it is looked at next.
func (d DomainState) Stands() string {
	if f := d.State.Fate; f != nil {
		return said(*f)
	}
	return "open: " + Waits(d.Run, d.State.Open)
}

// RulesFor are what the tenant's workers decide by, and how its sweeps stand.
func RulesFor(ctx context.Context, rdb redis.UniversalClient, tenant string) (tasks.Rules, Judgement, error) {
	settings, _, err := pace.Announced(ctx, rdb, tenant)
	if err != nil {
		return tasks.Rules{}, Judgement{}, err
	}
	judgement, err := JudgementOf(ctx, rdb, tenant)
	return RulesOf(settings), judgement, err
}

// RulesOf are the rules of announced settings, the defaults where they say none.
func RulesOf(s pace.Settings) tasks.Rules {
	return tasks.Rules{
		Action: cmp.Or(tasks.Action(s.AbsentAction), tasks.ActReport), Grace: cmp.Or(s.Grace, tasks.DefaultGrace),
		AbsentChecks: cmp.Or(s.AbsentChecks, tasks.DefaultAbsentChecks), Protect: s.Protect,
	}
}
