package main

import (
	"testing"
	"time"

	"orgops/internal/ledger"
)

// TestEndOfARunAnew: of two runs that had the same id, one after the other, each end is an
// event of its own.
func TestEndOfARunAnew(t *testing.T) {
	ended := time.Unix(1795309323, 999)
	if id := endOf(ledger.Run{ID: "job", EndedAt: ended}, nil).ID; id != "run-job-1795309323" {
		t.Errorf("id %s", id)
	}
	if endOf(ledger.Run{ID: "job", EndedAt: ended}, nil).ID == endOf(ledger.Run{ID: "job", EndedAt: ended.Add(time.Second)}, nil).ID {
		t.Error("two ends have one id")
	}
}
