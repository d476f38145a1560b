package simulation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"orgops/apiclient/schema"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/scan/progress"
	"orgops/producer"
	"orgops/tasks"
	"orgops/tasks/handlers"
)

// fleetRun is a run of a tenant.
type fleetRun struct {
	id     ledger.RunID
	tenant *fleetTenant
	kind   ledger.Kind
	rows   [][]byte
	// targets are the ids of the records that the rows change, each once.
	targets map[string]bool
	single  bool
	from    time.Time // when it was first committed
	// cancelled is the time at which a cancel of the run returned; zero: it was not cancelled.
	cancelled time.Time
	outcomes  map[ledger.Outcome]int
	paused    span
	longest   rowWait // of its rows
}

// fleetRow is a row of a run.
type fleetRow struct {
	run     ledger.RunID
	segment int
	row     ledger.Row
}

const (
	// fleetGiveUp is how long a row waits for its token, and latestToken how late it appears.
	fleetGiveUp = 6 * time.Minute
	latestToken = 3 * time.Minute
)

func (f *fleet) newRun(tn *fleetTenant, name string, kind ledger.Kind) *fleetRun {
	r := &fleetRun{id: ledger.RunID(string(tn.name) + "-" + name), tenant: tn, kind: kind, targets: map[string]bool{},
		outcomes: map[ledger.Outcome]int{}}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runs[r.id] = r
	return r
}

// add adds a row about a target.
func (r *fleetRun) add(target string, row any) {
	text, err := json.Marshal(row)
	if err != nil {
		panic(err)
	}
	r.rows, r.targets[target] = append(r.rows, text), true
}

// addRow adds a row of the run's kind, and the record that it changes.
func (f *fleet) addRow(r *fleetRun, org string) {
	tn := r.tenant
	switch r.kind {
	case handlers.Verify:
		d := tn.domain(org, f.appears())
		r.add(d.id, tasks.VerifyRow{OrganizationID: org, DiscoveryDomainID: d.id})
	case handlers.Update:
		d := tn.domain(org, f.start)
		r.add(d.id, tasks.UpdateRow{OrganizationID: org, DiscoveryDomainID: d.id, UseForOrganizationDiscovery: new(false)})
	case handlers.Remove:
		c := tn.client(org, true)
		tn.client(org, false)
		r.add(c.id, tasks.RemoveRow{OrganizationID: org, ClientID: c.id})
	case handlers.Create:
		name := fmt.Sprintf("%s %d", r.id, len(r.rows))
		r.add(name, schema.TemplateRequest{
			Name: name, Type: "mdl", Dialect: "simplified/1.0", WellKnownTrustedIssuers: "aamva",
			Presentation: schema.Presentation{Claims: map[string]bool{"given_name": true}},
		})
	}
}

// appears returns when a token is there: mostly before the row, else later, at times never.
func (f *fleet) appears() time.Time {
	switch x := f.roll(); {
	case x < .7:
		return f.start
	case x < .95:
		return f.start.Add(f.upTo(latestToken))
	}
	return f.start.Add(longestFleet)
}

// produce submits the rows of a tenant, as its producers do.
func (f *fleet) produce(all *sync.WaitGroup, tn *fleetTenant, n int) {
	rows := f.rows / len(f.tenants)
	org := func(i int) string { return fmt.Sprintf("org_%s_%d", tn.name, i/20) }
	for _, one := range []struct {
		name  string
		kind  ledger.Kind
		share float64
		ends  string // the operator's command for the run
	}{
		{"verify-a", handlers.Verify, .25, ""}, {"verify-b", handlers.Verify, .1, "pause"},
		{"verify-c", handlers.Verify, .05, "cancel"},
		{"update-a", handlers.Update, .15, "pause"}, {"update-b", handlers.Update, .1, "cancel"},
		{"remove-a", handlers.Remove, .15, ""}, {"remove-b", handlers.Remove, .05, "cancel"},
		{"create-a", handlers.Create, .03, ""}, {"create-b", handlers.Create, .02, "cancel"},
	} {
		r := f.newRun(tn, one.name, one.kind)
		for i := range max(int(one.share*float64(rows)), 1) {
			f.addRow(r, org(i))
		}
		ends := one.ends
		if ends == "cancel" && n%2 == 1 {
			ends = ""
		}
		all.Go(func() {
			f.sleep(f.upTo(time.Minute))
			f.submit(r)
			f.control(r, ends)
		})
	}
	var singles []*fleetRun
	for i := range max(rows/20, 4) {
		kind := []ledger.Kind{handlers.Verify, handlers.Update, handlers.Remove, handlers.Create,
			handlers.Remove, handlers.Remove}[i%6]
		r := f.newRun(tn, fmt.Sprintf("single-%d", i), kind)
		r.single = true
		f.addRow(r, org(i/3))
		singles = append(singles, r)
	}
	all.Go(func() { f.submitSingles(singles) })
	f.pending(all, tn, max(rows/20, 2))
	if n < 2 {
		f.sweep(all, tn, max(rows/20, 2))
	}
}

