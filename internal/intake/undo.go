package intake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/tasks"
)

// Undoing is the rows that undo a run of [tasks.TypeUpdate].
type Undoing struct {
	// Verify are rows of [tasks.TypeVerify], of domains that were verified: they are so again by a
	// proof.
	Verify [][]byte
	// Update are rows of [tasks.TypeUpdate], of all other changes.
	Update [][]byte
}

// Undo returns the rows that put back what a run that has ended has changed, by the values that it
// has replaced. Each row leaves a record alone that is no longer as the run set it. Rows of which
// nothing was changed are left out.
func (i Intake) Undo(ctx context.Context, from ledger.Run) (u Undoing, err error) {
	for row, err := range i.Ledger.Each(ctx, from, ledger.Every, 0) {
		if err != nil {
			return Undoing{}, err
		}
		if row.Result.Outcome != ledger.Done {
			continue
		}
		e, err := evidence.Read(row.Result.Evidence)
		if err == nil && e.Before == nil {
			err = errors.New("its result does not have the former values")
		}
		var set tasks.UpdateRow
		if err == nil {
			err = json.Unmarshal(row.Content, &set)
		}
		if err == nil {
			err = u.add(from.ID, set, *e.Before)
		}
		if err != nil {
			return Undoing{}, fmt.Errorf("row %d of run %s: %w", row.Item, from.ID, err)
		}
	}
	return u, nil
}

// add adds the row that undoes a change.
func (u *Undoing) add(run ledger.RunID, set tasks.UpdateRow, before evidence.Before) error {
	// The changes, and the values to put back.
	undo := tasks.Undo{Run: string(run)}
	back := tasks.UpdateRow{OrganizationID: set.OrganizationID, DiscoveryDomainID: set.DiscoveryDomainID, Undo: &undo}
	if set.Status != nil && *set.Status != before.Status {
		undo.Status = set.Status
		back.Status = &before.Status
	}
	flag := set.UseForOrganizationDiscovery
	former := before.UseForOrganizationDiscovery
	if flag != nil && former != nil && *flag != *former {
		undo.UseForOrganizationDiscovery = flag
		back.UseForOrganizationDiscovery = former
	}
	if undo.Status == nil && undo.UseForOrganizationDiscovery == nil {
		return nil
	}

	// An undo sets a domain to verified by a verification alone, with its proof.
	if undo.Status == nil || !before.Verified() {
		content, err := json.Marshal(back)
		u.Update = append(u.Update, content)
		return err
	}
	content, err := json.Marshal(tasks.VerifyRow{
		OrganizationID: back.OrganizationID, DiscoveryDomainID: back.DiscoveryDomainID,
		UseForOrganizationDiscovery: back.UseForOrganizationDiscovery, Undo: &undo,
	})
	u.Verify = append(u.Verify, content)
	return err
}
