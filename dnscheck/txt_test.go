package dnscheck_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"orgops/dnscheck"
)

// records answers every name with these TXT records, each given as its strings.
func records(strings ...[]string) zone {
	return func(q *dns.Msg) *dns.Msg {
		m := answer(q)
		for _, parts := range strings {
			m.Answer = append(m.Answer, txt(q.Question[0].Name, parts...))
		}
		return m
	}
}

func TestTokenSplitAtEveryOffset(t *testing.T) {
	var offset atomic.Int32
	c := checker(t, both(t, func(q *dns.Msg) *dns.Msg {
		at := offset.Load()
		return records([]string{token[:at], token[at:]})(q)
	}))
	for at := range len(token) + 1 {
		offset.Store(int32(at))
		want(t, look(t, c), dnscheck.Present, dnscheck.ReasonFound)
	}
}

// splitValue is a value in one or more strings, and the token that is sought.
type splitValue struct {
	name  string
	zone  zone
	token string
	want  expected
}

var splitValues = []splitValue{
	{"a byte a string", records(strings.Split(token, "")), token, found},
	{"empty strings around and between", records([]string{"", token[:5], "", "", token[5:], ""}), token, found},
	{"empty string alone", records([]string{""}), token, absent(dnscheck.ReasonOtherValue)},
	{"255 bytes", records([]string{strings.Repeat("x", 255)}), strings.Repeat("x", 255), found},
	{"256 bytes", records([]string{strings.Repeat("x", 255), "x"}), strings.Repeat("x", 256), found},
	{"2,000 bytes", records(chunks(strings.Repeat("xyz!", 500))), strings.Repeat("xyz!", 500), found},
	{"one byte too many", records([]string{strings.Repeat("x", 255), "x"}), strings.Repeat("x", 255),
		absent(dnscheck.ReasonOtherValue)},
	{"in the second record", records([]string{other}, []string{token}), token, found},
	{"halves in two records", records([]string{token[:16]}, []string{token[16:]}), token,
		absent(dnscheck.ReasonOtherValue)},
	{"halves in two records, the other way round", records([]string{token[16:]}, []string{token[:16]}), token,
		absent(dnscheck.ReasonOtherValue)},
	{"a blank between the strings", records([]string{token[:16], " ", token[16:]}), token,
		absent(dnscheck.ReasonOtherValue)},
}

func TestStringsOfOneRecordAreJoined(t *testing.T) {
	for _, test := range splitValues {
		t.Run(test.name, func(t *testing.T) {
			v, err := checker(t, both(t, test.zone)).Check(t.Context(), host, test.token)
			if err != nil {
				t.Fatal(err)
			}
			want(t, v, test.want.state, test.want.reason)
		})
	}
}

func TestRecordWithoutStrings(t *testing.T) {
	resolver := serve(t, func(query []byte, send func([]byte)) {
		packed := holding("x").packed(query)
		packed = packed[:len(packed)-2] // the string and its length
		packed[len(packed)-1] = 0       // RDLENGTH
		send(packed)
	}, nil)
	want(t, look(t, checker(t, resolver)), dnscheck.Absent, dnscheck.ReasonOtherValue)
}

func TestThousandRecordsTheTokenLast(t *testing.T) {
	z := holding(append(fillers(999), token)...)
	truncated := func(query []byte, send func([]byte)) {
		zone(func(q *dns.Msg) *dns.Msg {
			m := answer(q)
			m.Truncated = true
			return m
		}).udp(query, send)
	}
	v := look(t, checker(t, serve(t, truncated, z.tcp)))
	want(t, v, dnscheck.Present, dnscheck.ReasonFound)
	if o := v.Observations[0]; len(o.Values) != 10 || o.MoreValues != 990 {
		t.Errorf("%d values kept and %d more, want 10 and 990", len(o.Values), o.MoreValues)
	}
}

type otherValue struct{ name, value string }

