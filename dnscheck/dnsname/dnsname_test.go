package dnsname_test

import (
	"testing"

	"github.com/miekg/dns"

	"orgops/dnscheck/dnsname"
)

// names are of every sort: rooted or not, in any case, escaped, not ASCII.
var names = []string{"", ".", "acme.example", "ACME.example.", "a\\.", "a\\\\.", "a\\\\\\.", "\\065.example",
	"B\u00dcCHER.example", "\u212aelvin.example", "a..b", "\xff.Example"}

// TestCanonical compares the form with that of the library that packs and reads messages, as
// dnscheck relies on it.
func TestCanonical(t *testing.T) {
	for _, name := range names {
		if got, want := dnsname.Canonical(name), dns.CanonicalName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func FuzzCanonical(f *testing.F) {
	for _, name := range names {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if got, want := dnsname.Canonical(name), dns.CanonicalName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	})
}

func TestSame(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"acme.example", "ACME.Example.", true},
		{"acme.example", "acme.example.net", false},
		{"kelvin.example", "\u212aelvin.example", false}, // strings.EqualFold takes them for the same
		{"shop.example", "\u017fhop.example", false},
		{"b\u00fccher.example", "B\u00dcCHER.example", false}, // not ASCII, so other bytes
		{"a.", "a\\.", false},
	} {
		if got := dnsname.Same(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// TestTyped: the name is found in an address.
func TestTyped(t *testing.T) {
	for typed, want := range map[string]string{
		"http://acme.example/": "acme.example", "https://ACME.example./login?next=/a@b.example#top": "acme.example",
		" Bücher.example\n": "xn--bcher-kva.example", "acme.example/": "acme.example", "acme.example:443": "acme.example",
		"https://user:password@acme.example:8443?x": "acme.example", "acm": "acm", "ord_1|a": "ord_1|a", "": "",
		"http://": "",
	} {
		if got := dnsname.Typed(typed); got != want {
			t.Errorf("Typed(%q) is %q, want %q", typed, got, want)
		}
	}
}

func TestKey(t *testing.T) {
	for name, key := range map[string]string{
		"ACME.Example.": "acme.example", "Bücher.example": "xn--bcher-kva.example",
		"XN--BCHER-KVA.example": "xn--bcher-kva.example",
		"faß.example":           "xn--fa-hia.example", "a_b.example": "a_b.example", "acme-": "acme-",
	} {
		if got := dnsname.Key(name); got != key {
			t.Errorf("Key(%q) is %q, want %q", name, got, key)
		}
	}
}

func TestUnicode(t *testing.T) {
	for name, want := range map[string]string{
		"example.com":                "example.com",
		"xn--bcher-kva.example":      "bücher.example",
		"shop.xn--bcher-kva.example": "shop.bücher.example",
		"xn--a.example":              "xn--a.example", // not valid
		"xn--55555577":               "xn--55555577",
	} {
		if got := dnsname.Unicode(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
