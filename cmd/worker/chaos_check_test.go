package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/sandbox"
)

// proofAge is how long before a PATCH its proof and its read may have been: a record is fresh
// for a minute, and the request may be held back by a link or a suspended worker meanwhile.
const proofAge = 100 * time.Second

// quietAfter is how long after a pause or a cancel a row may still start: an execution reads
// the ledger at most a second before its request.
const quietAfter = 3 * time.Second

// finish waits until all runs have ended. As an operator does, it repeats
// incomplete submissions and resumes paused runs. Then it stops the workers.
func (c *chaos) finish() {
	c.t.Helper()
	for _, j := range c.jobs { // Redis may have lost the end, or the deletion, of one, or the whole run
		r, err := c.ledger.Get(c.t.Context(), "", ledger.RunID(j.run))
		lost := errors.Is(err, ledger.ErrNotFound) && !j.isDeleted()
		if err == nil || lost {
			j.locked(func() { j.ended = err == nil && r.Ended() })
		}
	}
	awaitFor(c.t, chaosEnds, "the ends of all runs", func() bool {
		open := c.openJobs()
		for _, j := range open {
			c.bringOn(j)
		}
		time.Sleep(200 * time.Millisecond)
		return len(open) == 0
	})
	for _, w := range c.workers {
		w.signal(syscall.SIGTERM)
	}
	for _, w := range c.workers {
		if err := w.stopped(); err != nil {
			c.t.Errorf("%s, stopped at the end: %v", w.name, err)
		}
	}
}

func (c *chaos) bringOn(j *job) {
	r, err := c.ledger.Get(c.t.Context(), "", ledger.RunID(j.run))
	missing := errors.Is(err, ledger.ErrNotFound)
	switch {
	case missing && (j.cancelled || j.isDeleted() || j.command[1] == "sweep"):
		j.ended = true
	case err == nil && r.Paused && j.found(): // the scan does not continue before
		c.enter("runs", "resume", j.run)
	case err == nil && j.found(): // its scan continues
	case missing || err == nil && !r.HasAllRows() && !j.cancelled:
		c.t.Logf("run %s is not submitted whole (%v, submitted before: %t; %+v): once more", j.run, err, j.submitted, r)
		c.submit(j)
	case err != nil:
		c.t.Error(err)
	case r.Paused:
		c.enter("runs", "resume", j.run)
	}
	if err == nil {
		j.locked(func() { j.settled, j.ended = r.Settled(), r.Ended() })
	}
}

func (c *chaos) addLost(format string, args ...any) { c.add(&c.lost, "lost: "+format, args...) }
func (c *chaos) addDoubled(format string, args ...any) {
	c.add(&c.doubled, "doubled: "+format, args...)
}
func (c *chaos) addWrong(format string, args ...any) { c.add(&c.wrong, "wrong: "+format, args...) }

func (c *chaos) add(counter *int, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *counter++; *counter <= 20 {
		c.t.Errorf(format, args...)
	}
}

// compareAll compares ledger, request log and the tenant's state.
func (c *chaos) compareAll() {
	c.t.Helper()
	log, state := c.box.Requests(), c.state()
	rows := c.rowsByKey()
	for _, r := range log {
		c.assign(r, rows)
	}
	domains, templates, queries := domainsOf(state), templatesOf(c.t, state), c.queries()
	for key, row := range rows {
		if row.swept != nil {
			c.compareSwept(row, domains[key], queries[strings.ToLower(row.swept.host)])
			continue
		}
		c.compareQuiet(row)
		c.compareDeleted(row)
		switch row.job.command[1] {
		case "verify":
			c.compareVerified(row, domains[key], queries)
		case "update":
			c.compareUpdated(row, domains[key])
		case "remove":
			c.compareRemoved(row, slices.Contains(state.Clients[row.cells[0]], row.cells[1]))
		case "create":
			c.compareCreated(row, templates[key])
		}
	}
	c.compareStops(log)
	c.compareRate(log)
}

// assign adds a request to its rows. It reports a change that no row requests.
func (c *chaos) assign(r sandbox.Request, rows map[string]*chaosRow) {
	var keys []string
	switch r.Operation {
	case sandbox.OpGetDiscoveryDomain, sandbox.OpUpdateDiscoveryDomain:
		keys = []string{r.Organization + " " + r.Domain}
	case sandbox.OpCreateTemplate:
		keys = []string{r.Template}
	case sandbox.OpRemoveOrganizationClients:
		for _, client := range r.Clients {
			keys = append(keys, r.Organization+" "+client)
		}
	case sandbox.OpListDiscoveryDomains:
		c.lists[r.Organization] = append(c.lists[r.Organization], r)
		return
	default:
		return
	}
	for _, key := range keys {
		row, ok := rows[key]
		switch {
		case !ok:
			c.addWrong("request %d asks for what no row asks for: %+v", r.Seq, r)
			continue
		case row.first.IsZero() && r.Method != http.MethodGet:
			row.first = r.At
		}
		switch {
		case r.Method == http.MethodGet:
			row.reads = append(row.reads, r)
		case r.Handled && (r.Status < 400 || r.Status >= 500): // a fault may have made the status
			row.changes = append(row.changes, r)
		}
	}
}

