package terminal_test

import (
	"strings"
	"testing"

	"orgops/dnscheck/dnschecktest"
	"orgops/internal/discovery"
	"orgops/internal/status"
	"orgops/internal/terminal"
)

// TestCheckSaysHowToEnterTheRecord checks hosts in a zone of a known provider, and in none.
func TestCheckSaysHowToEnterTheRecord(t *testing.T) {
	checker := dnschecktest.ExampleCom(t)
	for _, test := range []struct {
		host, token string
		want        []string // lines; nil: none of them
	}{
		{"_v.org_1.example.com", "token-1", []string{
			"name to enter  _v.org_1 in the zone example.com",
			"at GoDaddy     Under DNS, choose Add New Record and TXT. Enter the name without the domain, which is appended to it."}},
		{"there.example.com", "another", []string{"name to enter  there in the zone example.com"}},
		{"there.example.com", "token-1", nil}, // unknown: one resolver proves nothing
		{"_v.example.net", "token-1", nil},    // its zone is not known
	} {
		found, err := status.Check(t.Context(), checker, discovery.Domain{Host: test.host, TXT: test.token})
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := terminal.WriteCheck(&text, found); err != nil {
			t.Fatal(err)
		}
		for _, line := range test.want {
			if !strings.Contains(text.String(), line+"\n") {
				t.Errorf("%s: no line %q in\n%s", test.host, line, text.String())
			}
		}
		if test.want == nil && strings.Contains(text.String(), "name to enter") {
			t.Errorf("%s: how to enter it:\n%s", test.host, text.String())
		}
	}
}