// otherValues are not the token, though they resemble it.
var otherValues = []otherValue{
	{"token as prefix", token + "x"},
	{"token as suffix", "x" + token},
	{"token as part", "verify=" + token + ";"},
	{"all but its last byte", token[:31]},
	{"twice", token + token},
	{"in quotes", `"` + token + `"`},
	{"in single quotes", "'" + token + "'"},
	{"in typographic quotes", "\u201c" + token + "\u201d"},
	{"blank before", " " + token},
	{"blank after", token + " "},
	{"tab after", token + "\t"},
	{"no-break space after", token + "\u00a0"},
	{"line break after", token + "\r\n"},
	{"newline after", token + "\n"},
	{"NUL after", token + "\x00"},
	{"NUL within", token[:9] + "\x00" + token[9:]},
	{"zero-width space within", token[:9] + "\u200b" + token[9:]},
	{"zero-width joiner after", token + "\u200d"},
	{"byte order mark before", "\ufeff" + token},
	{"full-width digits", strings.ReplaceAll(token, "0", "\uff10")},
	{"upper case", strings.ToUpper(token)},
	{"URL-encoded", "%30" + token[1:]},
	{"escaped as zone files are", `\048` + token[1:]},
	{"backslash before", `\` + token},
	{"as a zone file's line", host + `. IN TXT "` + token + `"`},
	{"ellipsis", token[:8] + "\u2026"},
	{"bytes above ASCII", "\xff\xfe" + token},
	{"empty", ""},
}

func TestOnlyTheExactValueCounts(t *testing.T) {
	for _, test := range otherValues {
		t.Run(test.name, func(t *testing.T) {
			v := look(t, checker(t, both(t, holding(test.value))))
			want(t, v, dnscheck.Absent, dnscheck.ReasonOtherValue)
			if diff := cmp.Diff([]string{test.value}, v.Observations[0].Values); diff != "" {
				t.Errorf("values must be the raw bytes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOddTokensAreFound checks that tokens of arbitrary bytes are found.
func TestOddTokensAreFound(t *testing.T) {
	var every strings.Builder
	for octet := range 256 {
		every.WriteByte(byte(octet))
	}
	for _, odd := range []string{
		"name=value", `with "quotes"`, `back\slash`, `\034`, `\\`, `\`, `"`, " blanks ", "tab\t", "line\r\n", "\x00", "\x7f",
		"Grüße", "\xff\xfe", "\u202e", every.String(),
	} {
		t.Run(fmt.Sprintf("%.20q", odd), func(t *testing.T) {
			v, err := checker(t, both(t, records(chunks(odd)))).Check(t.Context(), host, odd)
			if err != nil {
				t.Fatal(err)
			}
			want(t, v, dnscheck.Present, dnscheck.ReasonFound)
		})
	}
}

func TestAnotherOrganizationsTokenAtTheSameHost(t *testing.T) {
	const theirs = "fedcba9876543210fedcba9876543210"
	want(t, look(t, checker(t, both(t, holding(theirs)))), dnscheck.Absent, dnscheck.ReasonOtherValue)
	want(t, look(t, checker(t, both(t, holding(theirs, token)))), dnscheck.Present, dnscheck.ReasonFound)
}

func TestLongValuesAreCapped(t *testing.T) {
	v := look(t, checker(t, both(t, records(chunks(strings.Repeat("y", 1000))))))
	if got := v.Observations[0].Values[0]; len(got) != 255 {
		t.Errorf("%d bytes kept, want 255", len(got))
	}
}

func TestEmptyTokenIsRefused(t *testing.T) {
	c := checker(t, both(t, records([]string{""})))
	for name, ask := range asks(c) {
		if _, err := ask(t.Context(), host, ""); !asQuestionError(err) {
			t.Errorf("%s: error %v, want a QuestionError", name, err)
		}
	}
}

func TestUnescape(t *testing.T) {
	tests := []struct{ escaped, packed string }{
		{``, ``}, {`plain`, `plain`}, {`a\"b`, `a"b`}, {`a\\b`, `a\b`}, {`\000\255`, "\x00\xff"},
		{`\\034`, `\034`}, {`\0341`, `"1`},
		{`\`, `\`}, {`\1`, `\1`}, {`\12`, `\12`}, {`\256`, `\256`}, {`\x41`, `\x41`}, {`\\\"`, `\"`},
	}
	for _, test := range tests {
		if got := dnscheck.Unescape(test.escaped); got != test.packed {
			t.Errorf("unescape %q: %q, want %q", test.escaped, got, test.packed)
		}
	}
}

// chunks splits a value into strings of 255 bytes.
func chunks(value string) []string {
	var parts []string
	for len(value) > 255 {
		parts, value = append(parts, value[:255]), value[255:]
	}
	return append(parts, value)
}