// pending has a scan find the pending domains of an organization, which are then verified.
func (f *fleet) pending(all *sync.WaitGroup, tn *fleetTenant, domains int) {
	org, r := "org_"+string(tn.name)+"_pending", f.newRun(tn, "pending", handlers.Verify)
	for range domains {
		r.targets[tn.domain(org, f.appears()).id] = true
	}
	all.Go(func() {
		f.sleep(f.upTo(time.Minute))
		f.must(func(ctx context.Context) error {
			_, _, err := f.intake().BeginPending(ctx, org, ledger.NewRun{ID: r.id, Tenant: tn.name,
				Description: ledger.Description{GiveUp: fleetGiveUp}})
			return err
		})
		r.from = now()
	})
}

// sweep checks the verified domains of an organization, of which some have lost their tokens.
func (f *fleet) sweep(all *sync.WaitGroup, tn *fleetTenant, domains int) {
	org, r := "org_"+string(tn.name)+"_swept", f.newRun(tn, "sweep", handlers.Recheck)
	for i := range domains {
		appears := f.start
		if i%20 == 0 {
			appears = f.start.Add(longestFleet)
		}
		d := tn.domain(org, appears)
		d.verified = true
		r.targets[d.id] = true
	}
	all.Go(func() {
		f.must(func(ctx context.Context) error {
			_, _, err := f.intake().BeginSweep(ctx, ledger.NewRun{ID: r.id, Tenant: tn.name},
				progress.Scan{Organization: org, Tick: f.start.Unix()})
			return err
		})
		r.from = now()
	})
}

func (f *fleet) intake() intake.Intake { return intake.New(f.outside, ledger.New(f.outside)) }

// must repeats a call that may fail because of Redis' faults.
func (f *fleet) must(do func(context.Context) error) {
	var err error
	for range 20 {
		if err = do(f.t.Context()); err == nil {
			return
		}
		time.Sleep(time.Second)
	}
	f.problem("a producer failed: %v", err)
}

// loses is how long after a write Redis has surely not lost it.
const loses = 2100 * time.Millisecond

// submit stages and commits a run, and stores lost parts of it again.
func (f *fleet) submit(r *fleetRun) {
	f.must(func(ctx context.Context) error {
		run, _, err := f.ledger.Create(ctx, ledger.NewRun{ID: r.id, Tenant: r.tenant.name, Kind: r.kind,
			Description: ledger.Description{Format: "jsonl", GiveUp: fleetGiveUp}})
		if err != nil {
			return err
		}
		stager, err := f.ledger.NewStager(ctx, run)
		if err != nil {
			return err
		}
		if r.kind == handlers.Remove {
			stager.Group(tasks.OrganizationOf)
		}
		for _, row := range r.rows {
			if err := stager.Add(ctx, row); err != nil {
				return err
			}
		}
		if _, err := stager.Commit(ctx); err != nil {
			return err
		}
		if r.from.IsZero() {
			r.from = now()
		}
		time.Sleep(loses)
		return stager.Verify(ctx)
	})
}

// submitSingles submits single rows, as a Go service does, over two minutes.
func (f *fleet) submitSingles(all []*fleetRun) {
	p := producer.New(f.outside)
	submit := func(r *fleetRun) {
		f.must(func(ctx context.Context) error {
			_, err := p.Submit(ctx, producer.Row{ID: string(r.id), Tenant: string(r.tenant.name), Kind: string(r.kind),
				Row: r.rows[0], GiveUp: fleetGiveUp})
			return err
		})
	}
	var again sync.WaitGroup
	defer again.Wait()
	for _, r := range all {
		time.Sleep(f.upTo(4 * time.Minute / time.Duration(len(all))))
		at := now()
		submit(r)
		r.from = now()
		again.Go(func() {
			for lost := true; lost; {
				time.Sleep(loses)
				lost = f.redis.wasLost(at)
				at = now()
				submit(r)
			}
		})
	}
}

// control applies an operator's command to a run.
func (f *fleet) control(r *fleetRun, what string) {
	control := func(do func(context.Context, ledger.Tenant, ledger.RunID) error) {
		f.must(func(ctx context.Context) error {
			if err := do(ctx, r.tenant.name, r.id); !errors.Is(err, ledger.ErrEnded) {
				return err
			}
			return nil
		})
	}
	if what == "" {
		return
	}
	time.Sleep(f.upTo(time.Minute))
	switch what {
	case "pause":
		r.paused.from = now()
		control(f.ledger.Pause)
		time.Sleep(f.upTo(time.Minute))
		control(f.ledger.Resume)
		time.Sleep(loses)
		control(f.ledger.Resume)
		r.paused.to = now()
	case "cancel":
		for range 10 { // until Redis has not lost it
			control(f.ledger.Cancel)
			r.cancelled = now()
			time.Sleep(loses)
			run, err := f.ledger.Get(f.t.Context(), "", r.id)
			if err != nil || run.Cancelled {
				return
			}
			r.cancelled = time.Time{}
			if run.Ended() {
				return
			}
		}
	}
}
