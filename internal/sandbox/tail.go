package sandbox

import "slices"

// tail has the last values of a sequence, and numbers all values from 1.
type tail[T any] struct {
	least   int // the number of last values that it has; it may have twice as many
	values  []T
	dropped int64
}

func (t *tail[T]) next() int64 { return t.dropped + int64(len(t.values)) + 1 }

func (t *tail[T]) add(value T) {
	if len(t.values) >= 2*t.least {
		t.values = slices.Clone(t.values[t.least:]) // frees the array, once in a while
		t.dropped += int64(t.least)
	}
	t.values = append(t.values, value)
}

// at returns the value of that number; nil: it was dropped.
func (t *tail[T]) at(number int64) *T {
	if number <= t.dropped || number >= t.next() {
		return nil
	}
	return &t.values[number-t.dropped-1]
}

// since returns a copy of the values after that number, of the last ones.
func (t *tail[T]) since(number int64) []T {
	from := max(number-t.dropped, int64(len(t.values)-t.least), 0)
	if from >= int64(len(t.values)) {
		return nil
	}
	return slices.Clone(t.values[from:])
}
