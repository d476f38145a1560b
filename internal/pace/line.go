package pace

import (
	"container/list"
	"sync"
	"time"
)

// Class is the priority of a request among those of its process that wait for a permit: a
// smaller class is served first.
type Class int

// The classes, in their order. Rows that can end come first, so that few are in progress.
const (
	Finish Class = iota // proves or changes a record
	Look                // reads a record for a check
	Sweep               // checks for a sweep; limited to a share of the rate
	classes
)

// ClassOf returns the class of a request: Sweep if it reads for a sweep, else Look if it reads
// for a check, else Finish.
func ClassOf(looks, sweeps bool) Class {
	switch {
	case sweeps:
		return Sweep
	case looks:
		return Look
	}
	return Finish
}

// patience is the number of permits of other classes after which a waiting class is served,
// together with other classes that have waited as long.
const patience = 8

// line is the queue of one process: one place at a time has the turn, and requests a permit of
// Redis. The next turn has the best class that waits, or one that was passed over patience
// times; within a class the order is that of arrival. A better place takes the turn from one
// that only waits with it. The zero line is ready.
type line struct {
	mu      sync.Mutex
	holder  *place
	waiting [classes]list.List // of *place
	passed  [classes]int       // permits that others got while the class waited
	// notBefore is until when a class gets no permit although others may.
	notBefore [classes]time.Time
}

// place is the place of a request in the line.
type place struct {
	line    *line
	class   Class
	element *list.Element // nil while it has the turn
	turn    chan struct{} // receives when the turn begins
	yield   chan struct{} // receives when another place should have the turn
}

func (l *line) enter(c Class) *place {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &place{line: l, class: c, turn: make(chan struct{}, 1), yield: make(chan struct{}, 1)}
	if l.waiting[c].Len() == 0 {
		l.passed[c] = 0 // of places that have left
	}
	p.element = l.waiting[c].PushBack(p)
	if l.holder == nil {
		l.next()
	} else if l.best() == p && l.before(c, l.holder.class) {
		select {
		case l.holder.yield <- struct{}{}:
		default: // it was sent before
		}
	}
	return p
}

// before reports whether class a is to be served before class b.
func (l *line) before(a, b Class) bool {
	now := time.Now()
	if vainA, vainB := now.Before(l.notBefore[a]), now.Before(l.notBefore[b]); vainA != vainB {
		return vainB
	}
	if dueA, dueB := l.passed[a] >= patience, l.passed[b] >= patience; dueA != dueB {
		return dueA
	}
	return a < b
}

// best returns the place whose turn is next; nil: none waits.
func (l *line) best() *place {
	best := classes
	for c := range classes {
		if l.waiting[c].Len() > 0 && (best == classes || l.before(c, best)) {
			best = c
		}
	}
	if best == classes {
		return nil
	}
	return l.waiting[best].Front().Value.(*place)
}

// next gives the turn to the best.
func (l *line) next() {
	l.holder = l.best()
	if p := l.holder; p != nil {
		l.waiting[p.class].Remove(p.element)
		p.element = nil
		p.turn <- struct{}{}
	}
}

// giveWay passes the turn to the best of all places, including this one, which remains the
// first of its class.
func (p *place) giveWay() {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-p.yield:
	default:
	}
	p.element = l.waiting[p.class].PushFront(p)
	l.next()
}

// inVain lets all other classes go before that of this place, which gets no permit for so long,
// and reports whether one of them waits.
func (p *place) inVain(wait time.Duration) bool {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notBefore[p.class] = time.Now().Add(wait)
	best := l.best()
	return best != nil && l.before(best.class, p.class)
}

// leave gives the place up; the next turn begins if it had the turn. served reports whether it
// got a permit. Call it once.
func (p *place) leave(served bool) {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if served {
		for c := range classes {
			if l.waiting[c].Len() > 0 && c != p.class {
				l.passed[c]++
			}
		}
		l.passed[p.class] = 0
	}
	if p.element == nil {
		l.next()
		return
	}
	l.waiting[p.class].Remove(p.element)
}

// entering returns the number of places before a new one of that class.
func (l *line) entering(c Class) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder != nil {
		n = 1
	}
	for class := range c + 1 {
		n += l.waiting[class].Len()
	}
	return n
}

// ahead returns the number of places whose turn comes before, including the present one.
func (p *place) ahead() int {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.element == nil {
		return 0
	}
	n := 1
	for c := range p.class {
		n += l.waiting[c].Len()
	}
	for e := l.waiting[p.class].Front(); e != p.element; e = e.Next() {
		n++
	}
	return n
}
