package status

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/engine/kinds"
	"orgops/internal/intake"
	"orgops/internal/runs"
	"orgops/internal/sweep"
	tenants "orgops/internal/tenant"
)

// DomainName names a discovery domain.
type DomainName struct {
	Tenant, Organization, ID string
}

// Domain has the rows of a discovery domain, and the state that sweeps have stored.
type Domain struct {
	Rows   []DomainRow         // the newest first
	More   int                 // and how many were left out
	Record *kinds.VerifyRecord // as a worker has read it for an open row; nil: none has
	// Swept is the domain's state by the sweeps; nil: none is stored. Sweeps decide by
	// Rules and SweepState.
	Swept      *SweptDomain
	Rules      sweep.Rules
	SweepState SweepState
	// Other is an organization which rows name that have this domain's id, where
	// it is not the one that was asked for.
	Other string
}

// DomainRow is a row of the domain, and its state.
type DomainRow struct {
	intake.DomainRow

	State    runs.RowState
	Evidence *kinds.Evidence // the proof of a domain that was verified, else the last check that did not find the token; nil: there is none
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
	return found, found.readSwept(ctx, rdb, name)
}

// add reads the state of the row.
func (d *Domain) add(ctx context.Context, ledger *runs.Ledger, row intake.DomainRow) error {
	state, err := ledger.Row(ctx, row.Run.ID, row.Item)
	if err != nil {
		return err
	}
	d.Record = cmp.Or(d.Record, state.Record)
	shown := DomainRow{DomainRow: row, State: state}
	if len(state.Evidence) > 0 {
		e, err := kinds.ReadEvidence(state.Evidence)
		if err != nil {
			return fmt.Errorf("row %d of run %s: %w", row.Item, row.Run.ID, err)
		}
		shown.Evidence = &e
	}
	d.Rows = append(d.Rows, shown)
	return nil
}

// readSwept adds the domain's state by the sweeps, if it is the organization's.
func (d *Domain) readSwept(ctx context.Context, rdb redis.UniversalClient, name DomainName) error {
	swept, ok, err := SweptDomainOf(ctx, rdb, name.Tenant, name.ID)
	switch {
	case err != nil || !ok:
		return err
	case swept.OrganizationID != name.Organization:
		d.Other = cmp.Or(d.Other, swept.OrganizationID)
		return nil
	}
	d.Swept = &swept
	d.Rules, d.SweepState, err = RulesFor(ctx, rdb, name.Tenant)
	return err
}

// NextLook is when the row is looked at next; zero where it is settled, or that is not
// known.
func (d DomainRow) NextLook() time.Time {
	if d.State.Fate != nil {
		return time.Time{}
	}
	return AsOf(d.Run, d.State.Open).Next
}

// String is the row with its run and how it stands.
func (d DomainRow) String() string {
	return fmt.Sprintf("run %s (%s, %s), row %d: %s", d.Run.ID, d.Run.Kind, stamp(d.Run.CreatedAt), d.Item, d.Stands())
}

// Stands says what became of the row, or why it is open and when it is looked at next.
func (d DomainRow) Stands() string {
	if f := d.State.Fate; f != nil {
		return said(*f)
	}
	return "open: " + Waits(d.Run, d.State.Open)
}

// RulesFor returns the rules of the tenant's workers and the state of its sweeps.
func RulesFor(ctx context.Context, rdb redis.UniversalClient, tenant string) (sweep.Rules, SweepState, error) {
	settings, _, err := tenants.ReadAnnounced(ctx, rdb, tenant)
	if err != nil {
		return sweep.Rules{}, SweepState{}, err
	}
	state, err := SweepStateOf(ctx, rdb, tenant)
	return RulesOf(settings), state, err
}

// RulesOf returns the rules of announced settings, with defaults for those that are missing.
func RulesOf(s tenants.Announced) sweep.Rules {
	return sweep.Rules{
		Action: cmp.Or(sweep.Action(s.AbsentAction), sweep.Report), Grace: cmp.Or(s.Grace, sweep.DefaultGrace),
		AbsentChecks: cmp.Or(s.AbsentChecks, sweep.DefaultAbsentChecks), Protect: s.Protect,
	}
}
