package customer

import (
	"strings"
	"testing"
)

// TestCompare marks the parts of each text that the other does not have.
func TestCompare(t *testing.T) {
	for name, c := range map[string]struct{ expected, found, wantExpected, wantFound string }{
		"in the middle":       {"abcdef", "abXdef", "ab[c]def", "ab[X]def"},
		"in quotation marks":  {"abc", `"abc"`, "abc", `["]abc["]`},
		"more at the end":     {"abc", "abcd", "abc", "abc[d]"},
		"less at the start":   {"abcd", "bcd", "[a]bcd", "bcd"},
		"in two places":       {"token-1-of-a", "Token-1-0f-a", "[t]oken-1-[o]f-a", "[T]oken-1-[0]f-a"},
		"empty":               {"abc", "", "[abc]", "[]"},
		"another one":         {"dcc01762", "5e9b48af", "[dcc01762]", "[5e9b48af]"},
		"parts of characters": {"aaé", "aaè", "aa[é]", "aa[è]"},
		"invisible":           {"ab", "a\u200bb", "ab", `a[\u200b]b`},
	} {
		t.Run(name, func(t *testing.T) {
			d := compare(false, c.expected, c.found)
			if got := marked(d.Expected); got != c.wantExpected {
				t.Errorf("expected: %s, want %s", got, c.wantExpected)
			}
			if got := marked(d.Found); got != c.wantFound {
				t.Errorf("found: %s, want %s", got, c.wantFound)
			}
		})
	}
	if d := compare(false, "same", "same"); d != nil {
		t.Errorf("of the same: %+v", d)
	}
}

func marked(parts []part) string {
	var text strings.Builder
	for _, p := range parts {
		if p.Differs {
			text.WriteString("[" + p.Text + "]")
		} else {
			text.WriteString(p.Text)
		}
	}
	return text.String()
}
