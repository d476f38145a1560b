package kinds

import (
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
)

var (
	NextCheck     = nextCheck
	ProofEvidence = proofEvidence
	PackProof     = packProof
	NewCompared   = newCompared
	CheckEvidence = checkEvidence
	PackCheck     = packCheck
)

const (
	MaxNegativeTTL = maxNegativeTTL
	MaxVerdict     = maxVerdict
	MaxProof       = maxProof
)

// Pack returns the memo of the state.
func (s VerifyState) Pack(organization string) ([]byte, error) { return s.pack(organization) }

// Waiting returns the state of a row after its first check.
func Waiting(d apiclient.DiscoveryDomain, v dnscheck.Verdict, at time.Time) VerifyState {
	e := checkEvidence(v, at)
	return VerifyState{Record: recordOf(d), Found: digest(v), Evidence: &e}
}

// Is reports whether the record is the one compared.
func (c *Compared) Is(d apiclient.DiscoveryDomain) bool { return c.is(d) }
