package main

import (
	"testing"
	"time"

	"orgops/dnscheck"
	"orgops/internal/pace"
)

// TestNameServersAreOneInMetrics: a label per name server would be one per
// customer, and theirs to choose.
func TestNameServersAreOneInMetrics(t *testing.T) {
	for want, o := range map[string]dnscheck.Observation{
		"authority": {Resolver: "ns1.customer.example", Authority: true},
		"1.1.1.1":   {Resolver: "1.1.1.1"},
	} {
		if got := resolverLabel(o); got != want {
			t.Errorf("%+v is labelled %q, want %q", o, got, want)
		}
	}
}

// TestLongestWaitHasTwoPermits: a confirm that waits for less than its second
// permit takes begins at its GET again and again, and its run never ends.
func TestLongestWaitHasTwoPermits(t *testing.T) {
	for _, text := range []string{"unlimited", "250/s", "16/s", "2/s", "150/min", "3/min"} {
		rate, err := pace.ParseRate(text)
		if err != nil {
			t.Fatal(err)
		}
		limit := pace.Limit{Rate: rate, Burst: 1, Reserve: 0.2}
		left, _ := limit.Effective()
		two := time.Duration(2 / left.PerSecond() * float64(time.Second))
		// Four requests, with their permits, have to fit a task's ten minutes.
		if wait := longestWait(limit); wait < two || 4*(wait+30*time.Second) > 10*time.Minute {
			t.Errorf("%s: waits at most %v, and two permits take %v", text, wait, two)
		}
	}
}
