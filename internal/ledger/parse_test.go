package ledger

import (
	"testing"
	"time"
)

// FuzzStored checks that stored text in an unknown form is an error at most.
func FuzzStored(f *testing.F) {
	f.Add("c0,0,;")
	f.Add("r12,1700000000000,abcdef,4;notememo;with,separators")
	f.Add(string(FoundRow{Content: []byte("row"), Due: time.UnixMilli(1),
		Result: Result{Outcome: Done, Detail: "why"}}.append(nil)))
	f.Fuzz(func(_ *testing.T, stored string) {
		_, _ = parseCheckpoint(stored, time.Now())
		_, _ = parseIntent(stored, time.Now())
		_ = parseResult(stored)
		_, _ = unpackFound(stored)
		if r, err := parseFound([]byte(stored)); err == nil {
			_ = r.append(nil)
		}
	})
}
