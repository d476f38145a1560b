package sandbox

import (
	"iter"
	"slices"
	"sort"
)

// shelf keeps things under a key, in the order in which they came, and gives
// them out a page at a time. Each has a number that never changes, so that a
// page goes on where the last one ended whatever came or went between.
type shelf[T any] struct {
	places []place[T] // numbers rise
	index  map[string]int
	last   int64 // the highest number given
}

type place[T any] struct {
	number int64
	key    string
	thing  T
	empty  bool
}

// put adds a thing, or replaces the one of that key where it stands.
func (s *shelf[T]) put(key string, thing T) {
	if i, ok := s.index[key]; ok {
		s.places[i].thing = thing
		return
	}
	if s.index == nil {
		s.index = map[string]int{}
	}
	s.last++
	s.index[key] = len(s.places)
	s.places = append(s.places, place[T]{number: s.last, key: key, thing: thing})
}

func (s *shelf[T]) get(key string) (thing T, ok bool) {
	i, ok := s.index[key]
	if !ok {
		return thing, false
	}
	return s.places[i].thing, true
}

func (s *shelf[T]) has(key string) bool {
	_, ok := s.index[key]
	return ok
}

// remove takes a thing away; that it was not there does no harm.
func (s *shelf[T]) remove(key string) {
	i, ok := s.index[key]
	if !ok {
		return
	}
	s.places[i] = place[T]{number: s.places[i].number, empty: true}
	delete(s.index, key)
	if len(s.places) > 32 && len(s.index) < len(s.places)/2 {
		s.close()
	}
}

// close closes the gaps.
func (s *shelf[T]) close() {
	s.places = slices.DeleteFunc(s.places, func(p place[T]) bool { return p.empty })
	for i, p := range s.places {
		s.index[p.key] = i
	}
}

func (s *shelf[T]) all() iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for _, p := range s.places {
			if !p.empty && !yield(p.key, p.thing) {
				return
			}
		}
	}
}

// page gives at most take things that come after the number given and that
// see lets through, as see gives them; next is the number to go on after, 0
// where nothing is left.
func page[T, V any](s *shelf[T], after int64, take int, see func(T) (V, bool)) (found []V, next int64) {
	found = []V{} // a list in an answer is never null
	start := sort.Search(len(s.places), func(i int) bool { return s.places[i].number > after })
	number := after
	for _, p := range s.places[start:] {
		if p.empty {
			continue
		}
		v, ok := see(p.thing)
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
