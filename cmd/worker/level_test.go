//go:build unix

package main

import (
	"strings"
	"syscall"
	"testing"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/tasks"
)

// TestLevelBySignal raises the log level of a running worker to debug and resets it.
func TestLevelBySignal(t *testing.T) {
	t.Parallel()
	redistest.NeedsLong(t, "builds the commands")
	f := assembleOn(newDesk(t), redistest.URL(t))
	worker := f.work("w")
	said := func(msg, level, runID string) bool {
		for _, line := range f.log("w") {
			if line["msg"] == msg && (level == "" || line["log_level"] == level) && (runID == "" || line["run"] == runID) {
				return true
			}
		}
		return false
	}
	looked := func(runID string) {
		t.Helper()
		f.handIn(ledger.NewRun{ID: ledger.RunID(runID)}, tasks.TypeVerify, f.box.SeedDomains(1))
		f.ended(runID)
		await(t, "the line of its end", func() bool { return said("task", "", runID) })
	}
	worker.signal(syscall.SIGUSR1)
	await(t, "the change to debug", func() bool { return said("log level changed", "DEBUG", "") })
	looked("loud")
	worker.signal(syscall.SIGUSR2)
	await(t, "the change back", func() bool { return said("log level changed", "INFO", "") })
	looked("calm")
	worker.signal(syscall.SIGTERM)
	if err := worker.wait(patience); err != nil {
		t.Errorf("it ended with %v", err)
	}
	requests := map[string]int{} // lines at debug level, by run
	for _, line := range f.log("w") {
		if id, _ := line["correlation_id"].(string); line["level"] == "DEBUG" && line["msg"] == "api request" {
			run, _, _ := strings.Cut(id, ":")
			requests[run]++
		}
	}
	if requests["loud"] == 0 || requests["calm"] != 0 {
		t.Errorf("requests logged by run: %v, want some of loud and none of calm", requests)
	}
}
