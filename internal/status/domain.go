package status

import (
	"cmp"
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"orgops/internal/intake"
	"orgops/internal/runs"
	"orgops/tasks/handlers"
)

// DomainName names a discovery domain.
type DomainName struct {
	Tenant, Organization, ID string
}

// Domain has the rows of a discovery domain, and the state that sweeps have stored.
type Domain struct {
	Rows   []DomainRow            // the newest first
	More   int                    // how many further rows there are
	Record *handlers.VerifyRecord // as a worker has read it for an open row; nil: none has
	Swept  *SweptDomain           // the domain's state by the sweeps; nil: none is stored
	// Other is another organization with a domain of this id, by rows or sweeps; "": none.
	Other string
}

// DomainRow is a row of the domain, and its state.
type DomainRow struct {
	intake.DomainRow

	State runs.RowState
	// Findings are those of the proof of a domain that was verified, else of the last check
	// that did not find the token; nil: there is none.
	Findings *Findings
}

// DomainOf reads the domain from Redis, with at most so many of its rows.
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
		e, err := handlers.ReadEvidence(state.Evidence)
		if err != nil {
			return fmt.Errorf("row %d of run %s: %w", row.Item, row.Run.ID, err)
		}
		shown.Findings = &Findings{Evidence: e}
		if state.Result == nil {
			shown.Findings.Next = WithStop(row.Run, state.Open).Next
		}
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
	default:
		d.Swept = &swept
	}
	return nil
}

// String returns the row with its run and its state.
func (d DomainRow) String() string {
	return fmt.Sprintf("run %s (%s, %s), row %d: %s", d.Run.ID, d.Run.Kind, Stamp(d.Run.CreatedAt), d.Item, d.StateText())
}

// StateText returns the row's result, or why it is open and when it is checked next.
func (d DomainRow) StateText() string {
	if f := d.State.Result; f != nil {
		return resultText(*f)
	}
	return "open: " + waits(d.Run, d.State.Open)
}
