package deliveries_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"orgops/internal/deliveries"
)

// TestAttempts: a lost lease is an attempt, as a delivery that kills its worker must end.
func TestAttempts(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{asynq.ErrLeaseExpired, true},
		{errors.New("x"), true},
		{deliveries.Verdict(false), false},
		{deliveries.Verdict(true), true},
	} {
		if got := deliveries.IsFailure(tt.err); got != tt.want {
			t.Errorf("%v: an attempt: %t, want %t", tt.err, got, tt.want)
		}
	}
}

// TestBackoff: a lost lease, and other errors of asynq's own, are followed by the delays of
// attempts that failed, of whole seconds.
func TestBackoff(t *testing.T) {
	for retried, want := range map[int]time.Duration{0: 5 * time.Second, 1: 30 * time.Second, 6: 2 * time.Hour,
		7: 4 * time.Hour, 39: 4 * time.Hour} {
		for range 50 {
			got := deliveries.RetryDelay(retried, asynq.ErrLeaseExpired, nil)
			if got != got.Truncate(time.Second) || got < want*9/10 || got > want*11/10+time.Second {
				t.Fatalf("attempt %d: %v, want %v by a tenth", retried, got, want)
			}
		}
	}
}

// TestMaxRetry: asynq's Lua scripts and its messages hold 32 bits.
func TestMaxRetry(t *testing.T) {
	if deliveries.MaxRetry >= math.MaxInt32 || deliveries.MaxRetry < 1<<20 {
		t.Errorf("max retry is %d: want it out of reach and below 2^31", deliveries.MaxRetry)
	}
}
