package web_test

import (
	"testing"

	"orgops/internal/web"
)

// TestParseSignOut checks that the link of the pages leads to this host or over HTTPS.
func TestParseSignOut(t *testing.T) {
	for address, ok := range map[string]bool{
		"": true, "/oauth2/sign_out": true, "/out?rd=%2F": true, "https://login.example/out": true,
		"oauth2/sign_out": false, "//evil.example": false, "http://login.example/out": false,
		"https://": false, "https://u:p@login.example/": false, "javascript:alert(1)": false, "/%zz": false,
	} {
		got, err := web.ParseSignOut(address)
		if (err == nil) != ok || ok && got != address {
			t.Errorf("%q: %q, %v, want it accepted: %v", address, got, err, ok)
		}
	}
}
