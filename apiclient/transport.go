package apiclient

import (
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// maxHeaderBytes bounds an answer's header; real ones have some 2 KiB.
const maxHeaderBytes = 256 << 10

// idleTimeout is shorter than the minute after which common load balancers
// close an idle connection, so that it is mostly we who close it: a request on
// a connection that the other side is closing gets lost.
const idleTimeout = 45 * time.Second

// newTransport speaks HTTP/1.1 only. Over HTTP/2 net/http re-sends requests of
// any method on some answers of the server, and one lost packet holds up every
// request of the connection.
func newTransport(connect, header time.Duration, conns int) *http.Transport {
	dialer := &net.Dialer{Timeout: connect, KeepAlive: 15 * time.Second}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &countedConn{Conn: conn}, nil
		},
		TLSHandshakeTimeout:    connect,
		ResponseHeaderTimeout:  header,
		MaxIdleConns:           conns,
		MaxIdleConnsPerHost:    conns,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		Protocols:              protocols,
	}
}

// countedConn counts what was written to it.
type countedConn struct {
	net.Conn

	written atomic.Int64
}

func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

// sending watches whether any of one request went out. net/http says so only in
// an unexported error, and of a POST that is lost the difference matters.
type sending struct {
	mu    sync.Mutex
	conns []sendingConn
}

type sendingConn struct {
	conn   *countedConn
	before int64 // written when the request got the connection
}

// watch returns the context to send with.
func (s *sending) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: s.gotConn})
}

func (s *sending) gotConn(info httptrace.GotConnInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	conn := info.Conn
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secure.NetConn()
	}
	counted, ok := conn.(*countedConn)
	if !ok {
		s.conns = append(s.conns, sendingConn{}) // not one of ours: may have sent anything
		return
	}
	s.conns = append(s.conns, sendingConn{conn: counted, before: counted.written.Load()})
}

// begun reports whether anything was written since the request got a
// connection. An HTTP/1.1 connection has one request at a time, and RoundTrip
// returns an error only after the connection's writer has ended, so "false" is
// certain; over TLS the closing alert counts as well, and "true" may be caution.
func (s *sending) begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		if c.conn == nil || c.conn.written.Load() > c.before {
			return true
		}
	}
	return false
}
