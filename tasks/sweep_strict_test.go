package tasks_test

import (
	"strings"
	"testing"
	"time"

	"orgops/dnscheck"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// strictly restarts the worker with settings that refuse aliases out of the domain and
// wildcards.
func (w *world) strictly() {
	w.t.Helper()
	w.reboot(func(c *tasks.Config) {
		c.DNS = sabotagedDNS{w.saboteur, w.checker(dnscheck.Config{RefuseAliases: true, RefuseWildcards: true})}
	})
}

// refusals put the domain's token where a strict proof refuses it, by the refusal's words.
var refusals = map[string]func(w *world, d sandbox.Domain){
	"out of the domain": func(w *world, d sandbox.Domain) {
		w.sandbox.SetCNAME(d.Host, "token.hosting.example.net")
		w.sandbox.SetTXT("token.hosting.example.net", d.TXT)
	},
	"comes from a wildcard": func(w *world, d sandbox.Domain) {
		w.sandbox.Remove(d.Host)
		_, parent, _ := strings.Cut(d.Host, ".")
		w.sandbox.SetTXT("*."+parent, d.TXT)
	},
}

// TestStrictSettingsTakeNothingAway: a domain that is verified stays so, and keeps its
// flag, whatever leads to its token.
func TestStrictSettingsTakeNothingAway(t *testing.T) {
	for refusal, put := range refusals {
		for _, action := range []tasks.Action{tasks.ActUnroute, tasks.ActPending} {
			t.Run(refusal+"/"+string(action), func(t *testing.T) {
				w := newWorld(t, actingBy(action))
				w.strictly()
				put(w, w.verified(new(true)))
				w.days(11)
				w.wantPatches()
				w.wantTold()
				if m := w.memory(dom); m.State != "present" || m.Absence != nil || m.Sweeps != 11 {
					t.Errorf("remembered %+v", m)
				}

				// One that was gone for all but the last sweep before the action.
				w.sandbox.Remove(w.domain(org, dom).Host)
				_, parent, _ := strings.Cut(w.domain(org, dom).Host, ".")
				w.sandbox.Remove("*." + parent)
				w.days(7)
				put(w, w.domain(org, dom))
				w.days(3)
				w.wantPatches()
				w.wantTold(tasks.NoticeAtRisk, tasks.NoticeRestored)
			})
		}
	}
}

// TestStrictSettingsGiveNothingBack: what was taken away comes back by a proof only, and
// the history says once why there is none.
func TestStrictSettingsGiveNothingBack(t *testing.T) {
	for refusal, put := range refusals {
		t.Run(refusal, func(t *testing.T) {
			w := newWorld(t, actingBy(tasks.ActUnroute))
			w.strictly()
			d := w.verified(new(true))
			w.days(8)
			w.wantPatches(patchNoUse)
			put(w, d)
			w.days(3)
			w.wantPatches(patchNoUse)
			w.wantTold(tasks.NoticeAtRisk, tasks.NoticeLost)
			past := w.memory(dom).Past
			if last := past[len(past)-1]; last.What != "not restored" || !strings.Contains(last.Why, refusal) {
				t.Errorf("the history ends with %+v", last)
			}
			if before := past[len(past)-2]; before.What != "acted on: unroute" {
				t.Errorf("before that, %+v", before)
			}

			_, parent, _ := strings.Cut(d.Host, ".")
			w.sandbox.Remove("*." + parent)
			w.back()
			w.days(1)
			w.wantPatches(patchNoUse, patchUse)
			w.wantTold(tasks.NoticeAtRisk, tasks.NoticeLost, tasks.NoticeRestored)
		})
	}
}

// TestStrictSettingsVerifyNothing: a domain that was set to pending stays so, and a row
// waits and says why, until the record is at the host itself.
func TestStrictSettingsVerifyNothing(t *testing.T) {
	for refusal, put := range refusals {
		t.Run("set to pending by a sweep/"+refusal, func(t *testing.T) {
			w := newWorld(t, actingBy(tasks.ActPending))
			w.strictly()
			d := w.verified(new(true))
			w.days(8)
			w.wantPatches(patchPending)
			put(w, d)
			run := w.sweepRows()
			w.drain()
			w.wantFate(run, 0, "unchanged", refusal)
			w.wantStatus(org, dom, "pending")
		})
		t.Run("a row/"+refusal, func(t *testing.T) {
			w := newWorld(t)
			w.strictly()
			d := w.sandbox.AddDomain(org, sandbox.Domain{ID: dom})
			put(w, d)
			run := w.submit(tasks.TypeVerify, row("organization_id", org, "discovery_domain_id", dom))
			for range 4 {
				w.step()
			}
			w.wantStatus(org, dom, "pending")
			if e := w.evidence(run); e == nil || e.State != "unknown" || e.Reason != "alias_out_of_domain" && e.Reason != "wildcard" {
				t.Errorf("the row waits for %+v", e)
			}
			_, parent, _ := strings.Cut(d.Host, ".")
			w.sandbox.Remove("*." + parent)
			w.back()
			w.drain()
			w.wantFate(run, 0, "done")
			w.wantStatus(org, dom, "verified")
		})
	}
}

// TestProofThatNeverComesExpires: a row ends though each check finds its token, if none of
// its proofs does, and says what the last one found.
func TestProofThatNeverComesExpires(t *testing.T) {
	for refusal, put := range refusals {
		t.Run(refusal, func(t *testing.T) {
			w := newWorld(t, func(s *settings) { s.giveUp = time.Hour })
			w.strictly()
			put(w, w.sandbox.AddDomain(org, sandbox.Domain{ID: dom}))
			run := w.submit(tasks.TypeVerify, row("organization_id", org, "discovery_domain_id", dom))
			began := w.clock.now()
			for !w.ledgerRun(run).Ended() {
				if w.clock.now().Sub(began) > 48*time.Hour {
					t.Fatal("the row does not end")
				}
				w.step()
			}
			w.wantFate(run, 0, "expired", refusal)
			w.wantStatus(org, dom, "pending")
			w.wantTold(tasks.NoticeExpired)
			if took := w.clock.now().Sub(began); took < time.Hour+tasks.MoreForUnknown {
				t.Errorf("expired after %s", took)
			}
			if e := w.evidence(run); e == nil || e.State != "unknown" || e.At != w.clock.now() {
				t.Errorf("kept is %+v, want what the last proof found", e)
			}
		})
	}
}
