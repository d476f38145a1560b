// Package dnschecktest makes proofs for tests that have a DNS of their own. Nothing that is built
// into a command may import it (TestProofsNeedDNS of the module).
package dnschecktest

import (
	"orgops/dnscheck"
	"orgops/dnscheck/internal/fake"
)

// Proven returns the verdict with a proof of the token at the verdict's host, as
// [dnscheck.Checker.Prove] returns it, if it is present. Other verdicts are returned as they are.
func Proven(v dnscheck.Verdict, token string) dnscheck.Verdict {
	return dnscheck.Proven(fake.Permission{}, v, token)
}
