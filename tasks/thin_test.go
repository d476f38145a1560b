package tasks_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"orgops/dnscheck"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// What a proof can come to of which one of two name servers is silent.
var (
	isThin = func(v *dnscheck.Verdict) { v.Thin = true }

	serverDenies = func(v *dnscheck.Verdict) {
		v.Reason, v.Observations[1].State, v.Observations[1].Reason = dnscheck.ReasonServersDisagree, dnscheck.Absent, dnscheck.ReasonNoName
	}
	resolverDenies = func(v *dnscheck.Verdict) {
		v.Observations[4].State, v.Observations[4].Reason = dnscheck.Absent, dnscheck.ReasonNoRecord
	}
	resolverIsSilent = func(v *dnscheck.Verdict) {
		v.Observations[4].State, v.Observations[4].Reason = dnscheck.Unknown, dnscheck.ReasonTimeout
	}
)

// thinVerdict is a proof that lacks one of two name servers.
func thinVerdict(host string, change func(*dnscheck.Verdict)) dnscheck.Verdict {
	v := dnscheck.Verdict{
		Reason: dnscheck.ReasonTooFew, Host: host, Basis: dnscheck.ByBoth, Zone: "example.com", Servers: 2, Answered: 1, Quorum: 2, Resolvers: 3,
		Observations: []dnscheck.Observation{
			{Resolver: "ns1.example.com", Authority: true, Address: "192.0.2.1:53", Transport: "udp", State: dnscheck.Present, Reason: dnscheck.ReasonFound, RCode: "NOERROR"},
			{Resolver: "ns2.example.com", Authority: true, Address: "192.0.2.2:53", Transport: "tcp", Reason: dnscheck.ReasonTimeout, Err: "no answer within 1s"},
		},
	}
	for i := range 3 {
		v.Observations = append(v.Observations, dnscheck.Observation{Resolver: fmt.Sprintf("tls://192.0.2.%d:853", i+53), Transport: "tls", State: dnscheck.Present, Reason: dnscheck.ReasonFound, RCode: "NOERROR"})
	}
	change(&v)
	return v
}

// thinWorld is a world with one row, whose looks the sandbox answers and whose proofs come
// to what proof says, by their number.
type thinWorld struct {
	*world

	run    string
	record sandbox.Domain
	proof  func(n int) func(*dnscheck.Verdict)
	proofs []time.Time
}

func newThinWorld(t *testing.T, after time.Duration, proof func(n int) func(*dnscheck.Verdict)) *thinWorld {
	w := &thinWorld{world: newWorld(t), proof: proof}
	w.record = w.proven(sandbox.Domain{})
	w.reboot(func(c *tasks.Config) {
		c.ThinProofAfter = after
		c.DNS = dnsFunc{DNS: c.DNS, prove: func(_ context.Context, host, _ string) (dnscheck.Verdict, error) {
			w.proofs = append(w.proofs, w.clock.now())
			return thinVerdict(host, w.proof(len(w.proofs)-1)), nil
		}}
	})
	w.run = w.submit(tasks.TypeVerify, verifyRow())
	return w
}

func always(change func(*dnscheck.Verdict)) func(int) func(*dnscheck.Verdict) {
	return func(int) func(*dnscheck.Verdict) { return change }
}

// until makes steps up to that time; it stops at the end of the row.
func (w *thinWorld) until(at time.Time) {
	w.t.Helper()
	for next := w.queue.next(); next != nil && !next.at.After(at); next = w.queue.next() {
		w.step()
	}
}

// wantAccepted wants the row to be done by what was thin since then, and not before its time.
func (w *thinWorld) wantAccepted(since time.Time, after time.Duration) {
	w.t.Helper()
	w.until(since.Add(after - time.Second))
	w.wantFate(w.run, 0, "open")
	if n := len(w.writes()); n != 0 {
		w.t.Fatalf("%d PATCHes by %s, want none before %s", n, w.clock.now(), since.Add(after))
	}
	w.until(since.Add(after + 10*time.Minute))
	w.wantFate(w.run, 0, "done")
	w.wantStatus(org, dom, "verified")
}

