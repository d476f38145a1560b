package main

import (
	"math"
	"slices"
	"time"
)

// quantile is the smallest of the values such that the share q of all are not
// larger (the nearest rank): one that was measured, not one in between. values
// need not be sorted and are left as they are; there is at least one.
func quantile(values []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// median is the middle value, of an even number the mean of the two in the
// middle. There is at least one.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
