package sandbox

import (
	"cmp"
	"iter"
	"slices"
)

// ordered is a map in the order of insertion, which is read by pages. Each value has a
// number that never changes, so that a page continues after the former one even if values
// were added or removed.
type ordered[T any] struct {
	places []*place[T] // numbers rise
	byKey  map[string]*place[T]
	last   int64 // the highest number given
}

type place[T any] struct {
	number int64
	value  T
}

// put adds a value, or replaces the value of that key in its place.
func (s *ordered[T]) put(key string, value T) {
	if p, ok := s.byKey[key]; ok {
		p.value = value
		return
	}
	if s.byKey == nil {
		s.byKey = map[string]*place[T]{}
	}
	s.last++
	p := &place[T]{number: s.last, value: value}
	s.byKey[key] = p
	s.places = append(s.places, p)
}

func (s *ordered[T]) get(key string) (value T, ok bool) {
	p, ok := s.byKey[key]
	if !ok {
		return value, false
	}
	return p.value, true
}

func (s *ordered[T]) remove(key string) {
	if p, ok := s.byKey[key]; ok {
		i := s.after(p.number - 1)
		s.places = slices.Delete(s.places, i, i+1)
		delete(s.byKey, key)
	}
}

// after returns the index of the first value with a higher number.
func (s *ordered[T]) after(number int64) int {
	i, _ := slices.BinarySearchFunc(s.places, number+1, func(p *place[T], n int64) int { return cmp.Compare(p.number, n) })
	return i
}

func (s *ordered[T]) all() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, p := range s.places {
			if !yield(p.value) {
				return
			}
		}
	}
}

// page returns at most take values after a number, as see converts them; see may skip
// values. next is the number after which the next page begins, 0 if there is none.
func page[T, V any](s *ordered[T], after int64, take int, see func(T) (V, bool)) (found []V, next int64) {
	found = []V{} // not null in JSON
	number := after
	for _, p := range s.places[s.after(after):] {
		v, ok := see(p.value)
		if !ok {
			continue
		}
		if len(found) == take {
			return found, number
		}
		found = append(found, v)
		number = p.number
	}
	return found, 0
}
