package pace

import (
	"container/list"
	"sync"
	"time"
)

// Class says how soon a request of a process is to have its permit when others
// wait too: the smaller, the sooner.
type Class int

// The classes, in their order. What finishes comes before what begins, so that
// rows end instead of many being under way.
const (
	Finish Class = iota // proves or writes
	Look                // reads for a look
	Sweep               // re-checks; held to a share of the rate besides
	classes
)

// ClassOf returns the class of a request: Sweep if it reads for a sweep, else Look if
// it reads for a look, else Finish.
func ClassOf(looks, sweeps bool) Class {
	switch {
	case sweeps:
		return Sweep
	case looks:
		return Look
	}
	return Finish
}

// patience is how many permits others get at the most before a class that waits
// gets one, but for those of other classes whose patience has ended too.
const patience = 8

// line is the queue of one process: one place at a time has the turn, and asks
// Redis. The next turn is that of the best class that waits, in the order of
// coming within it, and of a class that has been passed over patience times. A
// better one takes the turn from who only waits with it. The zero line is ready.
type line struct {
	mu      sync.Mutex
	holder  *place
	waiting [classes]list.List // of *place
	passed  [classes]int       // permits that others got while the class waited
	// notBefore is until when asking is in vain for a class alone.
	notBefore [classes]time.Time
}

// place is somebody's place in the line.
type place struct {
	line    *line
	class   Class
	element *list.Element // nil while it has the turn
	turn    chan struct{} // is sent to when it is their turn
	yield   chan struct{} // is sent to when the turn is better given to another
}

func (l *line) enter(c Class) *place {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &place{line: l, class: c, turn: make(chan struct{}, 1), yield: make(chan struct{}, 1)}
	if l.waiting[c].Len() == 0 {
		l.passed[c] = 0 // of others, who have gone
	}
	p.element = l.waiting[c].PushBack(p)
	if l.holder == nil {
		l.next()
	} else if l.best() == p && l.before(c, l.holder.class) {
		select {
		case l.holder.yield <- struct{}{}:
		default: // it was told before
		}
	}
	return p
}

// before says whether class a is to be served before class b.
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

// best is the place whose turn is next; nil: nobody waits.
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

// giveWay passes the turn on to the best of all, this place among them, which
// keeps its place before all others of its class.
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

// inVain has all other classes go before that of this place, for which asking is
// in vain for so long, and says whether one of them waits.
func (p *place) inVain(wait time.Duration) bool {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notBefore[p.class] = time.Now().Add(wait)
	best := l.best()
	return best != nil && l.before(best.class, p.class)
}

// leave gives the place up; the next turn begins if it was this one's. served
// says whether it got a permit. Call it once.
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

// entering counts the places that a new one of that class would be behind.
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

// ahead counts those whose turn comes before, as it looks now, the one whose turn
// it is included.
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
