package main

import (
	"testing"
	"time"

	"orgops/internal/runs"
)

// TestEndOfARunAnew: of two runs that had the same id, one after the other, each end
// is a notice of its own.
func TestEndOfARunAnew(t *testing.T) {
	ended := time.Unix(1795309323, 999)
	if id := endOf(runs.Run{ID: "job", EndedAt: ended}).ID; id != "run-job-1795309323" {
		t.Errorf("id %s", id)
	}
	if endOf(runs.Run{ID: "job", EndedAt: ended}).ID == endOf(runs.Run{ID: "job", EndedAt: ended.Add(time.Second)}).ID {
		t.Error("two ends have one id")
	}
}
