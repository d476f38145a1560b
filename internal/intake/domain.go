package intake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"

	"orgops/internal/runs"
	"orgops/tasks"
)

// DomainRow is a stored row about a discovery domain.
type DomainRow struct {
	Run  runs.Run
	Item int64
	// Organization is that which the row names.
	Organization string
}

// DomainRows returns the rows about a discovery domain in all runs of the tenant
// that are about domains, those of the newest run first, whatever organization
// they name. There is no index: every stored row of these runs is read, but only
// those in which the domain's id stands are taken apart. Rows that came to the
// queue by themselves are among them as long as they are open.
func DomainRows(ctx context.Context, ledger *runs.Ledger, tenant, domain string) iter.Seq2[DomainRow, error] {
	return func(yield func(DomainRow, error) bool) {
		all, err := withAlone(ctx, ledger)
		if err != nil {
			yield(DomainRow{}, err)
			return
		}
		for _, r := range all {
			if r.Tenant != tenant || (r.Kind != tasks.TypeVerify && r.Kind != tasks.TypeUpdate) {
				continue
			}
			if !domainRowsOf(ctx, ledger, r, domain, yield) {
				return
			}
		}
	}
}

// withAlone returns all runs, the newest first, with those that List leaves out
// and that have not ended.
func withAlone(ctx context.Context, ledger *runs.Ledger) ([]runs.Run, error) {
	all, err := ledger.List(ctx)
	if err != nil {
		return nil, err
	}
	open, err := ledger.Unsettled(ctx)
	if err != nil {
		return nil, err
	}
	listed := map[string]bool{}
	for _, r := range all {
		listed[r.ID] = true
	}
	for _, id := range open {
		if listed[id] {
			continue
		}
		r, err := ledger.Get(ctx, id)
		if errors.Is(err, runs.ErrNotFound) {
			continue // ended and forgotten meanwhile
		}
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	slices.SortStableFunc(all, func(a, b runs.Run) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return all, nil
}

// domainRowsOf yields the rows of one run, and says whether more are wanted.
func domainRowsOf(ctx context.Context, ledger *runs.Ledger, r runs.Run, domain string, yield func(DomainRow, error) bool) bool {
	stored, err := newStoredRows(ledger, r)
	if err != nil {
		yield(DomainRow{}, err)
		return false
	}
	needles := [][]byte{[]byte(domain)}
	if r.Format != FormatCSV {
		needles = append(needles, []byte(`\u`)) // a line as it came may have written the id so
	}
	for row, err := range ledger.Search(ctx, r.ID, needles...) {
		if errors.Is(err, runs.ErrNotFound) {
			return true // deleted since it was listed
		}
		if err != nil {
			yield(DomainRow{}, err)
			return false
		}
		named, organization := stored.domain(row.Source)
		if named == domain && !yield(DomainRow{Run: r, Item: row.Item, Organization: organization}, nil) {
			return false
		}
	}
	return true
}

// domain is what a row is about, as far as it says so: it may be a bad one.
func (s *storedRows) domain(source []byte) (domain, organization string) {
	var members []member
	var err error
	if s.csv != nil {
		members, err = s.cellMembers(source)
	} else {
		members, err = s.members(source)
	}
	if err != nil {
		return "", ""
	}
	for _, m := range members {
		var text string
		if !bytes.HasPrefix(m.value, []byte{'"'}) || json.Unmarshal(m.value, &text) != nil {
			continue
		}
		switch m.name {
		case "discovery_domain_id":
			domain = text
		case "organization_id":
			organization = text
		}
	}
	return domain, organization
}
