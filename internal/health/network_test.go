package health_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/dnscheck"
	"orgops/internal/health"
)

// TestNetworkIsProbed has the minutes after the start at which the way to name servers is probed.
func TestNetworkIsProbed(t *testing.T) {
	open := dnscheck.Network{Port53: dnscheck.Port53Open, IPv6: dnscheck.IPv6None}
	closed := dnscheck.Network{Port53: dnscheck.Port53Closed}
	blackHole := dnscheck.Network{Port53: dnscheck.Port53Open, IPv6: dnscheck.IPv6Silent}
	silent := dnscheck.Observation{Authority: true, Reason: dnscheck.ReasonTimeout}
	lame := dnscheck.Observation{Authority: true, Reason: dnscheck.ReasonLame, RCode: "NOERROR"}
	present := dnscheck.Observation{Authority: true, State: dnscheck.Present}
	byResolver := dnscheck.Observation{Reason: dnscheck.ReasonTimeout}
	for _, tc := range []struct {
		name   string
		found  dnscheck.Network
		seen   []dnscheck.Observation // each minute
		probed []int                  // within 12 minutes
		fault  bool
	}{
		{"open, and nothing is asked", open, nil, []int{0}, false},
		{"open, and name servers answer", open, []dnscheck.Observation{silent, present}, []int{0}, false},
		{"open, and no name server answers", open, []dnscheck.Observation{silent}, []int{0, 5, 10}, false},
		{"open, and another server answers in their place", open, []dnscheck.Observation{lame}, []int{0, 5, 10}, false},
		{"open, and no resolver answers", open, []dnscheck.Observation{byResolver}, []int{0}, false},
		{"closed", closed, nil, []int{0, 5, 10}, true},
		{"closed when it was probed, and name servers answer", closed, []dnscheck.Observation{present}, []int{0, 5, 10}, true},
		{"IPv6 black hole", blackHole, nil, []int{0, 5, 10}, true},
		{"not known", dnscheck.Network{}, nil, []int{0, 5, 10}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var probed []int
				var told []dnscheck.Network
				n := health.Network{
					Probe: func(context.Context) (dnscheck.Network, bool) {
						probed = append(probed, int(time.Since(start).Minutes()))
						return tc.found, true
					},
					Found: func(now, _ dnscheck.Network) { told = append(told, now) },
				}
				ctx, cancel := context.WithTimeout(t.Context(), 12*time.Minute)
				defer cancel()
				go n.Run(ctx)
				for range 12 {
					synctest.Wait()
					for _, o := range tc.seen {
						n.Observe(o)
					}
					time.Sleep(time.Minute)
				}
				synctest.Wait()
				if diff := cmp.Diff(tc.probed, probed); diff != "" {
					t.Errorf("probed after minutes (-want +got):\n%s", diff)
				}
				if n.Last() != tc.found || len(told) != len(probed) {
					t.Errorf("last %+v, told %d times of %d", n.Last(), len(told), len(probed))
				}
				fault, bad := n.Fault()
				if bad != tc.fault || bad && (fault.Level != health.Warning || fault.Subject != "network") {
					t.Errorf("fault %t: %+v", bad, fault)
				}
			})
		})
	}
}
