package web_test

import (
	"testing"

	"orgops/internal/web"
)

// TestPlaces has callers take places: each gets one while it has fewer than are free.
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
		{"a", 200}, {"a", 200}, {"a", 200}, {"a", 200}, {"a", 429}, // 4 are free
		{"b", 200}, {"b", 200}, {"b", 429}, {"a", 429}, {"c", 200}, {"c", 429}, {"d", 200}, {"e", 503}, {"a", 503},
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
