package intake

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"

	"orgops/internal/ledger"
	"orgops/internal/runs"
	"orgops/tasks"
)

// DomainRow is a stored row about a discovery domain.
type DomainRow struct {
	Run  ledger.Run
	Item int64
	// Organization and Domain are the ids that the row names.
	Organization, Domain string
}

// DomainRows returns the rows about a discovery domain in all runs of the tenant that are about
// domains, those of the newest run first, whatever organization they name. There is no index: every
// stored row of these runs is read, but only those that contain the domain's id, in any case, are
// parsed. Rows that were submitted as single rows are among them until they are settled. Rows that
// have the domain's name instead of its id are among them if name is that, and organization theirs.
func DomainRows(ctx context.Context, l *runs.Ledger, tenant, domain, organization,
	name string) iter.Seq2[DomainRow, error] {
	return func(yield func(DomainRow, error) bool) {
		all, err := listedOrOpen(ctx, l)
		if err != nil {
			yield(DomainRow{}, err)
			return
		}
		for _, r := range all {
			if kind, _ := tasks.KindOf(string(r.Kind)); string(r.Tenant) != tenant || !kind.Has("discovery_domain_id") {
				continue
			}
			for row, err := range rowsOfRun(ctx, l, r, domain, organization, name) {
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	}
}

// listedOrOpen returns all runs, the newest first: of the runs of single rows, which List
// leaves out, those that have not ended.
func listedOrOpen(ctx context.Context, l *runs.Ledger) ([]ledger.Run, error) {
	all, err := l.List(ctx)
	if err != nil {
		return nil, err
	}
	open, err := l.Open(ctx)
	for _, r := range open {
		if r.Single {
			all = append(all, r)
		}
	}
	slices.SortStableFunc(all, func(a, b ledger.Run) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return all, err
}

// rowsOfRun returns the rows of one run about a domain. A run that is deleted meanwhile has none.
func rowsOfRun(ctx context.Context, l *runs.Ledger, r ledger.Run, domain, organization,
	name string) iter.Seq2[DomainRow, error] {
	return func(yield func(DomainRow, error) bool) {
		stored, err := newStoredRows(l, r)
		if err = cmp.Or(ctx.Err(), err); err != nil {
			yield(DomainRow{}, err)
			return
		}
		needles := [][]byte{[]byte(strings.ToLower(domain))}
		if name != "" {
			needles = append(needles, []byte(name))
		}
		if r.Format != FormatCSV {
			needles = append(needles, []byte(`\u`)) // a row of JSON may contain the text in escapes
		}
		for row, err := range l.Search(ctx, r, needles...) {
			m := stored.rowMembers(row.Source)
			if name != "" && m.Domain == "" && m.Name == name && m.Organization == organization {
				m.Domain = domain
			}
			switch {
			case errors.Is(err, ledger.ErrNotFound):
				return
			case err == nil && m.Domain != domain:
				continue
			case !yield(DomainRow{Run: r, Item: row.Item, Organization: m.Organization, Domain: m.Domain}, err):
				return
			}
		}
	}
}

// rowMembers are the members that identify a row's domain. Each may be missing.
type rowMembers struct {
	Organization string `json:"organization_id"`
	Domain       string `json:"discovery_domain_id"`
	Name         string `json:"domain"`
}

// rowMembers reads a row, which may be a bad one.
func (s *storedRows) rowMembers(source []byte) (found rowMembers) {
	if members, err := s.members(source); err == nil {
		_ = json.Unmarshal(objectOf(members), &found) // it leaves out members that are not text
	}
	return found
}
