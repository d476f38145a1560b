package surface

import "testing"

// World is the fixed world, as its Redis has it at [Now].
type World struct{ content content }

// New makes the world.
func New(t *testing.T) *World {
	t.Helper()
	w := &World{}
	inVirtualTime(t, func(t *testing.T) {
		m := newMoment(t)
		tell(t, m)
		w.content = copyOf(t, m.mini.DB(0))
	})
	return w
}

// Show runs a test at the present of the world, with a copy of its Redis: what one test changes,
// no other one sees.
func (w *World) Show(t *testing.T, show func(t *testing.T, m *Moment)) {
	t.Helper()
	inVirtualTime(t, func(t *testing.T) {
		m := newMoment(t)
		until(Now)
		w.content.restore(t, m.mini.DB(0))
		show(t, m)
	})
}
