package main

import (
	"testing"

	"orgops/dnscheck"
	"orgops/internal/ledger"
)

// TestLabelsAreOurs checks that untrusted names do not become labels of metrics. The kind of a
// task comes from Redis, and the names of name servers from a zone.
func TestLabelsAreOurs(t *testing.T) {
	for _, kind := range []ledger.Kind{"", "domain:audit", "domain:verify ", "x:\xff"} {
		if got := metricType(kind); got != "unknown" {
			t.Errorf("kind %q has the label %q", kind, got)
		}
	}
	for _, kind := range (&worker{}).about().Kinds {
		if got := metricType(kind); got != string(kind) {
			t.Errorf("kind %s has the label %q", kind, got)
		}
	}
	if got := resolverLabel(dnscheck.Observation{Authority: true, Resolver: "ns.attacker.example"}); got != "authority" {
		t.Errorf("a name server has the label %q", got)
	}
	if got := resolverLabel(dnscheck.Observation{Resolver: "1.1.1.1"}); got != "1.1.1.1" {
		t.Errorf("a resolver has the label %q", got)
	}
}
