package untrusted_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/untrusted"
)

// TestTexts shows each text with at most four characters, or bytes.
func TestTexts(t *testing.T) {
	type all struct{ Plain, Quote, ASCII, Cut string }
	tests := map[string]all{
		"":          {"", `""`, `""`, ""},
		"abcd":      {"abcd", `"abcd"`, `"abcd"`, "abcd"},
		"abcde":     {"abcd…", `"abcd"…`, `"abcd"…`, "abc…"},
		"äöü€":      {"äöü€", `"äöü€"`, `"\u00e4\u00f6"…`, "äöü€"},
		"äöü€x":     {"äöü€…", `"äöü€"…`, `"\u00e4\u00f6"…`, "äöü…"},
		`"\`:        {`"\`, `"\"\\"`, `"\"\\"`, `"\`},
		"äbü":       {"äbü", `"äbü"`, `"\u00e4b"…`, "äbü"},
		"a\nb\x1b":  {`a\nb\x1b`, `"a\nb\x1b"`, `"a\nb\x1b"`, "a\nb\x1b"},
		"\u202ea":   {`\u202ea`, `"\u202ea"`, `"\u202ea"`, "\u202ea"},
		"a\xff":     {`a\xff`, `"a\xff"`, `"a\xff"`, "a\xff"},
		"abc\xffde": {`abc\xff…`, `"abc\xff"…`, `"abc\xff"…`, "abc…"},
		"\ufffd":    {"\ufffd", "\"\ufffd\"", `"\ufffd"`, "\ufffd"},
	}
	for s, want := range tests {
		got := all{untrusted.Plain(s, 4), untrusted.Quote(s, 4), untrusted.QuoteASCII(s, 4), untrusted.Cut(s, 4)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", s, diff)
		}
	}
}

// TestValue: a value is shown up to its bound, and JSON without the space around it.
func TestValue(t *testing.T) {
	whole := strings.Repeat("é", untrusted.MaxValue)
	for _, test := range []struct{ got, want string }{
		{untrusted.Value(whole), `"` + whole + `"`},
		{untrusted.Value(whole + "\n"), `"` + whole + `"…`},
		{untrusted.JSON(" {\"a\":\n1}\n"), `{"a":\n1}`},
		{untrusted.JSON([]byte(whole + "1")), whole + "…"},
	} {
		if test.got != test.want {
			t.Errorf("%s, want %s", test.got, test.want)
		}
	}
}

// TestQuoteFound checks that nothing of a stranger's text is a link or markup, and that it can be
// read back.
func TestQuoteFound(t *testing.T) {
	for s, want := range map[string]string{
		"v=spf1 include:a.example -all": `"v=spf1 include:a.example -all"`,
		"https://evil.example/x//y":     `"https:/\x2fevil.example/x/\x2fy"`,
		"see WWW.evil.example":          `"see WWW\x2eevil.example"`,
		"a@evil.example":                `"a\x40evil.example"`,
		"<img src=x>":                   `"\x3cimg src=x\x3e"`,
		"[x](javascript:a) `b`":         `"[x]\x28javascript:a) \x60b\x60"`,
		"\x1b]8;;https://e\x07\u202ex":  `"\x1b]8;;https:/\x2fe\a\u202ex"`,
		"\xff\x00é\"":                   `"\xff\x00\u00e9\""`,
	} {
		got := untrusted.QuoteFound(s, 100)
		if got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
		if back, err := strconv.Unquote(got); err != nil || back != s {
			t.Errorf("%s is read back as %q, %v", got, back, err)
		}
	}
}

func TestIsLoopback(t *testing.T) {
	tests := map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "::ffff:127.0.0.1": true, "localhost": true, "LOCALHOST": true,
		"": false, "0.0.0.0": false, "::": false, "10.0.0.1": false, "example.com": false,
		"localhost.evil.com": false, "x.localhost": false,
	}
	for host, want := range tests {
		if got := untrusted.IsLoopback(host); got != want {
			t.Errorf("%s: %v, want %v", host, got, want)
		}
	}
}
