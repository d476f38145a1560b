package apiclient

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
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

// What finds out that a connection of HTTP/2 is dead, before the requests on it
// have waited for their whole time: if nothing comes for so long, it is pinged,
// and given up where that is not answered.
const (
	pingAfter   = 8 * time.Second
	pingTimeout = 5 * time.Second
)

// newTransport speaks HTTP/2 where the server does, and else HTTP/1.1 over as
// many connections as there are requests at a time, of which conns are kept.
//
// net/http would send some requests again by itself, and without a permit: see
// sending. Over HTTP/2 these are requests that the server says it has not looked at
// (REFUSED_STREAM, or above the last stream of a GOAWAY), and one that it answered
// with PROTOCOL_ERROR; over HTTP/1.1 a GET whose kept connection turned out to be
// closed, once for each connection that is kept, and any request of which nothing
// was written. To send them again does no harm: PATCH and DELETE are idempotent,
// and a POST is never among them, as without a GetBody its body cannot be had twice
// (see newRequest).
func newTransport(n Network, connect, header time.Duration, conns int) *http.Transport {
	dialer := &net.Dialer{Timeout: connect, KeepAlive: 15 * time.Second}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	t := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &countedConn{Conn: conn}, nil
		},
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: n.RootCAs},
		TLSHandshakeTimeout:    connect,
		ResponseHeaderTimeout:  header,
		MaxIdleConns:           conns,
		MaxIdleConnsPerHost:    conns,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		Protocols:              protocols,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout, WriteByteTimeout: pingTimeout},
	}
	if n.Proxy != nil {
		t.Proxy = func(r *http.Request) (*url.URL, error) { return n.Proxy(r.URL) }
	}
	return t
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

// errResend is the error of an exchange that net/http was about to send again.
var errResend = errors.New("the connection was lost before an answer came")

// sending watches one exchange. It reports whether any of the request was written:
// net/http says so only in an unexported error, and of a POST that is lost the
// difference matters. And it ends the exchange where net/http is about to send the
// request a second time, which needs a permit of its own.
type sending struct {
	stop context.CancelCauseFunc

	mu     sync.Mutex
	begins bool         // the request got a connection
	conn   *countedConn // which one, if that is its alone; nil: anything may be written to it
	before int64        // written to conn when the request got it
	resent bool         // it was about to be
}

// watch returns the context to send with; end is to be called after the exchange.
func (s *sending) watch(ctx context.Context) (_ context.Context, end func()) {
	ctx, s.stop = context.WithCancelCause(ctx)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: s.gotConn}), func() { s.stop(nil) }
}

// gotConn is called by the goroutine that sends, before anything is written.
func (s *sending) gotConn(info httptrace.GotConnInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	counted, alone := ownConn(info.Conn)
	switch {
	case s.begins:
		s.resent = true
		s.stop(errResend)
		if alone {
			// HTTP/1.1 asks the context after it has begun to write; over HTTP/2 nothing
			// is written for a context that has ended.
			_ = counted.Close()
		}
	case alone:
		s.conn, s.before = counted, counted.written.Load()
	}
	s.begins = true
}

// wasResent reports whether net/http was kept from sending the request again.
func (s *sending) wasResent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resent
}

// ownConn is the connection of ours below conn; alone says that there is one,
// and that it has one request at a time.
func ownConn(conn net.Conn) (counted *countedConn, alone bool) {
	for {
		secure, ok := conn.(*tls.Conn)
		if !ok {
			break
		}
		if secure.ConnectionState().NegotiatedProtocol == "h2" {
			return nil, false
		}
		conn = secure.NetConn()
	}
	counted, alone = conn.(*countedConn)
	return counted, alone
}

// begun reports whether anything was written since the request got a
// connection. An HTTP/1.1 connection has one request at a time, and RoundTrip
// returns an error only after the connection's writer has ended, so "false" is
// certain; over TLS the closing alert counts as well, and "true" may be caution.
// An HTTP/2 connection has many, and goes on writing after RoundTrip has
// returned: whatever got one counts as begun.
func (s *sending) begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begins && (s.conn == nil || s.conn.written.Load() > s.before)
}
