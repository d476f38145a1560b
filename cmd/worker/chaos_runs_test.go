package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/sandbox"
)

// found reports whether a scan finds the rows of the job.
func (j *job) found() bool { return j.command[1] == "sweep" || j.pending() }

func (j *job) pending() bool { return slices.Contains(j.args, "--pending") }

// newPending seeds an organization with pending domains, of which two in three have their
// token published. It returns the job that finds and verifies them.
func (c *chaos) newPending(draws *rand.Rand) *job {
	n, id := 5+draws.IntN(40), fmt.Sprintf("pending-%d", c.ids.Add(1))
	j := &job{submission: submission{run: id, file: id + ".csv", command: submissions[0].command}, rows: n}
	org := c.box.AddOrganization("", "")
	rows := "organization_id,discovery_domain_id\n"
	for i := range n {
		d := c.box.AddDomain(org, sandbox.Domain{Use: new(true)})
		if i%3 == 0 {
			j.unpublished = append(j.unpublished, d)
		} else {
			c.box.SetTXT(d.Host, d.TXT)
		}
		rows += org + "," + d.ID + "\n"
	}
	write(c.t, filepath.Join(c.dir, j.file), rows)
	j.args = append(slices.Clone(j.command), "--pending", "--org", org, "--give-up", "10s", "--run", id)
	c.addJob(j)
	return j
}

// drawDelete returns a function that deletes a run that has ended, or ends and deletes an
// open one.
func (c *chaos) drawDelete(draws *rand.Rand, open *job) func() {
	ended := c.jobsThat(func(j *job) bool { return j.ended && !j.retried && j.deleted.IsZero() })
	if draws.IntN(2) == 0 || len(ended) == 0 {
		return func() { c.deleteRun(open) }
	}
	j := ended[draws.IntN(len(ended))]
	return func() { c.deleteRun(j) }
}

// deletesWithin is how long it may take to delete a run.
const deletesWithin = 2 * time.Minute

// deleteRun ends and deletes a run, after it has read the results. One that has retried rows of
// another run is kept as long as that one.
func (c *chaos) deleteRun(j *job) {
	j.control.Lock()
	defer j.control.Unlock()
	if j.isRetried() || j.isDeleted() || j.parent != nil && !j.parent.isDeleted() {
		return
	}
	for begun := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		r, err := c.get(j.run)
		switch {
		case err == nil && r.Ended():
			c.deleteEnded(j)
			return
		case time.Since(begun) > deletesWithin/4:
			return // the end of the test ends it
		case err == nil && r.CancelledAt.IsZero():
			c.cancel(j)
		}
	}
}

func (c *chaos) deleteEnded(j *job) {
	ctx, cancel := context.WithTimeout(c.t.Context(), readsWithin)
	defer cancel()
	kept, err := c.results(ctx, j.run)
	if err != nil {
		return
	}
	for begun := time.Now(); ; time.Sleep(time.Second) {
		_, status := c.enter("runs", "delete", "--yes", j.run)
		if _, err := c.get(j.run); status == 0 || errors.Is(err, ledger.ErrNotFound) {
			break
		}
		if time.Since(begun) > deletesWithin {
			c.t.Errorf("run %s, which has ended, could not be deleted for %v", j.run, deletesWithin)
			return
		}
	}
	c.noteDeleted(j, kept)
}

func (c *chaos) noteDeleted(j *job, kept *runResults) {
	now := time.Now()
	j.locked(func() { j.deleted, j.ended, j.kept = now, true, kept })
	c.count("runs deleted")
}

// readsWithin bounds a read of the ledger. A longer read is repeated by a new command.
const readsWithin = 10 * time.Second

func (c *chaos) get(run string) (ledger.Run, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), readsWithin)
	defer cancel()
	return c.ledger.Get(ctx, "", ledger.RunID(run))
}

// mayForget reports whether Redis may lose acknowledged writes.
func (c *chaos) mayForget() bool { return c.forgets || c.guarded == nil }

func (c *chaos) count(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done[what]++
}

// deleteStaged deletes a run while it is being submitted. It may be too early or too late.
func (c *chaos) deleteStaged(j *job, after time.Duration) {
	j.control.Lock()
	defer j.control.Unlock()
	submitted := make(chan bool)
	go func() {
		_, status := c.enter(j.args...)
		submitted <- status == 0
	}()
	time.Sleep(after)
	_, status := c.enter("runs", "delete", "--yes", j.run)
	if <-submitted {
		j.locked(func() { j.submitted = true })
	}
	if _, err := c.get(j.run); status == 0 && errors.Is(err, ledger.ErrNotFound) {
		c.noteDeleted(j, nil)
		c.count("runs deleted while submitted")
	}
}

// compareDeleted checks that no change was sent for a row after its run was deleted.
func (c *chaos) compareDeleted(row *chaosRow) {
	deleted := row.job.deleted
	for _, r := range row.changes {
		after := r.At.Sub(deleted)
		if !deleted.IsZero() && after > quietAfter && !c.lostNear(deleted) && !c.heldUp(deleted, r.At) {
			c.addWrong("%v: changed by request %d %v after the run was deleted", row, r.Seq, after)
		}
	}
}

// retryOne submits the failed rows of an ended run again, as another run. It publishes the
// tokens of pending domains first.
func (c *chaos) retryOne() {
	for _, parent := range c.jobsThat(func(j *job) bool {
		return j.ended && !j.retried && j.deleted.IsZero() && j.command[1] != "sweep" &&
			(j.cancelled || len(j.unpublished) > 0)
	}) {
		if child := c.newRetry(parent); child != nil {
			c.count("runs retried")
			c.submit(child)
			return
		}
	}
}

// newRetry returns the job of the failed rows of a run, or nil if there are none.
func (c *chaos) newRetry(parent *job) *job {
	parent.control.Lock()
	defer parent.control.Unlock()
	r, err := c.get(parent.run)
	n := int(r.Counts["cancelled"] + r.Counts["expired"])
	if err != nil || !r.Ended() || n == 0 || parent.isRetried() || parent.isDeleted() {
		return nil
	}
	for _, d := range parent.unpublished {
		c.box.SetTXT(d.Host, d.TXT)
	}
	child := &job{submission: parent.submission, rows: n, parent: parent}
	child.run += "-again"
	child.args = []string{"runs", "retry", parent.run, "--run", child.run}
	now := time.Now()
	parent.locked(func() {
		parent.retried = true
		for i := range parent.quiet {
			if parent.quiet[i].to.After(now) {
				parent.quiet[i].to = now
			}
		}
	})
	c.addJob(child)
	return child
}
