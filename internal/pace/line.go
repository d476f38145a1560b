package pace

import (
	"slices"
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
	Scan                // finds rows: those that are there already go first
	Sweep               // reads for a sweep; limited to a share of the rate
	classes
)

// turns is after how many permits each class has been the first one once, so that no class waits
// forever.
const turns = 9

// line is the queue of one process: one place at a time has the turn, and requests a permit of
// Redis. The next turn has the best class that waits; within a class the order is that of
// arrival. A better place takes the turn from one that only waits with it. The zero line is
// ready.
type line struct {
	mu      sync.Mutex
	holder  *place
	waiting [classes][]*place
	served  int // permits
	// sweepsFrom is until when sweeps get no permit although others may.
	sweepsFrom time.Time
}

// place is the place of a request in the line.
type place struct {
	line  *line
	class Class
	turn  chan struct{} // receives when the turn begins
	yield chan struct{} // receives when another place should have the turn
}

func (l *line) enter(c Class) *place {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &place{line: l, class: c, turn: make(chan struct{}, 1), yield: make(chan struct{}, 1)}
	l.waiting[c] = append(l.waiting[c], p)
	if l.holder == nil {
		l.next()
	} else if l.rank(c) < l.rank(l.holder.class) {
		select {
		case l.holder.yield <- struct{}{}:
		default: // it was sent before
		}
	}
	return p
}

// rank orders the classes for the next permit: the smallest is served first.
func (l *line) rank(c Class) int {
	switch {
	case c == Sweep && time.Now().Before(l.sweepsFrom):
		return int(classes)
	case l.served%turns == turns-int(classes-c): // its turn to be the first
		return -1
	}
	return int(c)
}

// next gives the turn to the best place that waits, if one does.
func (l *line) next() {
	l.holder = nil
	best := classes
	for c := range classes {
		if len(l.waiting[c]) > 0 && (best == classes || l.rank(c) < l.rank(best)) {
			best = c
		}
	}
	if best < classes {
		l.holder = l.waiting[best][0]
		l.waiting[best] = l.waiting[best][1:]
		l.holder.turn <- struct{}{}
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
	l.waiting[p.class] = slices.Insert(l.waiting[p.class], 0, p)
	l.next()
}

// inVain lets the other classes go before the sweeps, which get no permit for so long, and reports
// whether one of them waits.
func (l *line) inVain(wait time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweepsFrom = time.Now().Add(wait)
	return len(l.waiting[Finish])+len(l.waiting[Look])+len(l.waiting[Scan]) > 0
}

// leave gives the place up; the next turn begins if it had the turn. served reports whether it
// got a permit. Call it once.
func (p *place) leave(served bool) {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if served {
		l.served++
	}
	if l.holder == p {
		l.next()
		return
	}
	l.waiting[p.class] = slices.DeleteFunc(l.waiting[p.class], func(other *place) bool { return other == p })
}

// entering returns the number of places before a new one of that class. One of a later class is not
// before it, also if it has the turn.
func (l *line) entering(c Class) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder != nil && l.holder.class <= c {
		n = 1
	}
	for class := range c + 1 {
		n += len(l.waiting[class])
	}
	return n
}
