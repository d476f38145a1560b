package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/sandbox"
)

// backlog is the usual number of open rows, so that one can always settle.
const backlog = 300

// most bounds the open runs, however few rows they have: failed commands are repeated, and
// must not starve the workers.
const most = 40

// waitsLong is the time without a settled row after which another run is submitted all the
// same: the open rows may all wait for requests whose answers were lost.
const waitsLong = 2 * time.Second

// job is a run of the stream.
type job struct {
	submission

	rows        int
	args        []string         // of the command that submits it
	cells       [][]string       // of its rows, once they are compared
	parent      *job             // the job whose failed rows it repeats
	unpublished []sandbox.Domain // the domains without a published token, of a run of pending domains

	// control is held by commands on the run, and locked by those that exclude all others.
	control sync.RWMutex
	// pausing is held while a command has paused the run: the resume of another would end that.
	pausing sync.Mutex

	mu        sync.Mutex
	submitted bool
	settled   int64
	ended     bool
	cancelled bool
	tried     bool // a cancel was entered, which may take effect although it fails
	retried   bool // another job has its failed rows
	deleted   time.Time
	kept      *runResults // of a deleted run
	quiet     []span      // while none of its rows may start
}

func (j *job) note(r ledger.Run) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.deleted.IsZero() {
		j.settled, j.ended = r.Settled(), r.Ended()
	}
}

// locked calls f with the job locked.
func (j *job) locked(f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f()
}

func (j *job) isDeleted() (deleted bool) {
	j.locked(func() { deleted = !j.deleted.IsZero() })
	return deleted
}

func (j *job) isRetried() (retried bool) {
	j.locked(func() { retried = j.retried })
	return retried
}

func (j *job) isCancelled() (cancelled bool) {
	j.locked(func() { cancelled = j.cancelled })
	return cancelled
}

// openJobs returns the jobs that were not seen to end.
func (c *chaos) openJobs() []*job { return c.jobsThat(func(j *job) bool { return !j.ended }) }

// jobsThat returns the jobs for which match, which is called with the job locked, is true.
func (c *chaos) jobsThat(match func(*job) bool) []*job {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.jobs), func(j *job) (other bool) {
		j.locked(func() { other = !match(j) })
		return other
	})
}

func (c *chaos) addJob(j *job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs = append(c.jobs, j)
}

// stream submits runs so that there is always work, and returns when each is submitted or ctx
// has ended.
func (c *chaos) stream(ctx context.Context) {
	draws := rand.New(rand.NewPCG(c.seed, 2))
	var submitting sync.WaitGroup
	for ctx.Err() == nil {
		rows := int64(0)
		open := c.openJobs()
		for _, j := range open {
			j.locked(func() { rows += int64(j.rows) - j.settled })
		}
		if len(open) > most {
			time.Sleep(time.Second)
			continue
		}
		if rows > backlog {
			time.Sleep(100 * time.Millisecond)
			if time.Since(c.progressed()) < waitsLong {
				continue
			}
			time.Sleep(time.Second)
		}
		j := c.newJob(draws)
		submitting.Go(func() {
			for pause := time.Second; !c.submit(j) && ctx.Err() == nil && !j.isCancelled(); pause = min(2*pause, 8*time.Second) {
				time.Sleep(pause)
			}
		})
	}
	submitting.Wait()
}

// newJob seeds the rows of a run: one in four is a single row.
func (c *chaos) newJob(draws *rand.Rand) *job {
	if draws.IntN(6) == 0 {
		return c.newPending(draws)
	}
	s := submissions[draws.IntN(len(submissions))]
	n := 5 + draws.IntN(100)
	if draws.IntN(4) == 0 {
		n = 1
	}
	s.run = fmt.Sprintf("%s-%d", s.run, c.ids.Add(1))
	rows := string(seed(c.box, s.file, n))
	s.file = s.run + filepath.Ext(s.file)
	write(c.t, filepath.Join(c.dir, s.file), rows)
	j := &job{submission: s, rows: n, args: append(slices.Clone(s.command), "--run", s.run, filepath.Join(c.dir, s.file))}
	if n == 1 && s.command[0] == "domains" {
		j.args = c.single(j)
	}
	c.addJob(j)
	return j
}

// single returns the command that submits the job's only domain without a file.
func (c *chaos) single(j *job) []string {
	row := c.cells(j.file)[0]
	args := append(slices.Clone(j.command), "--run", j.run, "--org", row[0])
	args = append(args, "--domain", row[1])
	if j.command[1] == "update" {
		args = append(args, "--status", row[2], "--use-for-discovery", row[3])
	}
	return args
}

// submit reports whether the run was submitted, or deleted.
func (c *chaos) submit(j *job) bool {
	j.control.RLock()
	defer j.control.RUnlock()
	if j.isDeleted() {
		return true
	}
	out, status := c.enter(j.args...)
	if status != 0 {
		return false
	}
	if strings.TrimSpace(out) != j.run {
		c.t.Errorf("%q: stdout %q, want the run", j.args, out)
	}
	j.locked(func() { j.submitted = true })
	return true
}

// enter runs the built enqueue, and checks the guarantees of every command: no panic, a
// documented exit status, and a message if it is not 0.
func (c *chaos) enter(args ...string) (out string, status int) { return c.enterFor(0, args...) }

