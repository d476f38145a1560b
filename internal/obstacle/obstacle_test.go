package obstacle_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/obstacle"
	"orgops/internal/pace"
	"orgops/internal/remedy"
)

// TestObstacles checks each obstacle alone, with the text that people read and the work that it
// holds: a DNS check, a scan, a read and a change.
func TestObstacles(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	works := []struct {
		name string
		obstacle.Work
	}{
		{"check", obstacle.Work{}},
		{"scan", obstacle.Work{Requests: true}},
		{"read", obstacle.Work{Requests: true, Operations: []string{"get"}}},
		{"change", obstacle.Work{Requests: true, Operations: []string{"get", "update"}}},
	}
	for _, c := range []struct {
		kind  obstacle.Kind
		state obstacle.State
		what  string
		holds []string
		total bool
	}{
		{obstacle.NoWorker, obstacle.State{Absent: &obstacle.Absence{}},
			"no worker of tenant acme has been seen on this Redis", []string{"check", "scan", "read", "change"}, true},
		{obstacle.NoWorker, obstacle.State{Absent: &obstacle.Absence{LastSeen: at}},
			"no worker of tenant acme runs since 2026-11-20T12:00:00Z",
			[]string{"check", "scan", "read", "change"}, true},
		{obstacle.TenantStopped,
			obstacle.State{Pace: pace.State{Stopped: &pace.Stop{At: at, By: "alice", Reason: "wrong file"}}},
			"the tenant is stopped by alice at 2026-11-20T12:00:00Z: wrong file", []string{"read", "change"}, true},
		{obstacle.OperationBlocked,
			obstacle.State{Pace: pace.State{Blocks: []pace.Block{{Operation: "update", Reason: "403"}}}},
			"the operation update is blocked: 403", []string{"change"}, false},
		{obstacle.OperationBlocked,
			obstacle.State{Pace: pace.State{Blocks: []pace.Block{{Operation: pace.All, Reason: "401", Since: at}}}},
			"every operation is blocked since 2026-11-20T12:00:00Z: 401", []string{"read", "change"}, true},
		{obstacle.OperationBlocked,
			obstacle.State{Token: &obstacle.NoToken{Why: remedy.With(errors.New("no token: 401"), "fix it"), Since: at}},
			"no token: 401 (since 2026-11-20T12:00:00Z)", []string{"read", "change"}, true},
		{obstacle.QueuePaused, obstacle.State{Queue: &obstacle.Queue{Name: "acme.rows", Since: at}},
			"the queue acme.rows is paused since 2026-11-20T12:00:00Z: no row is released",
			[]string{"check", "scan", "read", "change"}, true},
		{obstacle.TenantPaused, obstacle.State{Pace: pace.State{PausedUntil: at.Add(time.Hour), RefusedSince: at}},
			"the API has asked this tenant to pause (429) until 2026-11-20T13:00:00Z and has accepted no request since " +
				"2026-11-20T12:00:00Z", []string{"scan", "read", "change"}, true},
		{obstacle.OperationPaused, obstacle.State{Pace: pace.State{Pauses: []pace.Pause{
			{Operation: "update", Until: at.Add(time.Hour), RefusedSince: at}}}},
			"the API has asked to pause update (429) until 2026-11-20T13:00:00Z and has accepted no request since " +
				"2026-11-20T12:00:00Z", []string{"change"}, false},
	} {
		c.state.Tenant = "acme"
		all := c.state.Obstacles()
		if len(all) != 1 {
			t.Errorf("%s: %d obstacles %v, want one", c.what, len(all), all)
			continue
		}
		o := all[0]
		if o.Kind != c.kind || o.What != c.what || o.Fix == "" || o.Total() != c.total ||
			strings.Contains(c.what, "12:00:00Z") != o.Since.Equal(at) {
			t.Errorf("%+v, total %v; want %s, %q, total %v", o, o.Total(), c.kind, c.what, c.total)
		}
		var holds []string
		for _, w := range works {
			if o.Holds(w.Work) {
				holds = append(holds, w.name)
			}
		}
		if diff := cmp.Diff(c.holds, holds); diff != "" {
			t.Errorf("%s: holds (-want +got)\n%s", c.what, diff)
		}
	}
}

// TestOrder: the worst obstacle is the first, and a token that is refused is no second one next
// to a block.
func TestOrder(t *testing.T) {
	now := time.Now()
	s := obstacle.State{Absent: &obstacle.Absence{}, Queue: &obstacle.Queue{},
		Token: &obstacle.NoToken{Why: errors.New("401")},
		Pace: pace.State{Stopped: &pace.Stop{}, Blocks: []pace.Block{{Operation: "get"}}, PausedUntil: now,
			Pauses: []pace.Pause{{Operation: "get", Until: now}}}}
	var kinds []obstacle.Kind
	for _, o := range s.Obstacles() {
		kinds = append(kinds, o.Kind)
	}
	want := []obstacle.Kind{obstacle.NoWorker, obstacle.TenantStopped, obstacle.OperationBlocked, obstacle.QueuePaused,
		obstacle.TenantPaused, obstacle.OperationPaused}
	if !slices.Equal(kinds, want) {
		t.Errorf("kinds %v, want %v", kinds, want)
	}
}
