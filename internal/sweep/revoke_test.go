package sweep_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/redistest"
	"orgops/internal/sweep"
)

// gone returns the states of lost domains of an operator.
func gone(operator string, n int) (all []sweep.DomainState) {
	for i := range n {
		s := absent(fmt.Sprintf("org_%s%d", operator, i), 7, 8)
		s.Absence.Operator, s.Absence.Lost = operator, s.At
		all = append(all, s)
	}
	return all
}

func revokedAt(states []sweep.DomainState, at time.Time) []sweep.DomainState {
	for i := range states {
		states[i].Operator, states[i].Absence = states[i].Absence.Operator, nil
		states[i].Revoked = &sweep.Revocation{Set: sweep.Unroute, Run: "run1", At: at, DoneAt: at}
	}
	return states
}

// TestSelect checks which domains go together.
func TestSelect(t *testing.T) {
	join := func(all ...[]sweep.DomainState) (joined []sweep.DomainState) {
		for _, some := range all {
			joined = append(joined, some...)
		}
		return joined
	}
	at := day0.Add(8 * day)
	risk := gone("dns", 9)
	for i := range risk {
		risk[i].Absence.Lost, risk[i].Absence.Checks = time.Time{}, 1
	}
	protected := gone("dns", 1)
	protected[0].OrganizationID = "org_bank"
	for _, test := range []struct {
		name      string
		states    []sweep.DomainState
		organized string
		operators []string
		domains   int64 // of dns
		want      map[string]int64
		left      int // domains that are not revoked
	}{
		{"a few", gone("dns", 4), "", nil, 4, map[string]int64{"dns": 4}, 0},
		{"five of many", gone("dns", 5), "", nil, 51, map[string]int64{"dns": 5}, 0},
		{"five, a tenth", join(gone("dns", 5), gone("small", 1)), "", nil, 50, map[string]int64{"dns": 0, "small": 1}, 5},
		{"five, a tenth, by name", join(gone("dns", 5), gone("small", 1)), "", []string{"other", "dns"}, 50,
			map[string]int64{"dns": 5, "small": 1}, 0},
		{"five of an operator that is not counted", gone("dns", 5), "", nil, 0, map[string]int64{"dns": 0}, 5},
		{"operators that are not known", gone("", 30), "", nil, 0, map[string]int64{"": 30}, 0},
		{"one of an organization", gone("dns", 5), "org_dns0", nil, 50, map[string]int64{"dns": 0}, 1},
		{"one of an organization of few", gone("dns", 3), "org_dns0", nil, 50, map[string]int64{"dns": 1}, 0},
		{"with those that were revoked lately", join(gone("dns", 2), revokedAt(gone("dns", 3), at.Add(-6*day))), "", nil, 50,
			map[string]int64{"dns": 0}, 5},
		{"with those that were revoked long ago", join(gone("dns", 2), revokedAt(gone("dns", 3), at.Add(-8*day))), "", nil,
			50, map[string]int64{"dns": 2}, 3},
		{"those at risk count", join(gone("dns", 1), risk), "", nil, 50, map[string]int64{"dns": 0}, 10},
		{"those that are protected count", join(gone("dns", 4), protected), "", nil, 50, map[string]int64{"dns": 0}, 5},
		{"none", nil, "", nil, 0, map[string]int64{}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := sweep.Selection{
				Rules: sweep.Rules{Protect: []string{"org_bank"}}, Organization: test.organized, Operators: test.operators,
				Summary: sweep.Summary{Tick: day0.Add(7 * day).Unix()},
				Counts:  map[string]int64{"operator:dns": test.domains}, At: at,
			}
			for i, state := range test.states {
				s.Add(fmt.Sprintf("ord_%d", i), state)
			}
			candidates, operators := s.Select()
			chosen, got := 0, map[string]int64{}
			for _, o := range operators {
				got[o.Operator] = o.Chosen
				chosen += int(o.Chosen)
			}
			if diff := cmp.Diff(test.want, got); diff != "" || len(candidates)-chosen != test.left {
				t.Errorf("%d candidates; chosen of each operator (-want +got):\n%s", len(candidates), diff)
			}
			for i, c := range candidates {
				if (c.Unfit == "") != (i < chosen) {
					t.Errorf("candidate %d of %d that are chosen: %q", i, chosen, c.Unfit)
				}
			}
		})
	}
}

func TestMax(t *testing.T) {
	for domains, want := range map[int64]int64{0: 20, 2000: 20, 2099: 20, 2100: 21, 1_000_000: 10_000} {
		if got := (sweep.Summary{Present: domains - domains/2, Absent: domains / 2}).Max(); got != want {
			t.Errorf("of %d domains %d, want %d", domains, got, want)
		}
	}
}

// TestCountRevocation checks that no more revocations are counted in seven days than may be,
// whatever the number of processes that count, and that one counts once.
func TestCountRevocation(t *testing.T) {
	s := sweep.NewStore(redistest.New(t), "acme")
	var counted atomic.Int64
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			ok, err := s.CountRevocation(t.Context(), fmt.Sprint("row", i), day0, 20)
			if err != nil {
				t.Error(err)
			}
			if ok {
				counted.Add(1)
			}
		})
	}
	all.Wait()
	if n, err := s.Revocations(t.Context(), day0); err != nil || n != 20 || counted.Load() != 20 {
		t.Fatalf("%d are counted, and %d (%v) known; want 20", counted.Load(), n, err)
	}
	other := sweep.NewStore(redistest.New(t), "other")
	for _, step := range []struct {
		store *sweep.Store
		name  string
		after time.Duration
		most  int64
		want  bool
	}{
		{s, "new", time.Hour, 20, false},
		{s, "new", time.Hour, 21, true},
		{s, "new", 2 * time.Hour, 1, true}, // again
		{s, "newer", 7 * day, 20, false},
		{s, "newer", 7*day + time.Second, 2, true}, // those of day0 count no more
		{s, "newest", 7*day + time.Second, 2, false},
		{other, "new", 0, 1, true},
	} {
		if ok, err := step.store.CountRevocation(t.Context(), step.name, day0.Add(step.after), step.most); err != nil ||
			ok != step.want {
			t.Errorf("%s after %s with at most %d: %t, %v", step.name, step.after, step.most, ok, err)
		}
	}
	if keys := redistest.Keys(t, "*revocations*"); len(keys) != 2 || !strings.Contains(strings.Join(keys, " "), "acme") {
		t.Errorf("keys %q", keys)
	}
}
