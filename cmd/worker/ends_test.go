package main

import (
	"testing"
	"time"

	"orgops/internal/ledger"
)

// TestEndOfARunAnew checks that the ends of two successive runs with the same ID are two
// events.
func TestEndOfARunAnew(t *testing.T) {
	ended := time.Unix(1795309323, 999)
	if id := endOf(ledger.Run{ID: "job", EndedAt: ended}).ID; id != "run-job-1795309323" {
		t.Errorf("id %s", id)
	}
	if endOf(ledger.Run{ID: "job", EndedAt: ended}).ID == endOf(ledger.Run{ID: "job",
		EndedAt: ended.Add(time.Second)}).ID {
		t.Error("two ends have one id")
	}
}