// compareQuiet checks that no row sent its first change while its run was paused or cancelled.
// Reads may be sent: they find out the result of a lost request.
func (c *chaos) compareQuiet(row *chaosRow) {
	for _, quiet := range row.quiet {
		after := row.first.Sub(quiet.from)
		if after < quietAfter || row.first.After(quiet.to) || c.lostNear(quiet.from) || c.heldUp(quiet.from, row.first) {
			continue
		}
		c.addWrong("%v: its first request to change something came %v after the run was paused or cancelled at %s", row,
			after, quiet.from.Format(clockTime))
	}
}

// heldUp reports whether a fault may have delayed a request from the one time to the other.
func (c *chaos) heldUp(from, to time.Time) bool {
	return slices.ContainsFunc(c.faults, func(d disturbance) bool {
		return (d.kind == "worker suspended" || d.kind == "API link stalled") && d.overlaps(from.Add(-time.Second), to)
	})
}

// forgot reports whether Redis has lost something that was acknowledged.
func forgot(d disturbance) bool {
	return d.kind == "Redis loses its last second" || strings.HasPrefix(d.kind, "Sentinel failover")
}

// lostNear reports whether Redis may have lost writes that it acknowledged at that time.
func (c *chaos) lostNear(at time.Time) bool {
	return slices.ContainsFunc(c.faults, func(d disturbance) bool {
		return forgot(d) && d.overlaps(at.Add(-5*time.Second), at.Add(5*time.Second))
	})
}

func (c *chaos) hasForgotten() bool {
	return slices.ContainsFunc(c.faults, forgot)
}

// once checks that a row's change was made once. PATCHes of a Redis that has forgotten
// something, and removals whose answers were lost, may be repeated.
func (c *chaos) once(row *chaosRow, mayRepeat bool) {
	for i := 1; i < len(row.changes); i++ {
		first, next := row.changes[i-1], row.changes[i]
		disturbed := slices.ContainsFunc(c.faults, func(d disturbance) bool {
			return d.overlaps(first.At.Add(-2*time.Second), next.At)
		})
		if c.repeated++; !mayRepeat || !disturbed {
			c.addDoubled("%v: changed by request %d and again by %d, %v later", row, first.Seq, next.Seq, next.At.Sub(first.At))
		}
	}
}

// settledAs checks the outcome of a row by whether its change took effect.
func (c *chaos) settledAs(row *chaosRow, there bool) {
	switch row.fate.Outcome {
	case "done", "unchanged":
		if !there || len(row.changes) == 0 {
			c.addWrong("%v: it is so in the tenant: %t, after %d changes", row, there, len(row.changes))
		}
		if row.fate.Outcome == "unchanged" && !c.hasForgotten() && len(c.faults) == 0 {
			c.addWrong("%v: without a fault", row)
		}
	case "expired":
		if !row.unpublished || len(row.changes) > 0 {
			c.addWrong("%v: published: %t, after %d changes", row, !row.unpublished, len(row.changes))
		}
	case deletedUnknown:
	case notFound:
		if len(row.changes) > 0 {
			c.addWrong("%v, after %d changes", row, len(row.changes))
		}
	case "cancelled":
		// A removal has no intent, and Redis may have lost one.
		excused := row.job.command[1] == "remove" || c.hasForgotten()
		if !row.job.tried || there && !excused {
			c.addWrong("%v: it is so in the tenant: %t, after %d changes; cancelled by the test: %t", row, there,
				len(row.changes), row.job.tried)
		}
	default:
		c.addWrong("%v", row)
	}
}

func (c *chaos) compareVerified(row *chaosRow, d sandbox.Domain, queries map[string]answers) {
	c.settledAs(row, d.Status == "verified" && d.Use != nil && *d.Use)
	c.once(row, c.hasForgotten())
	for _, p := range row.changes {
		if p.Body != `{"status":"verified","use_for_organization_discovery":true}` {
			c.addWrong("%v: PATCHed with %s", row, p.Body)
		}
		c.compareProof(row, p, queries[strings.ToLower(d.Host)].found)
	}
}

// quorum is how many of the three resolvers must agree.
const quorum = 2

