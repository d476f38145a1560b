package apiclient

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"regexp"
	"sync/atomic"
	"time"
)

// An API that needs longer is overloaded; the caller tries again.
const (
	connectTimeout = 5 * time.Second  // of the connection, and again of its TLS handshake
	headerTimeout  = 20 * time.Second // from the end of the request to the answer's header
)

// maxHeaderBytes bounds an answer's header; real ones have some 2 KiB.
const maxHeaderBytes = 256 << 10

// idleTimeout is shorter than the minute after which common load balancers close an idle
// connection: a request on a connection that the server is closing is lost.
const idleTimeout = 45 * time.Second

// An HTTP/2 connection without traffic is pinged after pingAfter and given up after
// pingTimeout, so that requests on a dead connection fail before their whole timeout.
const (
	pingAfter   = 8 * time.Second
	pingTimeout = 5 * time.Second
)

// newTransport returns a transport that speaks HTTP/2 where the server does, and otherwise
// HTTP/1.1 over one connection for each request in progress, of which conns stay open.
//
// net/http repeats some requests by itself, without a permit; sending prevents it. Over
// HTTP/2 these are requests that the server has not processed (REFUSED_STREAM, or above
// the last stream of a GOAWAY) or answered with PROTOCOL_ERROR; over HTTP/1.1 a GET on an
// idle connection that turns out to be closed, and any request of which nothing was
// written. Repeating them is safe: PATCH and DELETE are idempotent. It repeats no POST,
// since its body cannot be read twice without GetBody (see newRequest), but
// reports why it would have: see unprocessed.
func newTransport(n Network, conns int) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	t := &http.Transport{
		DialContext:            (&net.Dialer{Timeout: connectTimeout, KeepAlive: 15 * time.Second}).DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: n.RootCAs},
		TLSHandshakeTimeout:    connectTimeout,
		ResponseHeaderTimeout:  headerTimeout,
		MaxIdleConns:           conns,
		MaxIdleConnsPerHost:    conns,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		Protocols:              protocols,
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout,
			WriteByteTimeout: pingTimeout},
	}
	if n.Proxy != nil {
		t.Proxy = func(r *http.Request) (*url.URL, error) { return n.Proxy(r.URL) }
		t.OnProxyConnectResponse = ProxyConnected
	}
	return t
}

// errResend is the error of an exchange that net/http was about to repeat.
var errResend = errors.New("the connection was lost before an answer came")

// unprocessed matches the errors of net/http about a POST that an HTTP/2 server has not
// processed: its stream is above the last one of a GOAWAY, or was refused (RFC 9113 section
// 8.7). They have no type. A PROTOCOL_ERROR, which net/http repeats too, proves nothing.
var unprocessed = regexp.MustCompile(`^http2: Transport: cannot retry err \[(` +
	`http2: Transport received Server's graceful shutdown GOAWAY|` +
	`stream error: stream ID \d+; REFUSED_STREAM; received from peer)\] after `)

// sending observes one exchange. It records whether the request got a connection, after
// which the API may receive it, and aborts the exchange when net/http takes a second
// connection to repeat the request, which needs a permit of its own.
type sending struct {
	abort context.CancelCauseFunc
	conns atomic.Int32 // that the request got: a second one is for its repetition
}

// watch returns the context to send with; the caller calls end after the exchange.
func (s *sending) watch(ctx context.Context) (_ context.Context, end func()) {
	ctx, s.abort = context.WithCancelCause(ctx)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: s.gotConn}), func() { s.abort(nil) }
}

// gotConn is called by the goroutine that sends, before it writes anything.
func (s *sending) gotConn(info httptrace.GotConnInfo) {
	if s.conns.Add(1) == 1 {
		return
	}
	s.abort(errResend)
	if !isHTTP2(info.Conn) {
		// Over HTTP/1.1 net/http checks the context after it has started to write; over
		// HTTP/2, where the connection has other requests, before.
		_ = info.Conn.Close()
	}
}

func isHTTP2(conn net.Conn) bool {
	secure, ok := conn.(*tls.Conn)
	return ok && secure.ConnectionState().NegotiatedProtocol == "h2"
}

// result reports whether the API may have received the request, and whether net/http was
// prevented from repeating it.
func (s *sending) result() (sent, resent bool) {
	n := s.conns.Load()
	return n > 0, n > 1
}