// enterFor is like enter, but interrupts the command after a while; 0: it does not.
func (c *chaos) enterFor(length time.Duration, args ...string) (out string, status int) {
	cmd := c.producer.program("enqueue", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	begun, statuses := time.Now(), []int{0, 1, 3}
	if length > 0 {
		statuses = append(statuses, 130, -1) // -1: before the command handles signals
		timer := time.AfterFunc(length, func() {
			if cmd.Process != nil {
				_ = cmd.Process.Signal(os.Interrupt)
			}
		})
		defer timer.Stop()
	}
	stdout, err := cmd.Output()
	status = cmd.ProcessState.ExitCode()
	text := stderr.String()
	documented := slices.Contains(statuses, status) ||
		status == 2 && regexp.MustCompile("exists with another (content|header) ").MatchString(text)
	if !documented || strings.Contains(text, "panic") || strings.Contains(text, "goroutine ") ||
		status == 1 && text == "" {
		c.t.Errorf("enqueue %q: %v; stderr:\n%s", args, err, text)
	}
	what := fmt.Sprintf("%s %s: %d", args[0], args[1], status)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commands[what]++
	if status != 0 {
		lines := strings.Split(strings.TrimSpace(text), "\n")
		c.t.Logf("%s to %s: %q: exit status %d: %s", begun.Format(clockTime), time.Now().Format(clockTime), args,
			status, strings.Join(lines, " / "))
		c.messages[what] = lines[len(lines)-1]
	}
	return string(stdout), status
}

// typeCommands enters commands at random, at most eight at a time, and returns when all have
// ended.
func (c *chaos) typeCommands(ctx context.Context) {
	draws := rand.New(rand.NewPCG(c.seed, 3))
	places := make(chan struct{}, 8)
	var typing sync.WaitGroup
	for ctx.Err() == nil {
		time.Sleep(time.Duration(draws.IntN(1000)) * time.Millisecond)
		open := c.openJobs()
		if len(open) == 0 {
			continue
		}
		command := c.drawCommand(draws, open[draws.IntN(len(open))])
		select {
		case places <- struct{}{}:
			typing.Go(func() {
				command()
				<-places
			})
		case <-ctx.Done():
		}
	}
	typing.Wait()
}

// drawCommand returns a function that runs a random command on a run.
func (c *chaos) drawCommand(draws *rand.Rand, j *job) func() {
	reads := [][]string{
		{"runs", "list"}, {"runs", "show", j.run}, {"runs", "show", j.run, "--open"}, {"runs", "failed", j.run},
		{"runs", "list", "--json"},
		{"evidence", "export", "--since", "1h"},
	}
	if j.command[0] == "domains" {
		row := c.cells(j.file)[0]
		reads = append(reads, []string{"domains", "show", "--org", row[0], row[1], "--rows", "20"})
	}
	read, wait := reads[draws.IntN(len(reads))], time.Duration(draws.IntN(4000))*time.Millisecond
	switch n := draws.IntN(28); {
	case n < 2:
		return func() { c.cancelRun(j) }
	case n < 5:
		return func() { c.pauseRun(j, wait) }
	case n < 8:
		return func() { c.submit(j) }
	case n < 9:
		return func() { c.submitOthers(j) }
	case n < 10:
		return func() { c.enterFor(wait, "runs", "follow", j.run) }
	case n < 12:
		return c.drawDelete(draws, j)
	case n < 13:
		staged := c.newJob(draws)
		return func() { c.deleteStaged(staged, wait/40) }
	case n < 16:
		return func() { c.retryOne() }
	case n < 18:
		return c.drawSweep(draws)
	default:
		return func() { c.enter(read...) }
	}
}

func (c *chaos) cancelRun(j *job) {
	j.control.RLock()
	defer j.control.RUnlock()
	if !j.isRetried() {
		c.cancel(j)
	}
}

// cancel cancels a run whose control is held.
func (c *chaos) cancel(j *job) {
	j.locked(func() { j.tried = true })
	if _, status := c.enter("runs", "cancel", j.run); status == 0 {
		j.locked(func() { j.cancelled, j.quiet = true, append(j.quiet, span{time.Now(), time.Now().Add(24 * time.Hour)}) })
	}
}

// pauseRun pauses a run, and resumes it after a while. If the resume fails, the end of the
// test repeats it.
func (c *chaos) pauseRun(j *job, length time.Duration) {
	j.control.RLock()
	defer j.control.RUnlock()
	if !j.pausing.TryLock() {
		return
	}
	defer j.pausing.Unlock()
	if _, status := c.enter("runs", "pause", j.run); status != 0 {
		return
	}
	from := time.Now()
	time.Sleep(length)
	j.locked(func() { j.quiet = append(j.quiet, span{from, time.Now()}) })
	c.enter("runs", "resume", j.run)
}

// submitOthers submits other rows under the id of a run that was submitted, which is refused.
func (c *chaos) submitOthers(j *job) {
	j.control.RLock()
	defer j.control.RUnlock()
	submitted := false
	j.locked(func() { submitted = j.submitted && j.deleted.IsZero() })
	args := slices.Clone(j.args)
	if !submitted || !strings.HasPrefix(args[len(args)-1], c.dir) {
		return
	}
	if _, err := c.get(j.run); err != nil && c.mayForget() {
		return // Redis may have lost the run: the rows are accepted then
	}
	args[len(args)-1] = filepath.Join(c.dir, "others-"+j.file)
	write(c.t, args[len(args)-1], c.others(j))
	if _, status := c.enter(args...); status == 0 {
		c.addWrong("%q: other rows under the id of a run were accepted", args)
	}
}

// others returns rows of the job's form whose objects do not exist.
func (c *chaos) others(j *job) string {
	switch j.command[1] {
	case "create":
		return string(c.box.SeedTemplates(1)) // returns only the text
	case "remove":
		return "organization_id,client_id\norg_0000000000000000,client_0\n"
	case "update":
		return "organization_id,discovery_domain_id,status\norg_0000000000000000,ord_0000000000000000000000,pending\n"
	}
	return "organization_id,discovery_domain_id\norg_0000000000000000,ord_0000000000000000000000\n"
}
