package dnscheck_test

import (
	"fmt"
	"strings"
	"testing"

	"orgops/dnscheck/dnsname"
	"orgops/internal/untrusted"
)

func TestDomains(t *testing.T) {
	tests := []struct{ name, domain, ascii string }{
		{"as it is", "example.com", "example.com"},
		{"capitals and a dot at the end", "Shop.Example.COM.", "shop.example.com"},
		{"beneath a public suffix of two labels", "example.co.uk", "example.co.uk"},
		{"U-label", "bücher.example", "xn--bcher-kva.example"},
		{"U-label in capitals", "BÜCHER.example", "xn--bcher-kva.example"},
		{"A-label", "XN--bcher-kva.example", "xn--bcher-kva.example"},
		{"sharp s stays", "faß.de", "xn--fa-hia.de"},
		{"U-labels to the top", "例え.みんな", "xn--r8jz45g.xn--q9jyb4c"},
		{"dots of other scripts", "bücher\u3002example", "xn--bcher-kva.example"},
		{"right to left", "אב.example", "xn--4dbc.example"},
		{"top-level domain that the list lacks", "corp.example", "corp.example"},
		{"test is left to testers", "shop.test", "shop.test"},
		{"public suffix with one owner", "github.io", "github.io"},
		{"beneath one", "someone.github.io", "someone.github.io"},
		{"exception from a rule with a wildcard", "city.kawasaki.jp", "city.kawasaki.jp"},
		{"digits within", "4.example", "4.example"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ascii, err := dnsname.CheckDomain(test.domain)
			if err != nil || ascii != test.ascii {
				t.Errorf("%q, %v; want %q", ascii, err, test.ascii)
			}
		})
	}
}

func TestDomainsThatAreRefused(t *testing.T) {
	const (
		give    = "; give the organization's own domain"
		suffix  = "is a public suffix: others have their domains beneath it" + give
		above   = "has public suffixes beneath it, with domains of others" + give
		address = "is an IP address" + give
		number  = "ends in a number as IP addresses do" + give
		single  = "has one label only; give the full name, with its domain"
	)
	label := func(label, why string) string {
		return `has a label that domains do not have (` + label + `): ` + why + give
	}
	tests := []struct{ name, domain, problem string }{
		{"public suffix", "co.uk", suffix},
		{"in capitals, with a dot", "Co.UK.", suffix},
		{"public suffix in U-labels", "個人.香港", suffix},
		{"public suffix in A-labels", "xn--gmqw5a.xn--j6w193g", suffix},
		{"of a rule with a wildcard", "foo.kawasaki.jp", suffix},
		{"above a rule with a wildcard", "kawasaki.jp", above},
		{"in full-width letters", "ｃｏ.ｕｋ", suffix},
		{"top-level domain", "com", single},
		{"single label", "intranet", single},
		{"localhost", "localhost", single},
		{"beneath localhost", "a.localhost", "ends in .localhost, which the public DNS does not serve"},
		{"local", "printer.Local", "ends in .local, which the public DNS does not serve"},
		{"onion", "abc.onion", "ends in .onion, which the public DNS does not serve"},
		{"invalid", "shop.invalid", "ends in .invalid, which the public DNS does not serve"},
		{"arpa", "2.0.192.in-addr.arpa", "ends in .arpa, where no organization has its domain"},
		{"empty", "", "is empty" + give},
		{"root", ".", "is empty" + give},
		{"IPv4", "192.0.2.1", address},
		{"IPv4 in full-width digits", "１９２.0.2.1", address},
		{"IPv6", "2001:db8::1", address},
		{"IPv6 in brackets", "[2001:db8::1]", address},
		{"short IPv4", "10.1", number},
		{"dot doubled", "shop..example", "has an empty label (a dot too many)"},
		{"dot before", ".shop.example", "has an empty label (a dot too many)"},
		{"label of 64 bytes", strings.Repeat("a", 64) + ".example",
			`has a label of 64 bytes ("aaaaaaaaaaaaaaaaaaaa"…); a label has at most 63`},
		{"U-label of 60 characters", strings.Repeat("ü", 60) + ".example",
			`has a label of 66 bytes ("xn--tdaaaaaaaaaaaaaa"…); a label has at most 63`},
		{"254 bytes", strings.Repeat("ab.", 82) + "examples", "has 254 bytes; a name has at most 253"},
		{"longer than any", strings.Repeat("é", 1000) + ".example", "has 2008 bytes; a name has at most 253"},
		{"underscore", "_x.shop.example", label(`"_x"`, "no domain has U+005F")},
		{"blank", "shop .example", label(`"shop "`, "no domain has U+0020")},
		{"wildcard", "*.shop.example", label(`"*"`, "no domain has U+002A")},
		{"A-label that decodes to nothing", "a.xn--0.example", label(`"xn--0"`, "not valid by IDNA")},
		{"A-label of plain ASCII", "xn--shop-.example", label(`"xn--shop-"`, "not valid by IDNA")},
		{"hyphen at the end", "shop-.example", label(`"shop-"`, "not valid by IDNA")},
		{"joiner out of place", "a\u200db.example", label(`"a\u200db"`, "not valid by IDNA")},
		{"both directions in a label", "aא.example", label(`"a\u05d0"`, "not valid by IDNA")},
		{"not text", "a\xff.example", "is not text in UTF-8" + give},
		{"the sign for what is not text", "a\ufffd.example", label(`"a\ufffd"`, "no domain has U+FFFD")},
		{"e-mail address", "who@shop.example", label(`"who@shop"`, "no domain has U+0040")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ascii, err := dnsname.CheckDomain(test.domain)
			want := fmt.Sprintf("domain %s: %s", untrusted.QuoteASCII(test.domain, 253), test.problem)
			if ascii != "" || err == nil || err.Error() != want {
				t.Errorf("%q, error %v, want %s", ascii, err, want)
			}
		})
	}
}

func TestDomainErrorQuotesTheDomain(t *testing.T) {
	_, err := dnsname.CheckDomain("\x1b[31m" + strings.Repeat("y", 5000))
	if text := err.Error(); !strings.HasPrefix(text, `domain "\x1b[31myyy`) || len(text) > 400 {
		t.Errorf("error %q", text)
	}
}

// TestWithinAnInternationalizedDomain checks that hosts and domains match in either form.
func TestWithinAnInternationalizedDomain(t *testing.T) {
	tests := []struct {
		host, domain string
		want         bool
	}{
		{"_x.xn--bcher-kva.example", "bücher.example", true},
		{"_x.XN--BCHER-KVA.example", "Bücher.Example.", true},
		{"_x.bücher.example", "xn--bcher-kva.example", true},
		{"_x.bücher.example", "bücher.example", true},
		{"_x.bucher.example", "bücher.example", false},
		{"xn--bcher-kva.example", "bücher.example", false},
		{"_x.shop.example", "ｓｈｏｐ.example", false}, // full-width letters are not mapped
		{"_x.a.b.example", "a。b.example", false},
		{"_x.xn--0.example", "xn--0.example", true}, // not a U-label, but the same name
	}
	for _, test := range tests {
		if got := dnsname.Within(test.host, test.domain); got != test.want {
			t.Errorf("Within(%q, %q) = %t, want %t", test.host, test.domain, got, test.want)
		}
	}
}
