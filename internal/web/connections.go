package web

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// mostConnections bounds the connections of a server. An idle one takes 16 KB, and as much again
// with TLS. Requests in progress are bounded much lower.
const mostConnections = 1000

// connections are those of a server. If there are more than the bound, that which has been without
// a request the longest is closed: a client opens another one, if it has one to send.
type connections struct {
	most int
	mu   sync.Mutex
	all  map[net.Conn]*connection
}

// connection is the state of a connection.
type connection struct {
	serving int       // requests in progress
	since   time.Time // since when there was none
}

type connectionKey struct{}

func newConnections(most int) *connections {
	return &connections{most: most, all: map[net.Conn]*connection{}}
}

// context is [http.Server.ConnContext]: it adds a connection, and closes another one if there are
// too many. If all have requests in progress, that is the new one.
func (c *connections) context(ctx context.Context, conn net.Conn) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	added := &connection{since: time.Now()}
	c.all[conn] = added
	if len(c.all) > c.most {
		c.closeOne()
	}
	return context.WithValue(ctx, connectionKey{}, added)
}

// closeOne closes the connection that has had no request for the longest time. c.mu is held.
func (c *connections) closeOne() {
	var longest net.Conn
	for conn, state := range c.all {
		if state.serving == 0 && (longest == nil || state.since.Before(c.all[longest].since)) {
			longest = conn
		}
	}
	delete(c.all, longest)
	if encrypted, ok := longest.(*tls.Conn); ok {
		longest = encrypted.NetConn() // to say goodbye may take seconds
	}
	_ = longest.Close() // it has no request
}

// changed is [http.Server.ConnState].
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	if state == http.StateClosed || state == http.StateHijacked {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.all, conn)
	}
}

// serve serves a request of a connection.
func (c *connections) serve(h http.Handler, w http.ResponseWriter, r *http.Request) {
	of, ok := r.Context().Value(connectionKey{}).(*connection)
	if !ok {
		h.ServeHTTP(w, r)
		return
	}
	c.count(of, 1)
	defer c.count(of, -1)
	h.ServeHTTP(w, r)
}

// count counts requests that begin or end.
func (c *connections) count(of *connection, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of.serving += n
	of.since = time.Now()
}
