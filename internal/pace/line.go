package pace

import (
	"container/list"
	"sync"
)

// line is the queue of one process: the first in it asks Redis, the others wait
// for their turn in the order of their coming. The zero line is ready.
type line struct {
	mu      sync.Mutex
	busy    bool
	waiting list.List // of *place
}

// place is somebody's place in the line. turn is closed when it is theirs.
type place struct {
	line    *line
	element *list.Element // nil once it is their turn
	turn    chan struct{}
}

func (l *line) enter() *place {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &place{line: l, turn: make(chan struct{})}
	if l.busy {
		p.element = l.waiting.PushBack(p)
		return p
	}
	l.busy = true
	close(p.turn)
	return p
}

// leave gives the place up; the next one's turn comes if it was this one's.
// Call it once.
func (p *place) leave() {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.element != nil {
		l.waiting.Remove(p.element)
		return
	}
	front := l.waiting.Front()
	if front == nil {
		l.busy = false
		return
	}
	next := l.waiting.Remove(front).(*place)
	next.element = nil
	close(next.turn)
}

// ahead counts those whose turn comes before, the one whose turn it is included.
func (p *place) ahead() int {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.element == nil {
		return 0
	}
	n := 1
	for e := l.waiting.Front(); e != p.element; e = e.Next() {
		n++
	}
	return n
}
