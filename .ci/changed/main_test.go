package main

import "testing"

func TestSameWithoutComments(t *testing.T) {
	const code = "package a\n\n// F does.\nfunc F() int { return 1 } // one\n"
	for name, c := range map[string]struct {
		after string
		same  bool
	}{
		"another comment":          {"package a\n\n// F returns one.\nfunc F() int { return 1 }\n", true},
		"a comment between":        {"package a\n\nfunc F() int {\n\t// One.\n\treturn 1\n}\n", true},
		"another value":            {"package a\n\n// F does.\nfunc F() int { return 2 } // one\n", false},
		"another name":             {"package a\n\n// F does.\nfunc G() int { return 1 } // one\n", false},
		"a directive for the tool": {"//go:build linux\n\npackage a\n\n// F does.\nfunc F() int { return 1 } // one\n", false},
		"no Go":                    {"package", false},
	} {
		if got := sameWithoutComments([]byte(code), []byte(c.after)); got != c.same {
			t.Errorf("%s: same = %t, want %t", name, got, c.same)
		}
	}
}
