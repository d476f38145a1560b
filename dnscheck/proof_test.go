package dnscheck_test

import (
	"context"
	"testing"

	"orgops/dnscheck"
)

// TestProof checks the host and token of a proof, and that Prove alone makes one.
func TestProof(t *testing.T) {
	bubble(t, "present", func(t *testing.T) {
		z := zoneOf(start("example.com"), txt(host, token))
		c := everywhere(t, z).checker(dnscheck.Config{Mode: dnscheck.ModeAuthority})
		v := prove(t, c)
		proof, ok := v.Proof()
		if !ok {
			t.Fatalf("no proof of a token that is there: %s (%s)", v.State, v.Reason)
		}
		if got := proof.Verdict(); got.Basis != dnscheck.ByBoth || len(got.Observations) != len(v.Observations) {
			t.Errorf("the proof has the verdict %+v, want %+v", got, v)
		}
		for _, other := range []struct{ host, token string }{{host, token + "x"}, {"x" + host, token}, {host, ""}, {"", ""}} {
			if proof.Of(other.host, other.token) {
				t.Errorf("the proof of %q at %s is one of %q at %q", token, host, other.token, other.host)
			}
		}
		v.Host = "_v.another.example"
		if proof, _ := v.Proof(); !proof.Of(host, token) || proof.Of(v.Host, token) {
			t.Error("a verdict whose host was changed proves that host")
		}
		v.State = dnscheck.Unknown
		if _, ok := v.Proof(); ok {
			t.Error("a verdict that was changed to unknown has a proof")
		}

		for name, check := range map[string]func(context.Context, string, string) (dnscheck.Verdict, error){
			"a check": c.Check, "a disproof": c.Disprove,
		} {
			v, err := check(t.Context(), host, token)
			if err != nil || v.State != dnscheck.Present {
				t.Fatalf("%s: %+v, %v", name, v, err)
			}
			if _, ok := v.Proof(); ok {
				t.Errorf("%s has a proof", name)
			}
		}
	})
	bubble(t, "absent", func(t *testing.T) {
		c := everywhere(t, zoneOf(start("example.com"))).checker(dnscheck.Config{Mode: dnscheck.ModeResolvers})
		v := prove(t, c)
		if v.State != dnscheck.Absent {
			t.Fatalf("a token that is not there is %s (%s)", v.State, v.Reason)
		}
		v.State = dnscheck.Present
		if _, ok := v.Proof(); ok {
			t.Error("a verdict that was changed to present has a proof")
		}
	})
	if _, ok := (dnscheck.Verdict{State: dnscheck.Present, Reason: dnscheck.ReasonFound, Host: host}).Proof(); ok {
		t.Error("a verdict that nobody has proven has a proof")
	}
	if none := (dnscheck.Proof{}); none.Of("", "") || none.Of(host, token) {
		t.Error("the zero proof proves something")
	}
}
