package handlers

import (
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
)

var (
	NextCheck     = nextCheck
	ProofEvidence = proofEvidence
	NewCompared   = newCompared
	CheckEvidence = checkEvidence
)

const (
	MaxNegativeTTL = maxNegativeTTL
	MaxEvidence    = maxEvidence
)

// Waiting returns the state of a row after its first check.
func Waiting(d apiclient.DiscoveryDomain, v dnscheck.Verdict, at time.Time) VerifyState {
	e := checkEvidence(v, at)
	e.Record = recordOf(d)
	return VerifyState{Record: recordOf(d), Found: digest(v), Diagnosed: at.Unix(), Evidence: &e}
}

// Is reports whether the record is the one compared.
func (c *Compared) Is(d apiclient.DiscoveryDomain) bool { return c.is(d) }
