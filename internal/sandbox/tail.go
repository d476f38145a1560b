package sandbox

import "slices"

// tail remembers the last things of a sequence and numbers all of them from
// 1, those that it has forgotten too.
type tail[T any] struct {
	kept      int // so many at least are remembered, twice as many at most
	things    []T
	forgotten int64
}

// next is the number of the thing that is added next.
func (t *tail[T]) next() int64 { return t.forgotten + int64(len(t.things)) + 1 }

func (t *tail[T]) add(thing T) {
	if len(t.things) >= 2*t.kept {
		t.things = slices.Clone(t.things[t.kept:]) // the old array goes, not every time one element
		t.forgotten += int64(t.kept)
	}
	t.things = append(t.things, thing)
}

// at is the thing of that number; nil: it is forgotten.
func (t *tail[T]) at(number int64) *T {
	if number <= t.forgotten || number >= t.next() {
		return nil
	}
	return &t.things[number-t.forgotten-1]
}

// since copies what comes after that number, of the last kept things.
func (t *tail[T]) since(number int64) []T {
	from := max(number-t.forgotten, int64(len(t.things)-t.kept), 0)
	if from >= int64(len(t.things)) {
		return nil
	}
	return slices.Clone(t.things[from:])
}
