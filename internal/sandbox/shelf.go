package sandbox

import (
	"cmp"
	"iter"
	"slices"
)

// shelf is a map in the order in which its values came, which is read a page at a time.
// Each value has a number that never changes, so that a page goes on where the last one
// ended whatever came or went between.
type shelf[T any] struct {
	places []*place[T] // numbers rise
	byKey  map[string]*place[T]
	last   int64 // the highest number given
}

type place[T any] struct {
	number int64
	value  T
}

// put adds a value, or replaces the one of that key where it is.
func (s *shelf[T]) put(key string, value T) {
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

func (s *shelf[T]) get(key string) (value T, ok bool) {
	p, ok := s.byKey[key]
	if !ok {
		return value, false
	}
	return p.value, true
}

// remove takes a value away; that it was not there does no harm.
func (s *shelf[T]) remove(key string) {
	if p, ok := s.byKey[key]; ok {
		i := s.after(p.number - 1)
		s.places = slices.Delete(s.places, i, i+1)
		delete(s.byKey, key)
	}
}

// after is the index of the first value with a higher number.
func (s *shelf[T]) after(number int64) int {
	i, _ := slices.BinarySearchFunc(s.places, number+1, func(p *place[T], n int64) int { return cmp.Compare(p.number, n) })
	return i
}

func (s *shelf[T]) all() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, p := range s.places {
			if !yield(p.value) {
				return
			}
		}
	}
}

// page gives at most take values that come after the number given and that
// see lets through, as see gives them; next is the number to go on after, 0
// where nothing is left.
func page[T, V any](s *shelf[T], after int64, take int, see func(T) (V, bool)) (found []V, next int64) {
	found = []V{} // a list in an answer is never null
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
