package ledger

import (
	"testing"
	"time"
)

// FuzzStored checks that stored text in an unknown form is an error at most.
func FuzzStored(f *testing.F) {
	f.Add("c0,0,;")
	f.Add("r12,1700000000000,abcdef,4;notememo;with,separators")
	f.Fuzz(func(_ *testing.T, stored string) {
		_, _ = parseCheckpoint(stored, time.Now())
		_, _ = parseIntent(stored, time.Now())
		_ = parseResult(stored)
		_, _ = unpackChunk([]byte(stored))
	})
}
