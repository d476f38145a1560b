package scan

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/scan/progress"
	"orgops/tasks"
	"orgops/tasks/handlers"
)

// API is the part of [apiclient.Client] that a scan needs.
type API interface {
	OrganizationsPage(ctx context.Context, from string) ([]apiclient.Listed[schema.Organization], string, error)
	OrganizationsPageFor(ctx context.Context,
		client, from string) ([]apiclient.Listed[schema.OrganizationOf], string, error)
	DiscoveryDomainsPage(ctx context.Context,
		organization, from string) ([]apiclient.Listed[schema.DiscoveryDomain], string, error)
}

// Parallel is how many requests the scans of a tenant have in progress in a worker: as many as are
// in progress at 250 a second that are answered within 200 ms. A page has at most 5 MB.
const Parallel = 50

// scanner is the handler of a scan's row.
type scanner struct {
	api       func(apiclient.Binding) API
	request   request
	ofSweep   bool // no caller waits for the scan
	lists     Lists
	protected func(organization string) bool
	requests  *semaphore.Weighted // of all scans of the tenant
	logger    *slog.Logger
}

// Lists is the part of the ledger by which a removal reads the list of its client's organizations.
type Lists interface {
	Run(ctx context.Context, t ledger.Tenant, id ledger.RunID) (ledger.Run, error)
	Each(ctx context.Context, run ledger.Run, which ledger.Selection, first int64) iter.Seq2[ledger.RowState, error]
}

// putOffAfter is how many attempts a step has before organizations are put off although
// none could be read.
const putOffAfter = 2

// reader makes the requests of the steps of an execution.
type reader struct {
	scanner
	mu sync.Mutex // of x, while requests are sent side by side
	x  *engine.Execution
}

// client returns a client of the scan's class. Before each of its requests it asks the ledger.
func (r *reader) client(before func(context.Context) error) API {
	return r.api(apiclient.Binding{Class: int(handlers.ClassOfScan(r.ofSweep)), Before: before})
}

// wanted returns an error unless a request may be sent now. Of requests that are sent side by
// side one asks the ledger, and the others wait for the answer.
func (r *reader) wanted(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.x.Allowed(ctx)
}

// read reads the next part: organizations of the pages before, else the next page of
// organizations, and at the end the organizations that were put off. With putOff
// organizations are put off even if none could be read.
func (r *reader) read(ctx context.Context, at position, putOff bool) (o outcome, err error) {
	o.position = at
	switch {
	case len(o.Left) > 0:
		batch := o.Left[:min(len(o.Left), Parallel)]
		left, late, err := r.readDomains(ctx, &o, batch, putOff)
		o.Left = slices.Concat(left, o.Left[len(batch):])
		o.Late = slices.Concat(o.Late, late)
		return o, err
	case !o.Through && len(o.Late) < maxLate:
		return o, r.readOrganizations(ctx, &o)
	}
	left, late, err := r.readDomains(ctx, &o, o.Late, false)
	o.Late = slices.Concat(left, late)
	return o, err
}

func (r *reader) readOrganizations(ctx context.Context, o *outcome) error {
	if err := r.requests.Acquire(ctx, 1); err != nil {
		return err
	}
	defer r.requests.Release(1)
	records, next, err := r.client(r.wanted).OrganizationsPage(ctx, o.From)
	if err != nil {
		return err
	}
	for _, l := range records {
		if l.Err != nil && tasks.CheckOrganization(l.Record.ID) != nil {
			o.missed("an organization: " + l.Err.Error())
			continue
		}
		o.Left = append(o.Left, organization{ID: l.Record.ID}) // its name may be bad: nothing needs it
	}
	return o.follow(next)
}

// page is the rows of a page of an organization's domains.
type page struct {
	rows []ledger.FoundRow
	next string
	err  error
}

func (r *reader) readPage(ctx context.Context, p progress.Scan, o organization) (result page) {
	if err := r.requests.Acquire(ctx, 1); err != nil {
		return page{err: err}
	}
	defer r.requests.Release(1)
	var at time.Time
	client := r.client(func(ctx context.Context) error {
		at = r.x.Now()
		return r.wanted(ctx)
	})
	domains, next, err := client.DiscoveryDomainsPage(ctx, o.ID, o.From)
	if err != nil {
		return page{err: err}
	}
	result.next = next
	for _, l := range domains {
		row, err := r.request.row(ctx, p, o.ID, l, at)
		if err != nil {
			return page{err: err}
		}
		if row != nil {
			// Lists name a domain twice: by themselves, while their pages shift, or read once more.
			row.Key = cmp.Or(name(l.Record.ID), fmt.Sprintf("%x", sha256.Sum256(append(row.Content, row.Result.Detail...))))
			result.rows = append(result.rows, *row)
		}
	}
	return result
}

// readDomains reads a page of the domains of each organization. left are those that have
// another page, or could not be requested now; late are those that failed. The error is why
// none could be read, unless those that failed are to be put off.
func (r *reader) readDomains(ctx context.Context, o *outcome, batch []organization,
	putOff bool) (left, late []organization, err error) {
	// A page of each organization, at the same time.
	pages := make([]page, len(batch))
	progress := o.Scan
	var all sync.WaitGroup
	for i, org := range batch {
		all.Go(func() {
			err := engine.Protect(func() error {
				pages[i] = r.readPage(ctx, progress, org)
				return nil
			})
			if p, ok := errors.AsType[*engine.PanicError](err); ok {
				r.logger.ErrorContext(ctx, "scan panicked", "run", r.x.Run, "panic", fmt.Sprint(p.Value), "stack", string(p.Stack))
				pages[i].err = err
			}
		})
	}
	all.Wait()

	// Decide for each organization: it has more pages, is read, is put off, or is given up.
	var held, trouble error
	for i, p := range pages {
		org := batch[i]
		if p.err == nil {
			o.rows = append(o.rows, p.rows...)
		}
		switch j := engine.Decide(p.err); {
		case p.err == nil && p.next != "" && org.Pages+1 < maxPages:
			left = append(left, organization{ID: org.ID, From: p.next, Pages: org.Pages + 1})
		case p.err == nil && p.next != "":
			o.miss(org.ID, fmt.Sprintf("the list of its domains does not end: %d pages", maxPages))
		case p.err == nil:
			o.Read++
		case j.Outcome == ledger.Transient:
			late = append(late, org)
			trouble = cmp.Or(trouble, p.err)
		case !ledger.Settles(j.Outcome):
			left = append(left, org)
			held = cmp.Or(held, p.err)
		case isGone(p.err):
			o.goneSince(org.ID, j.Reason)
		default:
			o.miss(org.ID, j.Reason)
		}
	}

	// The step has an error only if none of them got further.
	if len(left)+len(late) < len(batch) || slices.ContainsFunc(pages, func(p page) bool { return p.err == nil }) {
		return left, late, nil // the trouble of the others is met again
	}
	if held == nil && putOff {
		return left, late, nil
	}
	return left, late, cmp.Or(held, trouble)
}

func isGone(err error) bool {
	return apiclient.NotFound(err)
}
