package tasks

// A row has begun once a request of its own that cannot be taken for granted may
// be under way: a confirm's or an update's PATCH, a template's POST. What became of
// it is found out whatever is said of the run meanwhile; everything else stops. A
// handler may wait long for a permit, so the ledger is asked in three places: before the
// execution, in the step that begins a row, and right before each request.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"orgops/apiclient"
)

// What stands against beginning a row beside its run's being cancelled, paused or
// resumed: it is settled, or another execution has begun it since this one read it.
const (
	alreadySettled = "settled"
	begunMeanwhile = "begun"
)

// errBegunMeanwhile leaves the row to the other execution. There are two of a task
// where the first was taken for dead.
var errBegunMeanwhile = later("another execution of this row has sent a request; its result is being read", time.Second)

// errFindOut leaves a row that has begun to an execution that begins nothing.
var errFindOut = later("the run was cancelled; the result of the request in progress is being read", time.Second)

// hasBegun says whether an earlier execution has begun the row.
func (j Job) hasBegun() bool { return hasBegun(j.kept) }

func hasBegun(kept map[string][]byte) bool {
	return len(kept[keptIntent]) > 0 || len(kept[keptMark]) > 0
}

// stop is what that which stands against its rows means for the job; nil: it goes
// on. To a row that has begun a pause means nothing.
func (j Job) stop(against string) error {
	switch {
	case against == alreadySettled:
		return errNothingToDo
	case against == begunMeanwhile:
		return errBegunMeanwhile
	case against == string(Superseded):
		return errSuperseded
	case against == string(Paused) && !j.hasBegun():
		return errPaused
	case against == string(Cancelled) && !j.hasBegun():
		return ErrCancelled
	case against == string(Cancelled):
		return errFindOut
	}
	return nil
}

// lookedAt is how long what the ledger has said is good for: a row that was
// cancelled starts no later than that.
const lookedAt = time.Second

// secondLook asks the ledger once more right before a request, where it was not
// asked just now. seen is when it was. One execution's requests go out one after
// the other.
func (m *Mux) secondLook(job Job, kind string, seen time.Time) func(context.Context) error {
	return func(ctx context.Context) error {
		now := m.cfg.Now()
		if now.Sub(seen) < lookedAt {
			return nil
		}
		settled, kept, against, err := m.cfg.Ledger.Standing(ctx, job.Run, kind, job.Generation, job.Rows())
		if err != nil {
			return err
		}
		if allSettled(settled) {
			return errNothingToDo
		}
		if job.Item != nil && !job.knows(kept) {
			return errBegunMeanwhile
		}
		seen = now
		return job.stop(against)
	}
}

// known is the row's mark as this execution has written or read it.
func (j Job) known(name string) []byte {
	if value, ok := j.written[name]; ok {
		return value
	}
	return j.kept[name]
}

// mark is the one that the row has, as this execution knows; a row has one at most.
func (j Job) mark() (name string, value []byte) {
	for _, name := range []string{keptIntent, keptMark} {
		if value := j.known(name); len(value) > 0 {
			return name, value
		}
	}
	return "", nil
}

// knows says whether the row has begun with what this execution knows of.
func (j Job) knows(kept map[string][]byte) bool {
	return bytes.Equal(kept[keptIntent], j.known(keptIntent)) && bytes.Equal(kept[keptMark], j.known(keptMark))
}

// beginning is for requests that begin something. Those of a row that has begun
// are not asked about otherwise: they find out what became of it.
func (j Job) beginning(ctx context.Context) context.Context {
	return apiclient.BeforeSending(ctx, j.look)
}

// goingOn is for requests that have to go out once the row has begun.
func goingOn(ctx context.Context) context.Context { return apiclient.BeforeSending(ctx, nil) }

// begin writes the mark down before the request, unless something stands against
// it: then the error says what, and nothing must be sent.
func begin[M any](ctx context.Context, l Ledger, job Job, name string, mark M) error {
	against, err := writeDown(ctx, l, job, name, &mark)
	if err != nil {
		return err
	}
	return job.stop(against)
}

// notBegun puts the mark back to what it was, nil where there was none, after a
// request that has had no effect; cause says why, and is the error unless a cancel
// has come meanwhile.
func notBegun[M any](ctx context.Context, l Ledger, job Job, name string, former *M, cause error) error {
	against, err := writeDown(ctx, l, job, name, former)
	if err != nil {
		return fmt.Errorf("%w; %w", cause, err)
	}
	if against == string(Cancelled) && !job.hasBegun() && !Judge(cause).Outcome.Settles() {
		return ErrCancelled
	}
	return cause
}

// writeDown keeps the mark, or takes it away where it is nil, if what is there is
// what this execution has read or written.
func writeDown[M any](ctx context.Context, l Ledger, job Job, name string, mark *M) (against string, err error) {
	return put(ctx, l.Begin, job, name, mark)
}

// amend is writeDown of a row that has begun, where what this execution knows of is
// there still.
func amend[M any](ctx context.Context, l Ledger, job Job, name string, mark *M) (against string, err error) {
	return put(ctx, l.Amend, job, name, mark)
}

// putting is what the ledger does with a mark.
type putting func(ctx context.Context, run string, item int64, generation int, name string, value, former []byte) (against string, err error)

func put[M any](ctx context.Context, do putting, job Job, name string, mark *M) (against string, err error) {
	var value []byte
	if mark != nil {
		if value, err = json.Marshal(mark); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
	}
	former := job.known(name)
	if against, err = do(ctx, job.Run, *job.Item, job.Generation, name, value, former); err != nil {
		return "", fmt.Errorf("write down the %s: %w", name, err)
	}
	switch {
	case against == begunMeanwhile, against == alreadySettled, against == string(Superseded):
	case against == "", len(former) > 0: // as the ledger has it: a row that has begun goes on
		job.written[name] = value
	}
	return against, nil
}

// inDoubt begins the reason of a row that is given up although a request of it may
// have had its effect.
func (m *Mux) inDoubt(ctx context.Context, typ string, job Job) string {
	if job.Item == nil {
		return ""
	}
	_, kept, _, err := m.cfg.Ledger.Standing(ctx, job.Run, job.kindOfType(typ), job.Generation, job.Rows())
	if err != nil || !hasBegun(kept) {
		return "" // settling meets the same error, and comes back here
	}
	switch typ {
	case TypeUpdate:
		return "the domain may have been changed nevertheless: check the tenant's record, then retry the row; "
	case TypeCreate:
		return "the template may have been created nevertheless: check whether it exists, then retry the row; "
	}
	return "the domain may have been set to verified nevertheless: check the tenant's record, then retry the row; "
}