// TestThinProofIsAccepted after its time, with a worker that is started again before each
// step, and its evidence says so.
func TestThinProofIsAccepted(t *testing.T) {
	for _, after := range []time.Duration{time.Hour, 24 * time.Hour, 96 * time.Hour} {
		t.Run(after.String(), func(t *testing.T) {
			w := newThinWorld(t, after, always(isThin))
			w.step()
			w.step()
			since := w.clock.now()
			w.wantFate(w.run, 0, "open", "Only 1 of the 2 name servers of example.com answered for the TXT record at "+w.record.Host+
				"; it has the expected value, and so have all resolvers: accepted if that is still so at "+since.Add(after).Format("2006-01-02 15:04")+" UTC.")
			w.reboot()
			w.wantAccepted(since, after)
			if len(w.proofs) < 5 {
				t.Errorf("%d checks, want at least five", len(w.proofs))
			}
			e := w.proofOf(w.run)
			want := tasks.ThinProof{Since: since, Checks: len(w.proofs)}
			if e.ThinProof == nil || *e.ThinProof != want || e.State != "unknown" || e.Reason != "too_few_name_servers" || e.Compared == nil || len(e.Said) != 5 {
				t.Errorf("evidence %+v, want %+v", e, want)
			}
			audit := fmt.Sprintf(`"msg":"audit","thin_since":%q,"thin_checks":%d,"event":"domain verified"`, since.Format(time.RFC3339), len(w.proofs))
			if !strings.Contains(w.log.String(), audit) {
				t.Errorf("no line of the log has %s", audit)
			}
		})
	}
}

// TestThinProofIsOff unless it is set.
func TestThinProofIsOff(t *testing.T) {
	w := newThinWorld(t, 0, always(isThin))
	w.until(w.clock.now().Add(100 * time.Hour))
	w.wantFate(w.run, 0, "expired", "so have all resolvers.")
	if n := len(w.writes()); n != 0 || len(w.mark(w.run, 0, "thin")) != 0 {
		t.Errorf("%d PATCHes, want none, and nothing kept", n)
	}
}

// thinDNS is the sandbox's, with proofs that are all thin.
type thinDNS struct{ tasks.DNS }

func (thinDNS) Prove(_ context.Context, host, _ string) (dnscheck.Verdict, error) {
	return thinVerdict(host, isThin), nil
}

// TestSweepsTakeNoThinProof: what a sweep has taken away is given back by a full proof alone.
func TestSweepsTakeNoThinProof(t *testing.T) {
	for action, patch := range map[tasks.Action]string{tasks.ActPending: patchPendingNot, tasks.ActUnroute: patchNoUse} {
		t.Run(string(action), func(t *testing.T) {
			w := newWorld(t, actingBy(action))
			w.verified(new(action == tasks.ActUnroute))
			w.days(8)
			w.reboot(func(c *tasks.Config) { c.Enqueuer, c.DNS, c.ThinProofAfter = w.queue, thinDNS{c.DNS}, time.Hour })
			w.sweepRows() // which does not find the token yet
			for w.queue.next().typ != tasks.TypeRelook {
				w.step()
			}
			w.back()
			for end := w.clock.now().Add(6 * time.Hour); w.queue.next() != nil && w.clock.now().Before(end); {
				w.step()
			}
			w.wantPatches(patch)
		})
	}
}

// TestThinProofThatIsContested begins anew, wherever in between an answer spoke against it.
func TestThinProofThatIsContested(t *testing.T) {
	const after = time.Hour
	for name, contested := range map[string]func(*dnscheck.Verdict){"by a name server": serverDenies, "by a resolver": resolverDenies} {
		for k := range 9 {
			t.Run(fmt.Sprintf("%s, at proof %d", name, k), func(t *testing.T) {
				w := newThinWorld(t, after, func(n int) func(*dnscheck.Verdict) {
					if n == k {
						return contested
					}
					return isThin
				})
				for len(w.proofs) < k+2 {
					w.step()
				}
				w.wantAccepted(w.proofs[k+1], after)
			})
		}
	}
	for k := range 9 {
		t.Run(fmt.Sprintf("at look %d", k), func(t *testing.T) {
			w := newThinWorld(t, after, always(isThin))
			for len(w.proofs) < k {
				w.step()
			}
			w.sandbox.SetTXT(w.record.Host, "gone")
			w.step()
			w.wantFate(w.run, 0, "open", `"gone"`)
			w.sandbox.SetTXT(w.record.Host, w.record.TXT)
			for len(w.proofs) < k+1 {
				w.step()
			}
			w.wantAccepted(w.proofs[k], after)
		})
	}
}

