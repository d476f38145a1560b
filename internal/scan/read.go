package scan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"orgops/apiclient"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/sweep"
)

const (
	// Parallel is how many organizations a step reads at the same time: as many
	// requests as are in progress at 250 a second that are answered within 200 ms. A page of
	// each has at most 5 MB.
	Parallel = 50
	// putOffAfter is how many attempts a step has before organizations are put off although
	// none could be read.
	putOffAfter = 2
)

// reader makes the requests of one step.
type reader struct {
	scanner *Scanner
	run     ledger.Run
	request Request

	mu      sync.Mutex
	askedAt time.Time // the ledger, whether requests may be sent
	stopped bool      // its answer
}

// wanted returns an error unless a request may be sent now. Of requests that are sent side by
// side one asks the ledger, and the others wait for the answer.
func (r *reader) wanted(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.scanner
	if !s.cfg.Active() {
		return engine.ErrStopped
	}
	if time.Since(r.askedAt) >= s.askEvery {
		asked := time.Now()
		run, err := s.cfg.Ledger.Get(ctx, r.run.ID)
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return fmt.Errorf("ask whether the scan is still wanted: %w", err)
		}
		r.stopped = err != nil || run.Incarnation != r.run.Incarnation || isStopped(run) || run.NotBefore.After(s.redisNow())
		r.askedAt = asked
	}
	if r.stopped {
		return engine.ErrStopped
	}
	return nil
}

// read reads the next part: organizations of the pages before, else the next page of
// organizations, and at the end the organizations that were put off. With putOff
// organizations are put off even if none could be read.
func (r *reader) read(ctx context.Context, at position, putOff bool) (o outcome, err error) {
	defer r.recovered(ctx, &err)
	ctx = apiclient.BeforeSending(ctx, r.wanted)
	o = outcome{progress: at.progress, cursor: at.cursor}
	o.cursor.Attempts = 0
	switch c := &o.cursor; {
	case len(c.Left) > 0:
		batch := c.Left[:min(len(c.Left), Parallel)]
		left, late, err := r.readDomains(ctx, &o, batch, putOff)
		c.Left = slices.Concat(left, c.Left[len(batch):])
		c.Late = slices.Concat(c.Late, late)
		return o, err
	case !c.Through && len(c.Late) < maxLate:
		return o, r.readOrganizations(ctx, &o)
	}
	left, late, err := r.readDomains(ctx, &o, o.cursor.Late, false)
	o.cursor.Late = slices.Concat(left, late)
	return o, err
}

func (r *reader) readOrganizations(ctx context.Context, o *outcome) error {
	records, next, err := r.scanner.cfg.API.OrganizationsPage(ctx, o.cursor.From)
	if err != nil {
		return err
	}
	for _, l := range records {
		if l.Err != nil && apiclient.CheckID("id", l.Record.ID) != nil {
			o.missed("an organization: " + l.Err.Error())
			continue
		}
		o.cursor.Left = append(o.cursor.Left, organization{ID: l.Record.ID}) // its name may be bad: nothing needs it
	}
	return o.cursor.follow(next, len(records))
}

// page is the rows of a page of an organization's domains.
type page struct {
	rows []ledger.FoundRow
	next string
	err  error
}

func (r *reader) readPage(ctx context.Context, p sweep.Progress, o organization) (result page) {
	defer r.recovered(ctx, &result.err)
	var at time.Time
	ctx = apiclient.BeforeSending(ctx, func(ctx context.Context) error {
		at = r.scanner.redisNow()
		return r.wanted(ctx)
	})
	domains, next, err := r.scanner.cfg.API.DiscoveryDomainsPage(ctx, o.ID, o.From)
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
			row.Key = name(l.Record.ID) // lists name a domain twice, by themselves or while their pages shift
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
	pages, progress := make([]page, len(batch)), o.progress
	var all errgroup.Group
	all.SetLimit(Parallel)
	for i, org := range batch {
		all.Go(func() error {
			pages[i] = r.readPage(ctx, progress, org)
			return nil
		})
	}
	_ = all.Wait()
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
			o.progress.Read++
		case j.Outcome == engine.Transient:
			late, trouble = append(late, org), cmp.Or(trouble, p.err)
		case !engine.Settles(j.Outcome):
			left, held = append(left, org), cmp.Or(held, p.err)
		case isGone(p.err):
			o.gone(org.ID, j.Reason)
		default:
			o.miss(org.ID, j.Reason)
		}
	}
	if len(left)+len(late) < len(batch) || slices.ContainsFunc(pages, func(p page) bool { return p.err == nil }) {
		return left, late, nil // the trouble of the others is met again
	}
	if held == nil && putOff {
		return left, late, nil
	}
	return left, late, cmp.Or(held, trouble)
}

func isGone(err error) bool {
	answer, ok := errors.AsType[*apiclient.Error](err)
	return ok && answer.Status == http.StatusNotFound
}

// recovered makes an error of a panic: a failed attempt.
func (r *reader) recovered(ctx context.Context, err *error) {
	if p := recover(); p != nil {
		r.scanner.cfg.Logger.ErrorContext(ctx, "scan panicked", "run", r.run.ID, "panic", fmt.Sprint(p),
			"stack", string(debug.Stack()))
		*err = engine.Retry(fmt.Errorf("panic: %v", p))
	}
}
