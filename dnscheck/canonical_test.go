package dnscheck_test

import (
	"testing"

	"github.com/miekg/dns"

	"orgops/dnscheck/dnsname"
)

// TestCanonical checks that names are compared in the form that the codec gives them.
func TestCanonical(t *testing.T) {
	for _, name := range []string{
		"", ".", "Example.COM", "example.com.", `a\.`, `a\\.`, `a\\\.`, "BÜCHER.example", "\xff.x", `\.`, `\\.`, "a..",
	} {
		if got, want := dnsname.Canonical(name), dns.CanonicalName(name); got != want {
			t.Errorf("Canonical(%q) = %q, want %q", name, got, want)
		}
	}
}
