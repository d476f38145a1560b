package pace_test

import (
	"testing"
	"time"

	"orgops/internal/pace"
	"orgops/internal/redistest"
)

func TestClientLimit(t *testing.T) {
	rdb := redistest.New(t)
	l := pace.NewClientLimit(rdb, "default")
	lower := func(setting, to int, want bool) {
		t.Helper()
		if got, err := l.Lower(t.Context(), setting, to); err != nil || got != want {
			t.Errorf("lower to %d: %t, %v; want %t", to, got, err, want)
		}
	}
	wantInUse := func(l *pace.ClientLimit, setting, want int) {
		t.Helper()
		if got, err := l.InUse(t.Context(), setting); err != nil || got != want {
			t.Errorf("under the setting %d: %d, %v; want %d", setting, got, err, want)
		}
	}
	wantInUse(l, 100, 100)
	lower(100, 100, false)
	lower(100, 50, true)
	wantInUse(pace.NewClientLimit(rdb, "default"), 100, 50) // another worker's
	lower(100, 60, false)
	lower(100, 50, false)
	lower(100, 10, true)
	wantInUse(l, 100, 10)
	wantInUse(l, 50, 50) // an operator has changed it
	wantInUse(pace.NewClientLimit(rdb, "other"), 100, 100)

	const key = "orgops:v1:{tenant:default}:clients_per_request:100"
	if left := rdb.PTTL(t.Context(), key).Val(); left <= 23*time.Hour || left > 24*time.Hour {
		t.Errorf("it is forgotten after %v, want a day", left)
	}
	for stored, want := range map[string]int{"0": 1, "-5": 1, "1000": 100} {
		if err := rdb.Set(t.Context(), key, stored, 0).Err(); err != nil {
			t.Fatal(err)
		}
		wantInUse(l, 100, want)
	}
	if err := rdb.Set(t.Context(), key, "many", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := l.InUse(t.Context(), 100); err == nil {
		t.Errorf("read as %d, want an error", got)
	}
}
