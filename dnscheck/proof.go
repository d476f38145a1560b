package dnscheck

import "orgops/dnscheck/internal/fake"

// Proof says that [Checker.Prove] has found a token present at a host. No other code makes one, and
// its fields cannot be changed. The zero Proof proves nothing.
type Proof struct {
	found   record
	verdict Verdict
}

// Proof returns the proof of a verdict of [Checker.Prove]. ok is false for any other verdict, and
// for one that is not [Present], or not any more.
func (v Verdict) Proof() (p Proof, ok bool) {
	if v.State != Present {
		return Proof{}, false
	}
	if v.proven == (record{}) {
		return Proof{}, false
	}
	return Proof{found: v.proven, verdict: v}, true
}

// Of reports whether the proof is that of this token at this host, in the same letters.
func (p Proof) Of(host, token string) bool {
	return p.found != record{} && p.found == record{host, token}
}

// Verdict returns the verdict with the observations that make the proof.
func (p Proof) Verdict() Verdict { return p.verdict }

// Proven returns a present verdict with a proof of the token at its host, as [Checker.Prove] does.
// It is for package dnschecktest: outside of this directory nothing can name a [fake.Permission].
func Proven(_ fake.Permission, v Verdict, token string) Verdict {
	if v.State == Present {
		v.proven = record{v.Host, token}
	}
	return v
}
