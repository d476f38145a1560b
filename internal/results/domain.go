package results

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"orgops/internal/ledger"
	"orgops/internal/rowfile"
	"orgops/tasks"
)

// DomainRow is a row about a discovery domain.
type DomainRow struct {
	Run ledger.Run
	ledger.RowState
	// Organization and Domain are the ids that the row names.
	Organization, Domain string
}

// DomainRows returns the rows about a discovery domain in all runs of the tenant that are about
// domains, those of the newest run first, whatever organization they name. There is no index: every
// stored row of these runs is read, but only those that contain the domain's id, in any case, are
// parsed. Rows that were submitted as single rows are among them until they are settled. Rows that
// have the domain's name instead of its id are among them if name is that, and organization theirs.
func DomainRows(ctx context.Context, l *ledger.Ledger, tenant, domain, organization,
	name string) iter.Seq2[DomainRow, error] {
	return func(yield func(DomainRow, error) bool) {
		all, err := listedOrOpen(ctx, l, ledger.Tenant(tenant))
		if err != nil {
			yield(DomainRow{}, err)
			return
		}
		for _, r := range all {
			if kind, _ := tasks.KindOf(string(r.Kind)); !kind.Has("discovery_domain_id") {
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

// DomainRowAt returns a row of the run by its number, about whatever domain, as DomainRows does.
func DomainRowAt(ctx context.Context, l *ledger.Ledger, r ledger.Run, item int64, domain, organization,
	name string) (DomainRow, error) {
	stored, err := NewStoredRows(l, r)
	if err != nil {
		return DomainRow{}, err
	}
	for row, err := range l.Each(ctx, r, ledger.Every, item) {
		return stored.about(row, domain, organization, name), err
	}
	return DomainRow{}, fmt.Errorf("run %s: row %d: %w", r.ID, item, ledger.ErrNotFound)
}

// listedOrOpen returns the runs of a tenant and its open single rows, the newest first.
func listedOrOpen(ctx context.Context, l *ledger.Ledger, t ledger.Tenant) ([]ledger.Run, error) {
	all, err := l.Runs(ctx, t)
	if err != nil {
		return nil, err
	}
	open, err := l.OpenSingles(ctx, t)
	all = append(all, slices.DeleteFunc(open, ledger.Run.Ended)...)
	slices.SortStableFunc(all, func(a, b ledger.Run) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return all, err
}

// rowsOfRun returns the rows of one run about a domain. A run that is deleted meanwhile has none.
func rowsOfRun(ctx context.Context, l *ledger.Ledger, r ledger.Run, domain, organization,
	name string) iter.Seq2[DomainRow, error] {
	return func(yield func(DomainRow, error) bool) {
		stored, err := NewStoredRows(l, r)
		if err = cmp.Or(ctx.Err(), err); err != nil {
			yield(DomainRow{}, err)
			return
		}

		// A row about the domain has one of these texts. To parse each row would take far longer.
		needles := [][]byte{[]byte(strings.ToLower(domain))}
		if name != "" {
			needles = append(needles, []byte(name))
		}
		if r.Format != rowfile.FormatCSV {
			needles = append(needles, []byte(`\u`)) // a row of JSON may contain the text in escapes
		}

		// The rows, of which those that have one may be about another domain.
		for row, err := range l.Each(ctx, r, ledger.Every, 0) {
			if errors.Is(err, ledger.ErrNotFound) {
				return
			}
			if err == nil && row.Content == nil {
				err = fmt.Errorf("row %d: %w", row.Item, row.Err)
			}
			if err != nil {
				yield(DomainRow{}, fmt.Errorf("run %s: search rows: %w", r.ID, err))
				return
			}
			text := bytes.ToLower(row.Content)
			if !slices.ContainsFunc(needles, func(needle []byte) bool { return bytes.Contains(text, needle) }) {
				continue
			}
			if one := stored.about(row, domain, organization, name); one.Domain == domain && !yield(one, nil) {
				return
			}
		}
	}
}

// about returns a row with the ids that it names. One that has the domain's organization, and its
// name instead of an id, is about the domain.
func (s *StoredRows) about(row ledger.RowState, domain, organization, name string) DomainRow {
	m := s.rowMembers(row.Content)
	if name != "" && m.Domain == "" && m.Name == name && m.Organization == organization {
		m.Domain = domain
	}
	return DomainRow{s.run, row, m.Organization, m.Domain}
}
