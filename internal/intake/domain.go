package intake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"

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
// those in which the domain's id stands are taken apart.
func DomainRows(ctx context.Context, ledger *runs.Ledger, tenant, domain string) iter.Seq2[DomainRow, error] {
	return func(yield func(DomainRow, error) bool) {
		all, err := ledger.List(ctx)
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
