package tasks_test

import (
	"strings"
	"testing"
	"time"

	"orgops/internal/ids"
	"orgops/tasks"
)

func TestNewRunID(t *testing.T) {
	at := time.Date(2026, 11, 20, 13, 14, 15, 0, time.FixedZone("east", 3600))
	id := tasks.NewRunID(at)
	if !strings.HasPrefix(id, "20261120-121415-") {
		t.Errorf("id %q does not begin with the time in UTC", id)
	}
	if err := ids.CheckRun(id); err != nil {
		t.Error(err)
	}
	if tasks.NewRunID(at) == id {
		t.Error("two runs of one second have one id")
	}
}
