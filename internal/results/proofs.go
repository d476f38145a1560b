package results

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"orgops/dnscheck/dnsname"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/tasks"
)

// Proven is a domain that a run has verified, and the proof.
type Proven struct {
	Tenant string `json:"tenant"`
	Run    string `json:"run"`
	Item   int64  `json:"item"` // of the run's rows, from 0
	evidence.Evidence
}

// Proofs selects proofs.
type Proofs struct {
	Tenant string    // empty: of all tenants
	Since  time.Time // made at that time or later
	Domain string    // the domain's name, in any case, in Unicode or punycode, or its id; empty: of all domains
}

// All returns the wanted proofs of the runs that the ledger knows, those of each run in
// the order of its rows, the oldest run first. It reads the header of every run, and leaves
// out one that is deleted meanwhile.
func (p Proofs) All(ctx context.Context, l *ledger.Ledger) iter.Seq2[Proven, error] {
	return func(yield func(Proven, error) bool) {
		all, err := p.runs(ctx, l)
		if err != nil {
			yield(Proven{}, err)
			return
		}
		for _, r := range all {
			proofs, err := p.of(ctx, l, r)
			if errors.Is(err, ledger.ErrNotFound) { // deleted meanwhile
				continue
			}
			if err != nil {
				yield(Proven{}, err)
				return
			}
			for _, proof := range proofs {
				if !yield(proof, nil) {
					return
				}
			}
		}
	}
}

// runs returns the runs that may have such proofs.
func (p Proofs) runs(ctx context.Context, l *ledger.Ledger) ([]ledger.Run, error) {
	var tenants []ledger.Tenant // all
	if p.Tenant != "" {
		tenants = append(tenants, ledger.Tenant(p.Tenant))
	}
	all, err := l.All(ctx, tenants...)
	all = slices.DeleteFunc(all, func(r ledger.Run) bool {
		kind, _ := tasks.KindOf(string(r.Kind))
		endedBefore := !r.EndedAt.IsZero() && r.EndedAt.Before(p.Since)
		return !kind.Proves || endedBefore
	})
	slices.SortFunc(all, func(a, b ledger.Run) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return all, err
}

// of returns the wanted proofs of one run.
func (p Proofs) of(ctx context.Context, l *ledger.Ledger, r ledger.Run) ([]Proven, error) {
	var proofs []Proven
	for row, err := range l.Each(ctx, r, ledger.WithResult, 0) {
		if err != nil {
			return nil, err
		}
		if len(row.Result.Evidence) == 0 {
			continue
		}
		e, err := evidence.Read(row.Result.Evidence)
		if err != nil {
			return nil, fmt.Errorf("row %d of run %s: %w", row.Item, r.ID, err)
		}
		if e.Compared == nil || e.At.Before(p.Since) || !p.isOf(e.Compared) {
			continue
		}
		proofs = append(proofs, Proven{Tenant: string(r.Tenant), Run: string(r.ID), Item: row.Item, Evidence: e})
	}
	return proofs, nil
}

// isOf reports whether the proof is of the domain.
func (p Proofs) isOf(c *evidence.Record) bool {
	return p.Domain == "" || p.Domain == c.DiscoveryDomainID || dnsname.Typed(p.Domain) == dnsname.Key(c.Domain)
}
