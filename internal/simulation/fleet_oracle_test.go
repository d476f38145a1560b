package simulation_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"orgops/internal/events"
	"orgops/internal/ledger"
	"orgops/internal/sweep"
	"orgops/tasks/handlers"
)

// check compares the ledger with the tenants.
func (f *fleet) check() {
	for _, r := range f.runs {
		f.checkRun(r)
	}
	for _, tn := range f.tenants {
		f.checkTenant(tn)
		f.checkRate(tn)
	}
	for i, p := range f.problems {
		if i == 20 {
			f.t.Errorf("and %d more", len(f.problems)-i)
			break
		}
		f.t.Error(p)
	}
}

// checkRun compares the rows of a run: each is settled, once, about one target.
func (f *fleet) checkRun(r *fleetRun) {
	ctx := context.Background()
	run, err := f.ledger.Get(ctx, "", r.id)
	if err != nil {
		f.problem("run %s: %v", r.id, err)
		return
	}
	seen := map[string]bool{}
	for number := range run.Segments {
		seg := ledger.Segment{Tenant: run.Tenant, Run: run.ID, Incarnation: run.Incarnation, Number: number}
		for from := ledger.Row(0); ; {
			rows, err := f.ledger.Rows(ctx, seg, from, 128)
			if err != nil {
				f.problem("run %s: %v", r.id, err)
				return
			}
			if len(rows) == 0 {
				break
			}
			for _, row := range rows {
				target := targetOf(row.Content)
				if !r.targets[target] {
					f.problem("run %s, row %d is about %q, for which nobody asked", r.id, row.Row, target)
				} else if seen[target] {
					f.problem("run %s has two rows about %q", r.id, target)
				}
				seen[target] = true
				f.checkRow(r, fleetRow{r.id, number, row.Row}, row, target)
			}
			from += ledger.Row(len(rows))
		}
	}
	if len(seen) != len(r.targets) {
		f.problem("run %s has rows about %d of %d targets: %+v", r.id, len(seen), len(r.targets), run)
	}
	if !r.single && f.events[events.RunFinished+" "+string(r.id)+" "] == 0 {
		f.problem("run %s: its end was not notified", r.id)
	}
}

// targetOf returns the id of the record that a row changes.
func targetOf(content []byte) string {
	var row struct {
		Domain   string `json:"discovery_domain_id"`
		Client   string `json:"client_id"`
		Template string `json:"name"`
	}
	_ = json.Unmarshal(content, &row)
	return row.Domain + row.Client + row.Template
}

// checkRow compares a row's result with the writes of results and with its target.
func (f *fleet) checkRow(r *fleetRun, key fleetRow, row ledger.RowState, target string) {
	outcome := row.Result.Outcome
	r.outcomes[outcome]++
	h := cmp.Or(f.histories[key], &rowHistory{})
	bad := func(format string, args ...any) {
		f.problem("run %s, row %d, about %s, is %s (%s %.200s): %s; begun %v, to wait %v, settled %v", r.id, key.row, target,
			row.Phase, outcome, row.Result.Detail,
			fmt.Sprintf(format, args...), h.begun, h.plans, h.settles)
	}
	if row.Phase != ledger.PhaseSettled {
		bad("it is not settled")
		return
	}
	surely, same := 0, false
	for _, s := range h.settles {
		same = same || s.outcome == outcome
		if !s.doubt && !f.redis.wasLost(s.at) {
			surely++
		}
	}
	switch {
	case surely > 1:
		bad("it was settled %d times", surely)
	case !same && outcome != ledger.Cancelled:
		bad("no execution has settled it so")
	case outcome == ledger.Cancelled && r.cancelled.IsZero():
		bad("nobody has cancelled it")
	}
	changed, from := f.checkTarget(r, row.Result, target, bad)
	f.checkWait(r, h, outcome, from, bad)
	if changed.IsZero() || r.cancelled.IsZero() || !changed.After(r.cancelled) {
		return
	}
	if len(h.begun) == 0 || h.begun[0].After(r.cancelled) {
		bad("it had its effect at %v, although it had not begun when a cancel returned at %v", changed, r.cancelled)
	}
}

// hitFor is how long a fault may delay a row, as a mean of two or more: half a minute
// for a request without an answer, 15 s until the session of a dead worker has ended, and 10 s
// until a release lapses. A step of Redis' clock repeats the 15 s.
const hitFor = time.Minute

// checkWait finds a row that waited longer than its faults explain. Each fault ends an
// execution, and there are two more: the last one, and releases that were lost. The time in
// which the row was not due, its run was paused or no worker was running does not count, nor
// does a step back of Redis' clock. All requests of the tenant may have preceded the row's.
func (f *fleet) checkWait(r *fleetRun, h *rowHistory, outcome ledger.Outcome, from time.Time,
	bad func(string, ...any)) {
	if len(h.settles) == 0 || outcome == ledger.Cancelled {
		return
	}
	if outcome == ledger.Expired { // the token may never be published
		from = r.from
	}
	w := f.waited(r, h, latest(r.from, from))
	if outcome != ledger.Expired && w.total > r.longest.total {
		r.longest = w
	}
	rate, _ := r.tenant.limit.Effective()
	paced := time.Duration(float64(len(r.tenant.log)) / rate.PerSecond() * float64(time.Second))
	bound := paced + hitFor*time.Duration(1+len(h.begun))
	bound += ledger.ExecutionLimit * time.Duration(f.lostEnds(h))
	if w.rest > bound {
		bad("it waited %v: more than %v of pace, executions and faults", w, bound.Round(time.Second))
	}
}

