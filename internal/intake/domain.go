package intake

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
// parsed. Rows that were submitted as single rows are among them until they are settled.
func DomainRows(ctx context.Context, l *runs.Ledger, tenant, domain string) iter.Seq2[DomainRow, error] {
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
			for row, err := range rowsOfRun(ctx, l, r, domain) {
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	}
}

// IDsOf returns the ids of organization and domain that a stored row of the run names.
func IDsOf(ctx context.Context, l *runs.Ledger, r ledger.Run, item int64) (organization, domain string, err error) {
	stored, err := newStoredRows(l, r)
	if err != nil {
		return "", "", err
	}
	rows, err := l.Rows(ctx, r, item, 1)
	if err == nil && len(rows) == 0 {
		err = fmt.Errorf("run %s: row %d: %w", r.ID, item, ledger.ErrNotFound)
	}
	if err != nil {
		return "", "", err
	}
	m := stored.rowMembers(rows[0])
	return m.Organization, m.Domain, nil
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
func rowsOfRun(ctx context.Context, l *runs.Ledger, r ledger.Run, domain string) iter.Seq2[DomainRow, error] {
	return func(yield func(DomainRow, error) bool) {
		stored, err := newStoredRows(l, r)
		if err = cmp.Or(ctx.Err(), err); err != nil {
			yield(DomainRow{}, err)
			return
		}
		needles := [][]byte{[]byte(strings.ToLower(domain))}
		if r.Format != FormatCSV {
			needles = append(needles, []byte(`\u`)) // a row of JSON may contain the text in escapes
		}
		for row, err := range l.Search(ctx, r, needles...) {
			m := stored.rowMembers(row.Source)
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
}

// rowMembers reads a row, which may be a bad one.
func (s *storedRows) rowMembers(source []byte) (found rowMembers) {
	if members, err := s.members(source); err == nil {
		_ = json.Unmarshal(objectOf(members), &found) // it leaves out members that are not text
	}
	return found
}
