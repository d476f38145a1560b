package health

import (
	"context"
	"sync/atomic"
	"time"

	"orgops/dnscheck"
)

// probeEvery is how often the way to name servers is probed while none answers, and how late a
// repaired firewall shows.
const probeEvery = 5 * time.Minute

// Network probes the way to domains' own name servers while a worker runs: at the start, and every
// five minutes while no name server answers. What it finds chooses sentences, log lines and alerts,
// and nothing else: checks and proofs ask the same servers, and judge by the same rule.
type Network struct {
	// Probe sends the test queries; needed is false if no tenant asks name servers.
	Probe func(ctx context.Context) (found dnscheck.Network, needed bool)
	// Found is called with the result of each probe, and with the one before.
	Found func(now, before dnscheck.Network)

	last     atomic.Pointer[dnscheck.Network]
	asked    atomic.Bool // name servers, since the last probe was due
	answered atomic.Bool // at least one of them
}

// Observe notes whether name servers answer to checks and proofs.
func (n *Network) Observe(o dnscheck.Observation) {
	if !o.Authority {
		return
	}
	if !n.asked.Load() {
		n.asked.Store(true)
	}
	if o.IsServerAnswer() && !n.answered.Load() {
		n.answered.Store(true)
	}
}

// Last returns what the last probe found; the zero value: nothing yet.
func (n *Network) Last() dnscheck.Network {
	if last := n.last.Load(); last != nil {
		return *last
	}
	return dnscheck.Network{}
}

// Run probes until ctx ends.
func (n *Network) Run(ctx context.Context) {
	for {
		asked := n.asked.Swap(false)
		answered := n.answered.Swap(false)
		before := n.Last()
		well := before.Port53 == dnscheck.Port53Open && before.IPv6 != dnscheck.IPv6Silent
		if !well || (asked && !answered) {
			n.probe(ctx, before)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(probeEvery):
		}
	}
}

func (n *Network) probe(ctx context.Context, before dnscheck.Network) {
	found, needed := n.Probe(ctx)
	if ctx.Err() != nil {
		return
	}
	n.last.Store(&found) // the zero value if no tenant needs it any more
	if needed {
		n.Found(found, before)
	}
}

// NameServers evaluates the way to domains' own name servers.
func NameServers(n dnscheck.Network) []Finding {
	found := []Finding{portFinding(n)}
	switch n.IPv6 {
	case dnscheck.IPv6None:
		found = append(found, warn("give this machine IPv6, with UDP and TCP to port 53 out",
			"there is no IPv6: domains that need name servers with IPv6 addresses only cannot be proven "+
				"(no_ipv6, or too_few_name_servers): %s", n.NoIPv6))
	case dnscheck.IPv6Silent:
		found = append(found, warn("let UDP and TCP to port 53 out over IPv6, or take the IPv6 route from this machine",
			"there is an IPv6 route, and no name server answers over it: checks and proofs wait for those addresses in vain: %s",
			n.NoIPv6))
	}
	return found
}

func portFinding(n dnscheck.Network) Finding {
	switch n.Port53 {
	case dnscheck.Port53Closed, dnscheck.Port53Redirected:
		return wrong(dnscheck.PortRemedy, "%s. No domain can be proven, and rows wait: %s", n.Problem(), n.Why)
	case dnscheck.Port53NoTCP:
		return warn("let TCP to port 53 of any address out", "%s. Long answers are not seen: %s", n.Problem(), n.Why)
	case dnscheck.Port53NoUDP:
		return warn("let UDP to port 53 of any address out", "%s. Each query waits a second for it: %s", n.Problem(), n.Why)
	case dnscheck.Port53Open:
		return ok("domains' own name servers can be reached, over UDP and TCP")
	}
	return warn("fix the resolvers first: they have the addresses",
		"it is not known whether domains' own name servers can be reached: no quorum of the resolvers has the addresses of the "+
			"name servers of the root, com or org")
}

// Fault returns the finding of a running worker on the way to name servers; false: none is needed.
// It is a warning at most: no restart and no other worker in the same network repairs it.
func (n *Network) Fault() (Finding, bool) {
	last := n.Last()
	if last.Problem() == "" && last.IPv6 != dnscheck.IPv6Silent {
		return Finding{}, false
	}
	for _, f := range NameServers(last) {
		if f.Level != OK {
			f.Level = Warning
			f.Subject = "network"
			return f, true
		}
	}
	return Finding{}, false
}