// lostEnds returns how many ends of a row's executions Redis has lost. Such an execution lasts
// until its limit.
func (f *fleet) lostEnds(h *rowHistory) (n int) {
	for _, s := range h.settles {
		if f.redis.wasLost(s.at) {
			n++
		}
	}
	for _, p := range h.plans {
		if f.redis.wasLost(p.from) {
			n++
		}
	}
	return n
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// checkTarget compares a row's result with the state of its target. It returns when the row
// had its last effect, and when it could have it.
func (f *fleet) checkTarget(r *fleetRun, result ledger.Result, target string,
	bad func(string, ...any)) (changed, from time.Time) {
	tn := r.tenant
	expect := func(is bool, changes []sent) {
		for _, c := range changes {
			changed = latest(changed, c.at)
		}
		switch o := result.Outcome; {
		case o == ledger.Done && !is, o == ledger.Unchanged && !is:
			bad("its target is not as the row asks for")
		case o == ledger.Expired && is:
			bad("its target is as the row asks for")
		case o == ledger.Failed && is && !strings.Contains(result.Detail, "may have had its effect"):
			bad("its target is as the row asks for, of which the result says nothing")
		case o != ledger.Done && o != ledger.Unchanged && o != ledger.Expired && o != ledger.Cancelled && o != ledger.Failed:
			bad("nothing was wrong with it")
		}
	}
	switch r.kind {
	case handlers.Verify:
		d := tn.domains[target]
		expect(d.verified, d.changes)
		if o := result.Outcome; o == ledger.Expired && d.looked.IsZero() {
			bad("no check has found its token absent")
		} else if o == ledger.Done && f.events[events.DomainVerified+" "+string(r.id)+" "+d.id] == 0 {
			bad("that the domain is verified was not notified")
		}
		return changed, d.appears
	case handlers.Update:
		d := tn.domains[target]
		expect(!d.flag, d.changes)
	case handlers.Remove:
		c := tn.clients[target]
		expect(len(c.removed) > 0, c.removed)
	case handlers.Create:
		var created []sent
		late := false
		for _, t := range tn.byName[target] {
			created = append(created, t.created)
			late = late || t.created.late()
		}
		expect(len(created) > 0, created)
		if len(created) > 1 && !late {
			bad("it was created %d times: %v", len(created), created)
		}
	case handlers.Recheck:
		if d := tn.domains[target]; !d.verified || len(d.changes) > 0 {
			bad("a sweep that only reports has changed its domain")
		}
		states := sweep.States{Tenant: string(tn.name), Store: sweep.NewStore(f.outside, string(tn.name))}
		if m, _, err := states.Read(f.t.Context(), target); err != nil || m.Sweeps != 1 || m.Tick != f.start.Unix() {
			bad("%d sweeps are stored of its domain, the last at %v, %v; want this one", m.Sweeps, m.Tick, err)
		}
	}
	return changed, from
}

// checkVerified compares a PATCH that sets a domain to verified with the proofs of its
// token.
func (f *fleet) checkVerified(tn *fleetTenant, d *fleetDomain, s sent) {
	if d.proven.IsZero() || d.proven.After(s.at) || s.permit.Sub(d.proven) > time.Minute {
		f.problem("tenant %s: domain %s was verified at %v, with a permit of %v; its last proof was at %v", tn.name, d.id,
			s.at, s.permit, d.proven)
	}
}

// checkTenant reports changes that no row requested.
func (f *fleet) checkTenant(tn *fleetTenant) {
	asked := map[string]bool{}
	for _, r := range f.runs {
		if r.tenant == tn {
			for target := range r.targets {
				asked[target] = true
			}
		}
	}
	for _, c := range tn.clients {
		if !c.asked && len(c.removed) > 0 {
			f.problem("tenant %s: client %s was removed, for which nobody asked", tn.name, c.id)
		}
	}
	for name := range tn.byName {
		if !asked[name] {
			f.problem("tenant %s: template %q was created, for which nobody asked", tn.name, name)
		}
	}
}

// checkRate finds requests beyond the tenant's rate. In any interval, no more requests may get
// permits than the rate and the burst allow, apart from permits that Redis has lost, a step of
// its clock ahead, and a part of the rate while its answers are lost.
func (f *fleet) checkRate(tn *fleetTenant) {
	rate, burst := tn.limit.Effective()
	all := slices.SortedFunc(slices.Values(tn.log), func(a, b sent) int { return a.permit.Compare(b.permit) })
	type pardon struct {
		at      time.Time
		permits float64
	}
	var pardons []pardon
	for _, lost := range f.redis.lost {
		n := 0
		for _, s := range all {
			if !s.permit.Before(lost.from) && !s.permit.After(lost.to) {
				n++
			}
		}
		pardons = append(pardons, pardon{lost.to, float64(n)})
	}
	for _, s := range f.redis.steps {
		if s.by > 0 {
			pardons = append(pardons, pardon{s.at, s.by.Seconds() * rate.PerSecond()})
		}
	}
	for _, flawed := range f.redis.flawed {
		pardons = append(pardons, pardon{
			flawed.from, (flawed.to.Sub(flawed.from) + time.Second).Seconds() * rate.PerSecond(),
		})
	}
	slices.SortFunc(pardons, func(a, b pardon) int { return a.at.Compare(b.at) })
	level, at, most := 0.0, f.start, 0.0
	var when time.Time
	for _, s := range all {
		for len(pardons) > 0 && !pardons[0].at.After(s.permit) {
			level, pardons = max(0, level-pardons[0].permits), pardons[1:]
		}
		level = max(0, level-s.permit.Sub(at).Seconds()*rate.PerSecond()) + 1
		if at = s.permit; level > most {
			most, when = level, at
		}
	}
	const rounding = .01
	if most > float64(burst)+rounding {
		f.problem("tenant %s: at %v, %.2f more requests had got a permit than %s gives, and the burst is %d", tn.name,
			when, most, rate, burst)
	}
}
