package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestQuantile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100 - i) // 100 down to 1
	}
	tests := []struct {
		name   string
		values []time.Duration
		q      float64
		want   time.Duration
	}{
		{"of one", []time.Duration{7}, 0.5, 7},
		{"of one, the least", []time.Duration{7}, 0, 7},
		{"of two, the half", []time.Duration{9, 1}, 0.5, 1},
		{"of two, beyond the half", []time.Duration{9, 1}, 0.51, 9},
		{"of three, the half", []time.Duration{9, 1, 5}, 0.5, 5},
		{"of a hundred, the half", hundred, 0.5, 50},
		{"of a hundred, nine tenths", hundred, 0.9, 90},
		{"of a hundred, all but one", hundred, 0.99, 99},
		{"of a hundred, the largest", hundred, 1, 100},
		{"of a hundred, the smallest", hundred, 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := quantile(tt.values, tt.q); got != tt.want {
				t.Errorf("quantile %v: got %d, want %d", tt.q, got, tt.want)
			}
		})
	}
	if hundred[0] != 100 {
		t.Error("the values were sorted in place")
	}
}

func TestMedian(t *testing.T) {
	tests := []struct {
		name   string
		values []float64
		want   float64
	}{
		{"of one", []float64{3}, 3},
		{"of an odd number", []float64{9, 1, 4}, 4},
		{"of an even number", []float64{9, 1, 4, 5}, 4.5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := median(tt.values); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// The ratio is taken round by round: the machine may be slow in one of them,
// for all variants alike.
func TestSummary(t *testing.T) {
	var results []verifyResult
	for round, rates := range [][3]float64{{80, 500, 100}, {40, 250, 50}, {60, 100, 200}} {
		for i, name := range []string{variantOurs, variantNoop, variantLoop} {
			results = append(results, verifyResult{Variant: name, Round: round + 1, PerSecond: rates[i]})
		}
	}
	// Rounds begin with another variant each, so order says nothing.
	results[0], results[2], results[3], results[8] = results[8], results[3], results[0], results[2]
	want := verifySummary{Benchmark: "verify_summary", Rounds: 3, Ours: 60, Noop: 250, Loop: 100, Ratio: 0.8}
	if diff := cmp.Diff(want, summarize(results), cmp.AllowUnexported(verifySummary{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
