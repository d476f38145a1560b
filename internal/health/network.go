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
func NameServers(n dnscheck.Network) (found []Finding) {
	switch n.Port53 {
	case dnscheck.Port53Open:
		found = append(found, ok("domains' own name servers can be reached, over UDP and TCP"))
	case dnscheck.Port53Closed, dnscheck.Port53Redirected, dnscheck.Port53NoTCP, dnscheck.Port53NoUDP:
	default:
		found = append(found, warn("fix the resolvers first: they have the addresses",
			"it is not known whether domains' own name servers can be reached: no quorum of the resolvers has the addresses of the "+
				"name servers of the root, com or org"))
	}
	for _, fault := range n.Faults() {
		found = append(found, networkFinding(fault))
	}
	return found
}

func networkFinding(fault dnscheck.NetworkFault) Finding {
	if fault.Severe {
		return wrong(fault.Fix, "%s", fault.Text)
	}
	return warn(fault.Fix, "%s", fault.Text)
}

// Fault returns the finding of a running worker on the way to name servers; false: none is needed.
// It is a warning at most: no restart and no other worker in the same network repairs it.
func (n *Network) Fault() (Finding, bool) {
	for _, fault := range n.Last().Faults() {
		if !fault.Usual {
			return Finding{Level: Warning, Subject: "network", Text: fault.Text, Fix: fault.Fix}, true
		}
	}
	return Finding{}, false
}
