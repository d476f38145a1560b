package dnschecktest_test

import (
	"testing"

	"orgops/dnscheck"
	"orgops/dnscheck/dnschecktest"
)

func TestProven(t *testing.T) {
	for _, state := range []dnscheck.State{dnscheck.Unknown, dnscheck.Absent, dnscheck.Present} {
		v := dnschecktest.Proven(dnscheck.Verdict{State: state, Host: "_v.example.com"}, "token")
		proof, ok := v.Proof()
		if ok != (state == dnscheck.Present) || ok != proof.Of("_v.example.com", "token") {
			t.Errorf("%s: the proof is %+v, %t", state, proof, ok)
		}
	}
}
