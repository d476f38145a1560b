package status_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"orgops/internal/deliveries"
	"orgops/internal/ledger"
	"orgops/internal/obstacle"
	"orgops/internal/pace"
	"orgops/internal/status"
	"orgops/internal/sweep"
	"orgops/internal/tenant"
)

// TestTenantsInOrder checks that tenants which are held come first, then others that need
// attention, and that the summary counts them by what holds them.
func TestTenantsInOrder(t *testing.T) {
	held := func(kinds ...obstacle.Kind) (all []obstacle.Obstacle) {
		for _, kind := range kinds {
			all = append(all, obstacle.Obstacle{Kind: kind, What: "what", Fix: "fix"})
		}
		return all
	}
	all := []status.Tenant{
		{Name: "a"},
		{Name: "b", Obstacles: held(obstacle.TenantPaused)},
		{Name: "c", Sweep: &status.Sweep{Summary: sweep.Summary{Lost: 3}}},
		{Name: "d", Obstacles: held(obstacle.OperationBlocked, obstacle.OperationPaused)},
		{Name: "e", GivenUp: 2},
		{Name: "f", Obstacles: held(obstacle.NoWorker, obstacle.TenantStopped)},
		{Name: "g", Obstacles: held(obstacle.TenantStopped)},
		{Name: "i", Obstacles: held(obstacle.TenantPaused), Refused: &status.Refused{Requests: 4, Refused: 3, Long: true}},
		{Name: "h", Failing: map[string]deliveries.Failing{
			"crm": {Since: time.Unix(1_900_000_000, 0), Reason: "the receiver answered 503"}}},
	}
	slices.SortFunc(all, status.Tenant.Compare)
	var order []string
	for _, one := range all {
		order = append(order, one.Name+" "+one.State())
	}
	want := "d blocked, f without a worker, g stopped, i refused by the API, b paused by the API, c needs attention, e needs attention, h needs attention, a well"
	if got := strings.Join(order, ", "); got != want {
		t.Errorf("in order: %s\nwant %s", got, want)
	}
	want = "2 workers serve 8 tenants; 1 without a worker, 1 stopped, 1 blocked, 1 paused by the API, 1 refused by the API"
	if got := status.Summary(2, all); got != want {
		t.Errorf("summary %q, want %q", got, want)
	}
	if got, want := status.Summary(1, all[8:]), "1 worker serves 1 tenant"; got != want {
		t.Errorf("summary %q, want %q", got, want)
	}
	for _, one := range all {
		for _, w := range one.Warnings() {
			if w.Urgent != strings.Contains("c d f g i", one.Name) && w.What != "what" || w.What == "" || w.Fix == "" {
				t.Errorf("%s: %+v", one.Name, w)
			}
		}
	}
}

func TestPermits(t *testing.T) {
	one := status.Tenant{Pace: &pace.State{UsedLastMinute: 120}}
	for rate, want := range map[string]string{"10/s": "120 of 480 permits used in the last minute (25 %)",
		"unlimited": "Unlimited rate: permits are not counted"} {
		permits, err := one.Permits(tenant.Announced{Rate: rate, Burst: 10, Reserve: 20})
		if text := permits.String(); err != nil || text != want || (permits.Share() == 0.25) != (rate == "10/s") {
			t.Errorf("%s: %v, %q, %v; want %q", rate, permits.Share(), text, err, want)
		}
	}
}

func TestWorkerText(t *testing.T) {
	at := time.Unix(1_900_000_000, 0)
	s := ledger.Session{ID: "abc", Version: "1.2.3", Host: "host\x1b[1m", Tenants: []ledger.Tenant{"a", "b"}, Busy: 3,
		Places: 400, Started: at.Add(-time.Hour), SeenAt: at.Add(-4 * time.Second), Refused: true}
	got := status.WorkerText(s, at)
	want := ", version 1.2.3: 2 tenants, 3 of 400 places busy, since 2030-03-17T16:46:40Z, seen 4s ago; it refuses its changed file of tenants: see its log"
	if !strings.HasPrefix(got, "abc on host") || !strings.HasSuffix(got, want) || strings.Contains(got, "\x1b") {
		t.Errorf("%q, want %q", got, want)
	}
}
