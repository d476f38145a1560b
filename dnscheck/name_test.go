package dnscheck_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/dnscheck/dnsname"
)

func TestHostNames(t *testing.T) {
	label63 := strings.Repeat("a", 63)
	long := strings.Join([]string{label63, label63, label63, strings.Repeat("b", 61)}, ".") // 253 bytes
	tests := []struct{ name, host, problem string }{
		{"verification host", "_ss-verification.org_Abc123.Example.com", ""},
		{"dot at the end", "_x.example.com.", ""},
		{"two labels", "example.com", ""},
		{"A-label", "_x.xn--bcher-kva.example", ""},
		{"A-label that decodes to nothing is a name too", "_x.xn--0.example", ""},
		{"253 bytes", long, ""},
		{"253 bytes and the dot at the end", long + ".", ""},
		{"label of 63 bytes", label63 + ".example", ""},
		{"digits within", "1.2.3.4.example", ""},

		{"empty", "", "is empty; give the full name of the TXT record"},
		{"root", ".", "is empty; give the full name of the TXT record"},
		{"254 bytes", long + "b", "has 254 bytes; a name has at most 253"},
		{
			"label of 64 bytes", label63 + "a.example",
			`has a label of 64 bytes ("aaaaaaaaaaaaaaaaaaaa"…); a label has at most 63`,
		},
		{"dot doubled", "_x..example.com", "has an empty label (a dot too many)"},
		{"two dots at the end", "_x.example.com..", "has an empty label (a dot too many)"},
		{"dot before", ".example.com", "has an empty label (a dot too many)"},
		{"U-label", "_x.bücher.example", "has characters outside ASCII; write an internationalized name in its xn-- form"},
		{
			"bytes that are no text", "_x.\xff.example",
			"has characters outside ASCII; write an internationalized name in its xn-- form",
		},
		{"blank within", "_x. example.com", `has ' ' in a label; letters, digits, hyphens and underscores are possible`},
		{"blank around", " _x.example.com", `has ' ' in a label; letters, digits, hyphens and underscores are possible`},
		{"newline", "_x.example.com\n", `has '\n' in a label; letters, digits, hyphens and underscores are possible`},
		{"NUL", "_x\x00.example.com", `has '\x00' in a label; letters, digits, hyphens and underscores are possible`},
		{"escape", `_x\.example.com`, `has '\\' in a label; letters, digits, hyphens and underscores are possible`},
		{"wildcard", "*.example.com", `has '*' in a label; letters, digits, hyphens and underscores are possible`},
		{"URL", "https://example.com", `has ':' in a label; letters, digits, hyphens and underscores are possible`},
		{"single label", "intranet", "has one label only; give the full name, with its domain"},
		{"localhost", "localhost", "has one label only; give the full name, with its domain"},
		{"beneath localhost", "_x.LocalHost", "ends in .LocalHost, which the public DNS does not serve"},
		{"local", "_x.printer.local", "ends in .local, which the public DNS does not serve"},
		{"onion", "_x.abc.onion.", "ends in .onion, which the public DNS does not serve"},
		{"arpa", "_x.2.0.192.in-addr.arpa", "ends in .arpa, where no organization has its domain"},
		{"IPv4", "192.0.2.1", "is an IP address; give the full name of the TXT record"},
		{"IPv4 with a dot", "192.0.2.1.", "is an IP address; give the full name of the TXT record"},
		{"IPv6", "2001:db8::1", "is an IP address; give the full name of the TXT record"},
		{"IPv6 in brackets", "[2001:db8::1]", "is an IP address; give the full name of the TXT record"},
		{"short IPv4", "10.1", "ends in a number as IP addresses do; give the full name of the TXT record"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := dnsname.CheckHost(test.host)
			if test.problem == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if !asQuestionError(err) {
				t.Fatalf("error %v, want a QuestionError", err)
			}
			if !strings.HasSuffix(err.Error(), ": "+test.problem) {
				t.Errorf("error %q, want %q", err, test.problem)
			}
		})
	}
}

func TestBadHostsAreNeverQueried(t *testing.T) {
	c := checker(t, anyResolver(1)...) // unused addresses; the timeout is an hour
	for _, bad := range []string{"", "localhost", "192.0.2.1", "_x..example", "bücher.example"} {
		for name, ask := range asks(c) {
			if _, err := ask(t.Context(), bad, token); !asQuestionError(err) {
				t.Errorf("%s %q: error %v, want a QuestionError", name, bad, err)
			}
		}
	}
}

func TestQuestionErrorQuotesTheHost(t *testing.T) {
	err := dnsname.CheckHost("_X.\x1b[31m" + strings.Repeat("y", 500))
	const begin = `verification host "_X.\x1b[31myyy`
	if diff := cmp.Diff(begin, err.Error()[:len(begin)]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(err.Error()) > 400 {
		t.Errorf("%d bytes of error", len(err.Error()))
	}
}

func TestWithin(t *testing.T) {
	tests := []struct {
		host, domain string
		want         bool
	}{
		{"_x.example.com", "example.com", true},
		{"_x.org_Abc.EXAMPLE.com.", "Example.COM", true},
		{"_x.example.com", "example.com.", true},
		{"_x.example.com", "com", true},
		{"example.com", "example.com", false},
		{"_x.notexample.com", "example.com", false},
		{"example.com.evil.example", "example.com", false},
		{"com", "example.com", false},
		{"_x.example.com", "", false},
		{"_x.example.com", ".", false},
		{"_x.example.com", ".example.com", false},
		{"", "", false},
		{"_x..example.com", "example.com", false},
		{`_x\.example.com`, "example.com", false},
		{"_x.\u212aelvin.example", "kelvin.example", false}, // the Kelvin sign folds to k in Unicode, not in the DNS
	}
	for _, test := range tests {
		if got := dnsname.Within(test.host, test.domain); got != test.want {
			t.Errorf("Within(%q, %q) = %t, want %t", test.host, test.domain, got, test.want)
		}
	}
}
