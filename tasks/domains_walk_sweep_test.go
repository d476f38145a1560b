package tasks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"orgops/apiclient"
	"orgops/internal/runs"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// sweep begins run0, a sweep. Its rows and its judging are left alone.
func (w *world) sweep(o tasks.SweepOrder) {
	w.t.Helper()
	w.queue.spare = []string{tasks.TypeRecheck, tasks.TypeJudge}
	told, err := tasks.NewSwept(o)
	if err != nil {
		w.t.Fatal(err)
	}
	r, _, err := w.ledger.Create(w.t.Context(), runs.Run{
		ID: "run0", Kind: tasks.TypeRecheck, Tenant: "default", CreatedAt: w.clock.now(), Format: "jsonl", Walk: &runs.Walk{Told: told},
	})
	if err == nil {
		err = tasks.NewProducer(w.enqueuer, w.ledger).Walk(w.t.Context(), tasks.Run{ID: r.ID, Kind: r.Kind, Tenant: r.Tenant, CreatedAt: r.CreatedAt, Generation: r.Generation}, 0)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// remember keeps something of the domain.
func (w *world) remember(domain string) {
	w.t.Helper()
	if _, err := w.memories.Remember(w.t.Context(), domain, nil, []byte(`{"v":1}`), false, 1); err != nil {
		w.t.Fatal(err)
	}
}

// rechecks are the payloads of the looks that stand, by domain.
func (w *world) rechecks() map[string]tasks.RecheckPayload {
	w.t.Helper()
	all := map[string]tasks.RecheckPayload{}
	for _, q := range w.queue.byType(tasks.TypeRecheck) {
		var p tasks.RecheckPayload
		if err := json.Unmarshal(q.payload, &p); err != nil {
			w.t.Fatal(err)
		}
		if kept := q.options[asynq.RetentionOpt]; q.queue != tasks.RecheckQueue("default") || kept != time.Minute {
			w.t.Errorf("%s is in queue %s, and kept for %v", q.id, q.queue, kept)
		}
		all[p.DiscoveryDomainID] = p
	}
	return all
}

// sweeping is a sweep whose walk finds four domains, one of which cannot be looked for.
func sweeping() scenario {
	tick := newWorldTime.Unix()
	return scenario{
		name: "sweep",
		begin: func(w *world) {
			w.remember("ord_4")
			for _, d := range []sandbox.Domain{
				{ID: "ord_1", Status: "verified"}, {ID: "ord_2", Status: "pending"},
				{ID: "ord_3", Status: "verified", Host: "_x.elsewhere.net"}, {ID: "ord_4", Status: "pending"}, {ID: "ord_5", Status: "verified"},
			} {
				w.sandbox.AddDomain("org_"+strings.TrimPrefix(d.ID, "ord_"), d)
			}
			w.slowDown()
			w.sweep(tasks.SweepOrder{Tick: tick})
		},
		end: func(w *world) {
			r, err := w.ledger.Get(w.t.Context(), "run0")
			if err != nil || !r.Sealed || r.Total != 4 || r.Settled != 1 {
				w.t.Errorf("sealed %v, %d rows, %d settled, %v; want 4, of which the one that cannot be looked for is settled", r.Sealed, r.Total, r.Settled, err)
			}
			w.wantFound([]string{"org_1/ord_1", "org_3/ord_3", "org_4/ord_4", "org_5/ord_5"})
			w.wantFate("run0", int64(slices.Index(w.found(), "org_3/ord_3")), "refused", "not below its domain")
			if got, want := w.walked(), (tasks.Walked{Tick: tick, Read: 5, Ended: true}); got != want {
				w.t.Errorf("told is %+v, want %+v", got, want)
			}
			if found, err := w.intake().Lost(w.t.Context(), r); err != nil || found.Open != 3 || found.Lost != 0 {
				w.t.Errorf("%+v, %v; want a look for each of three open rows", found, err)
			}
			w.wantJudged("run0", tick)
		},
		safe: func(*world) {},
		told: func(w *world, _ bool) {
			for i, row := range w.found() {
				outcome, detail := w.fate("run0", int64(i))
				if outcome != "cancelled" && (row != "org_3/ord_3" || outcome != "refused") {
					w.t.Errorf("row %d, %s, is %s (%s)", i, row, outcome, detail)
				}
			}
		},
	}
}

// wantJudged holds that a task stands which judges the sweep.
func (w *world) wantJudged(run string, tick int64) {
	w.t.Helper()
	judged := 0
	for _, q := range w.queue.byType(tasks.TypeJudge) {
		var p tasks.JudgePayload
		if err := json.Unmarshal(q.payload, &p); err != nil {
			w.t.Fatal(err)
		}
		if q.state == "" && p.Run == run && p.Tick == tick && q.queue == tasks.SweepQueue("default") {
			judged++
		}
	}
	if judged != 1 {
		w.t.Errorf("%d tasks stand that judge the sweep, want one", judged)
	}
}

func TestSweep(t *testing.T) {
	s := sweeping()
	w := s.world(t)
	w.drain()
	s.end(w)
	if got := len(w.requests(sandbox.OpListOrganizations, sandbox.OpListDiscoveryDomains)); got != 1+5 || got != len(w.requests()) {
		t.Errorf("%d requests, %d of them for pages; want one page of organizations and one for each", len(w.requests()), got)
	}
	looks := w.rechecks()
	if len(looks) != 3 {
		t.Errorf("%d looks, want 3", len(looks))
	}
	for id, p := range looks {
		d := w.domain(p.OrganizationID, id)
		if p.Domain != d.Domain || p.VerificationHost != d.Host || p.VerificationTXT != d.TXT || string(p.Status) != d.Status || p.Tick != newWorldTime.Unix() {
			t.Errorf("look %+v of domain %+v", p, d)
		}
		if err := p.Validate(); err != nil {
			t.Error(err)
		}
	}
	before := len(w.requests())
	w.deliverAgain()
	s.end(w)
	if again := len(w.requests()) - before; again != 0 {
		t.Errorf("run again, the tasks made %d requests", again)
	}
}

// TestSweepSpreadsItsLooks evenly over the time that it has, each domain at the same
// part of it in every sweep.
func TestSweepSpreadsItsLooks(t *testing.T) {
	const domains, hours = 240, 8
	parts := map[int64]map[string]int64{}
	sweepAt := func(t *testing.T, tick int64) {
		w := newWorld(t)
		for i := range domains {
			w.sandbox.AddDomain(fmt.Sprintf("org_%d", i%8), sandbox.Domain{ID: fmt.Sprintf("ord_%d", i), Domain: fmt.Sprintf("d%d.example.org", i), Status: "verified"})
		}
		w.clock.advance(time.Unix(tick, 0).Sub(w.clock.now()))
		w.sweep(tasks.SweepOrder{Tick: tick, SpreadUntil: tick + hours*3600})
		w.drain()
		looks := w.queue.byType(tasks.TypeRecheck)
		if len(looks) != domains {
			t.Fatalf("%d looks", len(looks))
		}
		parts[tick] = map[string]int64{}
		var inHour [hours]int
		for _, q := range looks {
			var p tasks.RecheckPayload
			if err := json.Unmarshal(q.payload, &p); err != nil {
				t.Fatal(err)
			}
			part := q.at.Unix() - tick
			if part < 0 || part > hours*3600 {
				t.Fatalf("%s is due at %s", q.id, q.at)
			}
			parts[tick][p.DiscoveryDomainID] = part
			inHour[min(part/3600, hours-1)]++
		}
		for hour, n := range inHour {
			if n < domains/hours/2 || n > domains/hours*2 {
				t.Errorf("%d looks in hour %d, want about %d: %v", n, hour, domains/hours, inHour)
			}
		}
	}
	for _, tick := range []int64{newWorldTime.Unix(), newWorldTime.Unix() + 86400} {
		t.Run(fmt.Sprint(tick), func(t *testing.T) { sweepAt(t, tick) })
	}
	first, second := parts[newWorldTime.Unix()], parts[newWorldTime.Unix()+86400]
	for id, part := range first {
		if diff := second[id] - part; diff < -1 || diff > 1 { // whole seconds, rounded up
			t.Errorf("domain %s is looked at %d s after one tick and %d s after the next", id, part, second[id])
		}
	}
}

// TestSweepThatIsLate has what is past done at once, and a repair keeps the times of
// the rest.
func TestSweepThatIsLate(t *testing.T) {
	w := newWorld(t)
	for i := range 40 {
		w.sandbox.AddDomain("org_1", sandbox.Domain{ID: fmt.Sprintf("ord_%d", i), Domain: fmt.Sprintf("d%d.example.org", i), Status: "verified"})
	}
	w.clock.advance(time.Since(w.clock.now())) // a repair has no other clock
	now := w.clock.now()
	w.sweep(tasks.SweepOrder{Tick: now.Add(-time.Hour).Unix(), SpreadUntil: now.Add(time.Hour).Unix()})
	w.drain()
	due := func() (all map[string]int64, atOnce int) {
		all = map[string]int64{}
		for _, q := range w.queue.byType(tasks.TypeRecheck) {
			id, _, _ := strings.Cut(strings.TrimPrefix(q.id, "run0-"), "-")
			all[id] = q.at.Unix()
			if !q.at.After(now) {
				atOnce++
			}
		}
		return all, atOnce
	}
	before, atOnce := due()
	if atOnce < 10 || atOnce > 30 {
		t.Errorf("%d of %d looks are due at once, want about a half", atOnce, len(before))
	}
	w.queue.lose()
	if lost := w.repair(); lost != 40 {
		t.Errorf("%d rows were lost, want all 40", lost)
	}
	if after, _ := due(); !maps.EqualFunc(before, after, func(a, b int64) bool { return a-b <= 120 && b-a <= 120 }) {
		t.Errorf("due after the repair %v, before %v", after, before)
	}
	w.wantJudged("run0", now.Add(-time.Hour).Unix())
}

// TestSweepOfPending: where it is to prove them, each pending domain is a row.
func TestSweepOfPending(t *testing.T) {
	sweep := func(t *testing.T, proves bool) {
		w := newWorld(t)
		w.remember("ord_3")
		for id, status := range map[string]string{"ord_1": "verified", "ord_2": "pending", "ord_3": "pending"} {
			w.sandbox.AddDomain("org_1", sandbox.Domain{ID: id, Status: status, Domain: id[4:] + ".example.org"})
		}
		w.sandbox.AddDomain("org_2", sandbox.Domain{ID: "ord_4", Status: "verified"})
		w.sweep(tasks.SweepOrder{Organization: "org_1", Tick: 1, Pending: proves})
		w.drain()
		want := []string{"org_1/ord_1", "org_1/ord_3"}
		if proves {
			want = append(want, "org_1/ord_2")
		}
		w.wantFound(want)
		for id, p := range w.rechecks() {
			if p.Prove != (proves && p.Status == "pending") {
				t.Errorf("look at %s proves: %v", id, p.Prove)
			}
		}
	}
	for _, proves := range []bool{false, true} {
		t.Run(fmt.Sprint(proves), func(t *testing.T) { sweep(t, proves) })
	}
}

// TestSweepOfWhatCannotBeLookedFor tells each such record in a row of its own.
func TestSweepOfWhatCannotBeLookedFor(t *testing.T) {
	for name, tt := range map[string]struct {
		record apiclient.DiscoveryDomain
		why    string
	}{
		"public suffix":  {apiclient.DiscoveryDomain{ID: "ord_1", Domain: "co.uk", VerificationHost: "_x.co.uk", VerificationTXT: "t"}, "cannot be proven"},
		"host elsewhere": {apiclient.DiscoveryDomain{ID: "ord_1", Domain: "example.org", VerificationHost: "_x.example.net", VerificationTXT: "t"}, "not below"},
		"no host":        {apiclient.DiscoveryDomain{ID: "ord_1", Domain: "example.org", VerificationTXT: "t"}, "host"},
		"no token":       {apiclient.DiscoveryDomain{ID: "ord_1", Domain: "example.org", VerificationHost: "_x.example.org"}, "verification_txt"},
		"long token":     {apiclient.DiscoveryDomain{ID: "ord_1", Domain: "example.org", VerificationHost: "_x.example.org", VerificationTXT: strings.Repeat("t", 5000)}, "verification_txt"},
		"odd id":         {apiclient.DiscoveryDomain{ID: "../x", Domain: "example.org", VerificationHost: "_x.example.org", VerificationTXT: "t"}, "discovery_domain_id"},
		"long all":       {apiclient.DiscoveryDomain{ID: strings.Repeat("i", 1<<20), Domain: strings.Repeat("d", 1<<20), VerificationHost: strings.Repeat("h", 1<<20), VerificationTXT: strings.Repeat("t", 1<<20)}, "domain"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tt.record.Status = apiclient.StatusVerified
			w.reboot(func(c *tasks.Config) { c.API = onePage{c.API, tt.record} })
			w.sweep(tasks.SweepOrder{Organization: "org_1", Tick: 1})
			w.drain()
			w.wantFate("run0", 0, "refused", tt.why)
			w.wantEnded("run0")
			w.wantJudged("run0", 1)
			source, err := w.ledger.Rows(t.Context(), "run0", 0, 1)
			if err != nil || len(source[0]) > 4096 || !strings.Contains(string(source[0]), `"organization_id":"org_1"`) {
				t.Errorf("row %.300s, %v", source, err)
			}
		})
	}
}

// onePage is an organization with one record.
type onePage struct {
	tasks.API
	record apiclient.DiscoveryDomain
}

func (o onePage) DiscoveryDomainsPage(context.Context, string, string) ([]apiclient.Listed[apiclient.DiscoveryDomain], string, error) {
	return []apiclient.Listed[apiclient.DiscoveryDomain]{{Record: o.record}}, "", nil
}

func TestNewSwept(t *testing.T) {
	for name, o := range map[string]tasks.SweepOrder{
		"no tick": {}, "negative tick": {Tick: -1}, "spread backwards": {Tick: 10, SpreadUntil: 9},
	} {
		if _, err := tasks.NewSwept(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