// TestThinProofThatNobodyAnswers: such checks do not count, and break it off where there is
// nothing else for a quarter of the time.
func TestThinProofThatNobodyAnswers(t *testing.T) {
	const after = 24 * time.Hour
	for name, test := range map[string]struct {
		silent time.Duration
		anew   bool
	}{"for hours": {4 * time.Hour, false}, "for long": {7 * time.Hour, true}} {
		t.Run(name, func(t *testing.T) {
			var begins, ends time.Time
			var w *thinWorld
			w = newThinWorld(t, after, func(int) func(*dnscheck.Verdict) {
				if now := w.clock.now(); now.After(begins) && now.Before(ends) {
					return resolverIsSilent
				}
				return isThin
			})
			begins, ends = w.start().Add(10*time.Hour), w.start().Add(10*time.Hour+test.silent)
			since := w.start()
			w.until(begins)
			if test.anew {
				w.until(ends)
				for n := len(w.proofs); len(w.proofs) == n; {
					w.step()
				}
				since = w.proofs[len(w.proofs)-1]
			}
			w.wantAccepted(since, after)
			silent := len(slices.DeleteFunc(slices.Clone(w.proofs), func(at time.Time) bool { return !at.After(begins) || !at.Before(ends) }))
			counted := len(slices.DeleteFunc(slices.Clone(w.proofs), func(at time.Time) bool { return at.Before(since) })) - silent
			if e := w.proofOf(w.run); !test.anew && (silent == 0 || e.ThinProof.Checks != counted) {
				t.Errorf("%d checks, want %d without the %d that were not answered", e.ThinProof.Checks, counted, silent)
			}
		})
	}
	t.Run("to a look", func(t *testing.T) {
		w := newThinWorld(t, after, always(isThin))
		w.until(w.start().Add(10 * time.Hour))
		w.sandbox.SetRCode(w.record.Host, 2, -1)
		w.step()
		w.wantFate(w.run, 0, "open", "SERVFAIL")
		w.sandbox.SetRCode(w.record.Host, 2, 0)
		w.wantAccepted(w.proofs[0], after)
	})
}

// TestThinSpan puts a span before the proof that is to end it.
func TestThinSpan(t *testing.T) {
	const after = 24 * time.Hour
	type span struct {
		Compared    string `json:"compared"`
		Since, Last time.Time
		Checks      int
	}
	tests := []struct {
		name        string
		since, last time.Duration // before now
		compared    func(string) string
		contested   time.Duration // before now; 0: never
		checks      int           // 0: four
		accepted    bool
	}{
		{name: "just long enough", since: after, last: after / 4, accepted: true},
		{name: "not long enough", since: after - time.Second, last: after / 4},
		{name: "with too few checks, after the setting was lowered", since: after, last: after / 4, checks: 3},
		{name: "with too long a gap", since: 2 * after, last: after/4 + time.Second},
		{name: "contested before it", since: after, last: time.Hour, contested: after + time.Second, accepted: true},
		{name: "contested as it began", since: after, last: time.Hour, contested: after},
		{name: "contested in it, which was read too late", since: after, last: time.Hour, contested: 2 * time.Hour},
		{name: "from a clock that is ahead", since: -time.Hour, last: -time.Hour},
		{name: "of another record", since: after, last: time.Hour, compared: func(s string) string { return "x" + s }},
		{name: "of another host or token", since: after, last: time.Hour, compared: func(s string) string { return s[:len(s)-1] + "x" }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newThinWorld(t, after, always(isThin))
			w.step()
			w.step()
			var s span
			if err := json.Unmarshal(w.mark(w.run, 0, "thin"), &s); err != nil || s.Compared == "" {
				t.Fatalf("kept is %+v, %v", s, err)
			}
			w.clock.advance(100 * time.Hour)
			now := w.clock.now()
			s.Since, s.Last, s.Checks = now.Add(-test.since), now.Add(-test.last), cmp.Or(test.checks, 4)
			if test.compared != nil {
				s.Compared = test.compared(s.Compared)
			}
			marks := map[string][]byte{}
			var err error
			if marks["thin"], err = json.Marshal(s); err != nil {
				t.Fatal(err)
			}
			if test.contested != 0 {
				if marks["contested"], err = json.Marshal(now.Add(-test.contested)); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.ledger.Looked(t.Context(), w.run, 0, w.ledgerRun(w.run).Generation, "", now, nil, marks); err != nil {
				t.Fatal(err)
			}
			w.step()
			w.step()
			if fate, detail := w.fate(w.run, 0); (fate == "done") != test.accepted {
				t.Errorf("%s (%s)", fate, detail)
			}
		})
	}
}

