package main

import (
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"orgops/internal/redistest"
)

// linkMode is how a link treats the data that it forwards.
type linkMode int

const (
	intact      linkMode = iota
	severed              // connections are reset, new ones too
	stalled              // nothing passes until the mode changes; then all of it arrives
	blackholed           // data is discarded; no connection ends
	answersLost          // requests arrive, answers are lost
)

var linkFaults = map[linkMode]string{severed: "cut", stalled: "stalled", blackholed: "blackholed",
	answersLost: "answers lost"}

// link is a TCP proxy. When the mode changes, it resets connections that lost bytes.
type link struct {
	addr     string
	target   string
	listener net.Listener
	carrying sync.WaitGroup

	mu      sync.Mutex
	mode    linkMode
	changed chan struct{} // closed when the mode changes
	carried map[*carried]bool
}

// carried is a connection from the client, near, to the target, far.
type carried struct {
	near, far *net.TCPConn
	spoiled   bool // bytes were lost
	held      bool // a request is held back
}

func newLink(t *testing.T, target string) *link {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{addr: listener.Addr().String(), target: target, listener: listener, changed: make(chan struct{}),
		carried: map[*carried]bool{}}
	l.carrying.Go(l.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		l.set(severed)
		l.carrying.Wait()
	})
	return l
}

// cutOff returns a link to the test's Redis that is severed, and its URL.
func cutOff(t *testing.T) (l *link, url string) {
	t.Helper()
	redistest.Single(t, "the link leads to one")
	options, err := redis.ParseURL(redistest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	l = newLink(t, options.Addr)
	l.set(severed)
	return l, strings.Replace(redistest.URL(t), options.Addr, l.addr, 1)
}

func (l *link) accept() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.carrying.Go(func() { l.carry(near.(*net.TCPConn)) })
	}
}

func (l *link) carry(near *net.TCPConn) {
	far, err := net.Dial("tcp", l.target)
	if err != nil {
		reset(near)
		return
	}
	c := &carried{near: near, far: far.(*net.TCPConn)}
	l.mu.Lock()
	l.carried[c] = true
	if l.mode == severed {
		c.reset()
	}
	l.mu.Unlock()
	var requests sync.WaitGroup
	requests.Go(func() {
		l.pump(c, c.near, c.far, true)
		_ = c.far.Close()
	})
	l.pump(c, c.far, c.near, false)
	_ = c.near.Close()
	requests.Wait()
	l.mu.Lock()
	delete(l.carried, c)
	l.mu.Unlock()
}

func (l *link) pump(c *carried, from, to *net.TCPConn, requests bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && l.passes(c, requests) {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// passes reports whether bytes that were read are to be sent on. It returns when the link is
// not stalled.
func (l *link) passes(c *carried, requests bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.mode == stalled {
		c.held = c.held || requests
		changed := l.changed
		l.mu.Unlock()
		<-changed
		l.mu.Lock()
	}
	lost := l.mode == blackholed || l.mode == answersLost && !requests
	c.spoiled = c.spoiled || lost
	return !lost
}

// set changes the mode and returns the number of connections with delayed requests.
func (l *link) set(mode linkMode) (held int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mode = mode
	close(l.changed)
	l.changed = make(chan struct{})
	for c := range l.carried {
		if c.held {
			held++
		}
		c.held = false
		if c.spoiled || mode == severed {
			c.reset()
		}
	}
	return held
}

func (c *carried) reset() {
	reset(c.near)
	reset(c.far)
}

// reset closes a connection as a crash does.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}
