package tasks_test

import (
	"strings"
	"testing"
	"time"

	"orgops/tasks"
)

func TestNewRunID(t *testing.T) {
	at := time.Date(2026, 11, 20, 13, 14, 15, 0, time.FixedZone("east", 3600))
	id := tasks.NewRunID(at)
	if !strings.HasPrefix(id, "20261120-121415-") {
		t.Errorf("id %q does not begin with the time in UTC", id)
	}
	if err := tasks.CheckRunID(id); err != nil {
		t.Error(err)
	}
	if tasks.NewRunID(at) == id {
		t.Error("two runs of one second have one id")
	}
}

func TestCheckNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "A-b_9": true, strings.Repeat("x", 64): true,
		"": false, strings.Repeat("x", 65): false, "a b": false, "a.b": false, "a/b": false, "a\n": false,
		"é": false, "{a}": false,
	} {
		if err := tasks.CheckRunID(name); (err == nil) != ok {
			t.Errorf("run %q: %v", name, err)
		}
	}
	for name, ok := range map[string]bool{
		"default": true, "0": true, "a-b_c": true, strings.Repeat("x", 32): true,
		"": false, strings.Repeat("x", 33): false, "Default": false, "-a": false, "_a": false, "a.b": false, "a\n": false,
	} {
		if err := tasks.CheckTenant(name); (err == nil) != ok {
			t.Errorf("tenant %q: %v", name, err)
		}
	}
	if err := tasks.CheckRunID(strings.Repeat("x", 5000)); len(err.Error()) > 300 {
		t.Errorf("the error repeats %d bytes of what was given", len(err.Error()))
	}
}