// TestThinProofWhoseAnswerIsLost: the PATCH has landed, its answer is lost, and the next
// execution comes after more than the longest gap. Nothing spoke against the token: the domain
// stays verified.
func TestThinProofWhoseAnswerIsLost(t *testing.T) {
	const after = time.Hour
	w := newThinWorld(t, after, always(isThin))
	w.reboot(func(c *tasks.Config) { c.TrustPayload = true })
	w.run = w.submit(tasks.TypeVerify, verifyRow("verification_host", w.record.Host, "verification_txt", w.record.TXT, "use_for_organization_discovery", true))
	w.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpUpdateDiscoveryDomain, Count: 1, DropAfter: true})
	for len(w.writes()) == 0 && w.step() != nil {
		continue
	}
	w.wantStatus(org, dom, "verified")
	w.clock.advance(after)
	for range 3 {
		w.step()
	}
	w.wantStatus(org, dom, "verified")
	for _, r := range w.writes() {
		if strings.Contains(r.Body, "pending") {
			t.Errorf("it was taken back: %s", r.Body)
		}
	}
}

// TestThinProofsThatNeverLast: a row whose checks are held up for longer than a gap each time
// ends, as any other.
func TestThinProofsThatNeverLast(t *testing.T) {
	const after = time.Hour
	w := newThinWorld(t, after, always(isThin))
	for range 1000 {
		if w.step() == nil {
			break
		}
		w.clock.advance(after)
	}
	w.wantFate(w.run, 0, "expired")
}

// TestThinProofAndRepeatedExecutions: neither those that are killed, wherever, nor two at a
// time bring the end nearer.
func TestThinProofAndRepeatedExecutions(t *testing.T) {
	const after = time.Hour
	var calls int
	t.Run("none", func(t *testing.T) {
		w := newThinWorld(t, after, always(isThin))
		w.wantAccepted(w.clock.now(), after)
		calls = len(w.saboteur.calls)
	})
	for k := 0; k < calls; k += 2 {
		t.Run(fmt.Sprintf("killed at call %d", k), func(t *testing.T) {
			w := newThinWorld(t, after, always(isThin))
			w.saboteur.at, w.saboteur.after = k, k%4 == 0
			for len(w.writes()) == 0 && w.step() != nil {
				continue
			}
			if lasted := w.clock.now().Sub(w.proofs[0]); lasted < after {
				t.Errorf("accepted after %s", lasted)
			}
			w.drain()
			w.wantFate(w.run, 0, "done")
			w.wantStatus(org, dom, "verified")
		})
	}
	t.Run("many at a time", func(t *testing.T) {
		w := newThinWorld(t, after, always(isThin))
		w.step()
		n := w.queue.next()
		for range 20 {
			if err, _ := w.execute(n); err != nil {
				t.Fatal(err)
			}
		}
		w.wantAccepted(w.clock.now(), after)
	})
	t.Run("one finds it contested while another finds it thin", func(t *testing.T) {
		var w *thinWorld
		var inner *queued
		w = newThinWorld(t, after, func(int) func(*dnscheck.Verdict) {
			if n := inner; n != nil {
				inner = nil
				w.proof = always(resolverDenies)
				if err, _ := w.execute(n); err != nil {
					t.Error(err)
				}
				w.proof = always(isThin)
			}
			return isThin
		})
		w.until(w.start().Add(30 * time.Minute))
		w.step()
		inner = w.queue.next()
		if inner.typ != tasks.TypeConfirm {
			t.Fatalf("%s is next", inner.typ)
		}
		w.step()
		before := len(w.proofs)
		for len(w.proofs) == before {
			w.step()
		}
		w.wantAccepted(w.proofs[before], after)
	})
}

// execute carries out a task that stays in the queue as it is.
func (w *thinWorld) execute(n *queued) (err error, died bool) { //nolint:revive // as run
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	w.saboteur.execution(cancel)
	return w.world.run(ctx, n)
}

func TestCheckThinProofAfter(t *testing.T) {
	for after, ok := range map[time.Duration]bool{0: true, time.Hour: true, 24 * time.Hour: true, time.Hour - 1: false, -time.Hour: false} {
		if err := tasks.CheckThinProofAfter(after); (err == nil) != ok {
			t.Errorf("%s: %v", after, err)
		}
	}
}
