package intake

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"orgops/internal/activity"
	"orgops/internal/ledger"
	"orgops/internal/rowfile"
	"orgops/internal/scan/progress"
	"orgops/tasks"
)

// BeginPending creates the run whose rows are the pending domains of one organization, or of
// all if that is empty, which a scan finds. A repetition changes nothing; if a run for
// something else has the id, the error is a *ledger.MismatchError.
func (i Intake) BeginPending(ctx context.Context, organization string,
	n ledger.NewRun) (run ledger.Run, created bool, err error) {
	n.Kind = tasks.TypeVerify
	n.Format = rowfile.FormatJSONL
	n.Digest = digestOf("pending domains of %q", organization)
	return i.createScan(ctx, n, progress.Scan{Organization: organization}, activity.Submitted, "")
}

// BeginList creates the run whose rows list the organizations that have a client, which a scan
// finds. Nothing is removed by it. A repetition changes nothing; if a run for something else has
// the id, the error is a *ledger.MismatchError.
func (i Intake) BeginList(ctx context.Context, client string,
	n ledger.NewRun) (run ledger.Run, created bool, err error) {
	if err := tasks.CheckClient(client); err != nil {
		return ledger.Run{}, false, err
	}
	n.Kind = tasks.TypeRemove
	n.Format = rowfile.FormatJSONL
	n.Digest = digestOf("organizations with client %q", client)
	return i.createScan(ctx, n, progress.Scan{Client: client}, activity.Submitted,
		"list of the organizations with client "+client)
}

// BeginEverywhere creates the run that removes the client of a list from the organizations that
// were counted there. Its scan compares: if more have the client by then, nothing is removed. A
// repetition changes nothing; if a run for something else has the id, the error is a
// *ledger.MismatchError. It is a *[CountError] if the list has another number.
func (i Intake) BeginEverywhere(ctx context.Context, list ledger.Run, counted int64,
	n ledger.NewRun) (run ledger.Run, created bool, err error) {
	of, err := ListOf(list)
	if err != nil {
		return ledger.Run{}, false, err
	}
	if counted != list.Total() {
		return ledger.Run{}, false, &CountError{Run: list.ID, Listed: list.Total(), Counted: counted}
	}
	n.Tenant = list.Tenant
	n.Kind = tasks.TypeRemove
	n.Format = rowfile.FormatJSONL
	n.Digest = digestOf("removal of client %q from the organizations of run %s/%s", of.Client, list.ID, list.Incarnation)
	return i.createScan(ctx, n, progress.Scan{Client: of.Client, List: string(list.ID),
		ListIncarnation: string(list.Incarnation), Counted: counted}, activity.Submitted,
		fmt.Sprintf("removal of client %s from %d organizations that run %s lists", of.Client, counted, list.ID))
}

// listSuffix is behind the id of a removal in that of its list.
const listSuffix = "-list"

// ListID returns the id of the run whose rows are the list of a removal.
func ListID(removal ledger.RunID) ledger.RunID { return removal + listSuffix }

// RemovalID returns the id of the removal that belongs to a list, so that a removal which is
// requested twice is one run.
func RemovalID(list ledger.RunID) ledger.RunID {
	if id, ok := strings.CutSuffix(string(list), listSuffix); ok {
		return ledger.RunID(id)
	}
	return list + "-removal"
}

// CountError says that a list has another number of organizations than was counted. Nothing is
// removed.
type CountError struct {
	Run             ledger.RunID
	Listed, Counted int64
}

// Error has both numbers.
func (e *CountError) Error() string {
	return fmt.Sprintf("run %s lists %d organizations, and the number given is %d: nothing was removed", e.Run, e.Listed,
		e.Counted)
}

// IsList reports whether the rows of a run are a list of the organizations of a client.
func IsList(r ledger.Run) bool {
	of, _ := scanOf(r)
	return of.Client != "" && of.List == ""
}

// ListOf returns the progress of a run that lists the organizations of a client. The error says why
// no client can be removed by its number: it is another run, has not ended, or does not have all.
func ListOf(r ledger.Run) (progress.Scan, error) {
	of, err := scanOf(r)
	switch {
	case err != nil:
		return of, err
	case !IsList(r):
		return of, fmt.Errorf("run %s does not list the organizations of a client", r.ID)
	case r.Cancelled:
		return of, fmt.Errorf("run %s was cancelled, and does not list all organizations", r.ID)
	case !r.Ended():
		return of, fmt.Errorf("run %s has not ended, and does not list all organizations yet", r.ID)
	case of.Early != "":
		return of, fmt.Errorf("run %s does not list all organizations: %s", r.ID, of.Early)
	case !of.Ended:
		return of, fmt.Errorf("run %s does not list all organizations: its scan has failed", r.ID)
	case of.Missed > 0:
		return of, fmt.Errorf("run %s does not list all organizations: %d could not be read (%s)", r.ID, of.Missed, of.Why)
	}
	return of, nil
}

// scanOf returns the progress of the scan of a run; zero if it has none.
func scanOf(r ledger.Run) (of progress.Scan, err error) {
	if r.Scan == nil {
		return of, nil
	}
	if err := json.Unmarshal(r.Scan.Progress, &of); err != nil {
		return of, fmt.Errorf("run %s: read the progress of its scan: %w", r.ID, err)
	}
	return of, nil
}

// sweepKeepFor is how long a sweep's run is kept after its end: one of 200,000 domains
// takes 40 MB.
const sweepKeepFor = 7 * 24 * time.Hour

// BeginSweep creates the run of a sweep, whose rows a scan finds. A repetition changes
// nothing: the sweep keeps the tick with which it was created. If a run for something else
// has the id, the error is a *ledger.MismatchError. Package schedule decides whether a sweep may
// start.
func (i Intake) BeginSweep(ctx context.Context, n ledger.NewRun,
	p progress.Scan) (run ledger.Run, created bool, err error) {
	if p.Organization != "" {
		if err := tasks.CheckOrganization(p.Organization); err != nil {
			return ledger.Run{}, false, err
		}
	}
	n.Kind = tasks.TypeRecheck
	n.Format = rowfile.FormatJSONL
	n.KeepFor = sweepKeepFor
	n.Digest = digestOf("sweep of %q, pending ones too: %t", p.Organization, p.Pending)
	return i.createScan(ctx, n, p, activity.SweepStarted, "")
}

// createScan creates a run whose rows a scan finds, or returns the one that exists. The activity
// has the action and its description. If its Redis may lose the writes of its last second it
// creates the run again two seconds later.
func (i Intake) createScan(ctx context.Context, n ledger.NewRun, p progress.Scan,
	action activity.Action, about string) (run ledger.Run, created bool, err error) {
	n.Scan, _ = json.Marshal(p) // texts and numbers always encode
	if run, created, err = i.create(ctx, n); err != nil || !created {
		return run, created, err
	}
	i.committed()
	i.By.Record(ctx, activity.OfRun(n.Tenant, n.ID, action, about))
	if may, err := i.mayBeLost(ctx); !may {
		return run, true, err
	}
	run, _, err = i.create(ctx, n)
	return run, true, err
}

// digestOf returns the digest of a run whose rows a scan finds: that of its request.
func digestOf(format string, args ...any) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, format, args...)))
}
