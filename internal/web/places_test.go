package web_test

import (
	"testing"

	"orgops/internal/web"
)

// TestPlaces has callers take places: each gets one while it has fewer than are free, without the
// two that are reserved for callers that have none.
func TestPlaces(t *testing.T) {
	p := web.NewPlaces("uploads", 8)
	taken := map[string][]func(){}
	take := func(caller string) int {
		free, refused := p.Take(caller)
		if refused != nil {
			if refused.Limit != "uploads" || refused.RetryAfter == 0 {
				t.Errorf("refused %+v, want the limit and when to try again", refused)
			}
			return refused.Status
		}
		taken[caller] = append(taken[caller], free)
		return 200
	}
	for i, step := range []struct {
		caller string
		want   int
	}{
		{"a", 200}, {"a", 200}, {"a", 200}, {"a", 429}, // 5 are free, 2 of them reserved
		{"b", 200}, {"b", 200}, {"b", 429}, {"a", 429}, {"c", 200}, {"c", 429}, {"d", 200}, {"e", 200}, {"f", 503},
		{"a", 429},
	} {
		if got := take(step.caller); got != step.want {
			t.Errorf("step %d, %s: %d, want %d", i, step.caller, got, step.want)
		}
	}
	for _, all := range taken {
		for _, free := range all {
			free()
			free() // without effect
		}
	}
	clear(taken)
	for range 8 { // callers that have not signed in
		if got := take(string(web.Anybody)); got != 200 {
			t.Errorf("without a sign-in: %d, want 200", got)
		}
	}
	if got := take(string(web.Anybody)); got != 503 {
		t.Errorf("one more: %d, want 503", got)
	}
}

// TestAmount: of bytes none are reserved, since a caller that has none does not need a single one.
func TestAmount(t *testing.T) {
	p := web.NewAmount("bytes", 100)
	for i, step := range []struct {
		caller string
		bytes  int
		want   bool
	}{{"a", 40, true}, {"a", 11, true}, {"a", 10, false}, {"b", 20, true}, {"b", 10, false}, {"b", 5, true}} {
		if refused := p.Add(step.caller, step.bytes); (refused == nil) != step.want {
			t.Errorf("step %d: refused %+v", i, refused)
		}
	}
}
