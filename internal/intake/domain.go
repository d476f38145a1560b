package intake

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"

	"orgops/dnscheck"
	"orgops/internal/runs"
	"orgops/tasks"
)

// DomainRow is a stored row about a discovery domain.
type DomainRow struct {
	Run  runs.Run
	Item int64
	// Organization and Domain are the ids that the row names.
	Organization, Domain string
}

// DomainRows returns the rows about a discovery domain in all runs of the tenant
// that are about domains, those of the newest run first, whatever organization
// they name. There is no index: every stored row of these runs is read, but only
// those in which the domain's id stands are taken apart. Rows that came to the
// queue by themselves are among them as long as they are open.
func DomainRows(ctx context.Context, ledger *runs.Ledger, tenant, domain string) iter.Seq2[DomainRow, error] {
	return rowsAbout(ctx, ledger, tenant, domain, (*runs.Ledger).Search, func(row rowMembers) bool { return row.Domain == domain })
}

// NameRows returns the rows whose verification host is the domain's name or lies
// beneath it, as DomainRows returns those about an id. Rows that name no host are not
// among them: the name is not in them.
func NameRows(ctx context.Context, ledger *runs.Ledger, tenant, name string) iter.Seq2[DomainRow, error] {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return rowsAbout(ctx, ledger, tenant, name, (*runs.Ledger).SearchFold, func(row rowMembers) bool {
		return strings.EqualFold(strings.TrimSuffix(row.Host, "."), name) || dnscheck.Within(row.Host, name)
	})
}

// search is how the stored rows of a run are looked through.
type search func(l *runs.Ledger, ctx context.Context, run string, needles ...[]byte) iter.Seq2[runs.StoredRow, error]

// rowsAbout returns the rows in which the text stands and that are wanted.
func rowsAbout(ctx context.Context, ledger *runs.Ledger, tenant, text string, find search, wanted func(rowMembers) bool) iter.Seq2[DomainRow, error] {
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
			if err := ctx.Err(); err != nil {
				yield(DomainRow{}, err)
				return
			}
			if !rowsOfRun(ctx, ledger, r, text, find, wanted, yield) {
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

// rowsOfRun yields the rows of one run, and says whether more are wanted.
func rowsOfRun(ctx context.Context, ledger *runs.Ledger, r runs.Run, text string, find search, wanted func(rowMembers) bool, yield func(DomainRow, error) bool) bool {
	stored, err := newStoredRows(ledger, r)
	if err != nil {
		yield(DomainRow{}, err)
		return false
	}
	needles := [][]byte{[]byte(text)}
	if r.Format != FormatCSV {
		needles = append(needles, []byte(`\u`)) // a line as it came may have written it so
	}
	for row, err := range find(ledger, ctx, r.ID, needles...) {
		if errors.Is(err, runs.ErrNotFound) {
			return true // deleted since it was listed
		}
		if err != nil {
			yield(DomainRow{}, err)
			return false
		}
		m := stored.rowMembers(row.Source)
		if wanted(m) && !yield(DomainRow{Run: r, Item: row.Item, Organization: m.Organization, Domain: m.Domain}, nil) {
			return false
		}
	}
	return true
}

// rowMembers is what a row is about, as far as it says so.
type rowMembers struct {
	Organization string `json:"organization_id"`
	Domain       string `json:"discovery_domain_id"`
	Host         string `json:"verification_host"`
}

// rowMembers reads a row, which may be a bad one.
func (s *storedRows) rowMembers(source []byte) (found rowMembers) {
	if members, err := s.members(source); err == nil {
		_ = json.Unmarshal(objectOf(members), &found) // it leaves out what is no text
	}
	return found
}