// compareProof checks that resolvers had the token, and that the record was read or listed, right
// before a PATCH to verified.
func (c *chaos) compareProof(row *chaosRow, p sandbox.Request, found []time.Time) {
	read := slices.ContainsFunc(append(row.reads, c.lists[p.Organization]...),
		func(r sandbox.Request) bool { return shortlyBefore(r.At, p) })
	if n := countBefore(found, p); n < quorum || !read {
		c.addWrong("%v: PATCHed by request %d after %d answers of DNS; read before: %t", row, p.Seq, n, read)
	}
}

func shortlyBefore(at time.Time, p sandbox.Request) bool {
	return at.Before(p.At) && p.At.Sub(at) < proofAge
}

// countBefore returns how many of the times are shortly before a request.
func countBefore(times []time.Time, p sandbox.Request) (n int) {
	for _, at := range times {
		if shortlyBefore(at, p) {
			n++
		}
	}
	return n
}

func (c *chaos) compareUpdated(row *chaosRow, d sandbox.Domain) {
	status, use := row.cells[2], row.cells[3]
	var body struct {
		Status string `json:"status"`
		Use    *bool  `json:"use_for_organization_discovery"`
	}
	for _, p := range row.changes {
		err := json.Unmarshal([]byte(p.Body), &body)
		if err != nil || status != "" && body.Status != status ||
			use != "" && (body.Use == nil || fmt.Sprint(*body.Use) != use) {
			c.addWrong("%v: PATCHed with %s", row, p.Body)
		}
	}
	c.settledAs(row, (status == "" || d.Status == status) && (use == "" || d.Use != nil && fmt.Sprint(*d.Use) == use))
	c.once(row, c.hasForgotten())
}

func (c *chaos) compareRemoved(row *chaosRow, there bool) {
	c.settledAs(row, !there)
	c.once(row, true)
}

func (c *chaos) compareCreated(row *chaosRow, ids []string) {
	c.settledAs(row, len(ids) == 1)
	if len(ids) > 1 {
		c.addDoubled("%v: the tenant has %q", row, ids)
	}
	if ledger.Succeeded(row.fate.Outcome) && !slices.Contains(ids, row.fate.Detail) {
		c.addWrong("%v: the tenant has %q", row, ids)
	}
}

// answers returns when resolvers answered for the TXT records of a host.
type answers struct {
	found  []time.Time
	denied []time.Time // the name does not exist
}

// queries returns the answers by host.
func (c *chaos) queries() map[string]answers {
	by := map[string]answers{}
	for _, q := range c.box.Queries() {
		if q.Type != "TXT" {
			continue
		}
		host := strings.ToLower(strings.TrimSuffix(q.Name, "."))
		a := by[host]
		switch q.RCode {
		case "NOERROR":
			a.found = append(a.found, q.At)
		case "NXDOMAIN":
			a.denied = append(a.denied, q.At)
		}
		by[host] = a
	}
	return by
}

// compareStops checks that the tenant received no change while it was stopped.
func (c *chaos) compareStops(log []sandbox.Request) {
	for _, r := range log {
		stopped := slices.ContainsFunc(c.stops, func(s span) bool { return r.At.After(s.from) && r.At.Before(s.to) })
		if stopped && r.Operation != sandbox.OpToken && r.Method != http.MethodGet {
			c.addWrong("request %d came while the tenant was stopped: %+v", r.Seq, r)
		}
	}
}

// compareRate checks that in no window more requests arrived than the workers may use of the
// tenant's rate and burst.
// Requests that a fault has held back are not counted.
func (c *chaos) compareRate(log []sandbox.Request) {
	slices.SortStableFunc(log, func(a, b sandbox.Request) int { return a.At.Compare(b.At) })
	held, start := slices.Clone(c.held), log[0].At
	const rate, limit = chaosRate * chaosUse, chaosBurst*chaosUse + chaosLate
	allowed := func(at time.Time) float64 { return at.Sub(start).Seconds() * rate }
	came, least, most := 0.0, math.Inf(1), 0.0
	var from, low, when time.Time
	for _, r := range log {
		if r.Operation == sandbox.OpToken || wasHeld(held, r.At) {
			continue
		}
		if excess := came - allowed(r.At); excess < least {
			least, low = excess, r.At
		}
		came++
		if over := came - allowed(r.At) - least; over > most {
			from, most, when = low, over, r.At
		}
	}
	c.t.Logf("rate: at most %.0f requests more than %.0f/s in any window, of %.0f, from %s to %s", most, rate, limit,
		from.Format(clockTime), when.Format(clockTime))
	if most > limit {
		c.addWrong("%.0f requests more than the rate from %s to %s, want at most %.0f", most, from.Format(clockTime),
			when.Format(clockTime), limit)
	}
}

// wasHeld reports whether a request that came then may have been held back by a fault.
func wasHeld(held []heldBack, at time.Time) bool {
	for i := range held {
		if h := &held[i]; h.n > 0 && at.After(h.at) && at.Sub(h.at) < 2*time.Second {
			h.n--
			return true
		}
	}
	return false
}
