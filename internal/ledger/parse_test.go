package ledger

import "testing"

// FuzzStored: what is stored in no known form is an error at most.
func FuzzStored(f *testing.F) {
	f.Add("c0,0;")
	f.Add("r12,1700000000000;memo;with,separators")
	f.Fuzz(func(_ *testing.T, stored string) {
		_, _ = parseCheckpoint(stored)
		_, _ = parseIntent(stored)
		_ = parseResult(stored)
		_, _ = parseCounts(stored)
	})
}
