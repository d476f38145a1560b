package ledger

import "testing"

func FuzzSegment(f *testing.F) {
	f.Add("nightly/abcdefghijklmnop/12")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSegment("acme", text)
		if err != nil {
			return
		}
		again, err := ParseSegment("acme", s.String())
		if err != nil || again != s {
			t.Errorf("%q was read as %+v, and that as %+v, %v", text, s, again, err)
		}
	})
}
