package dnscheck

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Who a resolver is, is settled by its certificate (RFC 8310: strict): no answer is better than one from somebody else, so that nothing
// is ever asked in the clear instead.

// tlsConfig wants a certificate for the resolver's name or address, by the roots given; nil: the system's.
func tlsConfig(r Resolver, roots *x509.CertPool) *tls.Config {
	return &tls.Config{ServerName: r.certified(), RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// overTLS opens connections of DNS over TLS.
func overTLS(d dialer, r Resolver, roots *x509.CertPool) func(ctx context.Context) (net.Conn, error) {
	config := tlsConfig(r, roots)
	return func(ctx context.Context) (net.Conn, error) {
		conn, err := d.DialContext(ctx, transportTCP, r.Addr.String())
		if err != nil {
			return nil, err
		}
		under := &gathering{Conn: conn}
		secure := tls.Client(under, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close() // the handshake's error tells more
			return nil, handshakeError(err)
		}
		return &recorded{secure, under}, nil
	}
}

// recorded puts each of the queries that are written together into a TLS record of its own: a server may take one message out of
// a record, and the next only when more comes (NSD 4.6 does).
type recorded struct {
	*tls.Conn

	under *gathering
}

// Write writes messages with their lengths before them, all in one go.
func (r *recorded) Write(batch []byte) (int, error) {
	r.under.hold()
	for rest := batch; len(rest) > 0; {
		next := 2 + int(binary.BigEndian.Uint16(rest))
		if _, err := r.Conn.Write(rest[:next]); err != nil {
			return len(batch) - len(rest), err
		}
		rest = rest[next:]
	}
	return len(batch), r.under.release()
}

// gathering is a connection that holds back what is written, from hold to release: many records go out in one write.
type gathering struct {
	net.Conn

	mu      sync.Mutex // also across a write: whatever is written next comes after it
	holding bool
	held    []byte
}

// Write writes, or holds back.
func (g *gathering) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.holding {
		return g.Conn.Write(b)
	}
	g.held = append(g.held, b...)
	return len(b), nil
}

func (g *gathering) hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holding = true
}

func (g *gathering) release() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, err := g.Conn.Write(g.held)
	g.holding, g.held = false, g.held[:0]
	return err
}

// ErrCertificate is in the error of a resolver whose certificate is not valid for its name.
var ErrCertificate = errors.New("the resolver's certificate is not valid")

// handshakeError words what is wrong with a certificate: its names are a stranger's text.
func handshakeError(err error) error {
	if wrong, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return &exchangeError{reason: ReasonUnreachable, err: fmt.Errorf("%w: %s", ErrCertificate, shown(wrong.Err.Error(), 200))}
	}
	return err
}

const (
	dnsMessage  = "application/dns-message" // RFC 8484 section 6
	mostMessage = 1<<16 - 1                 // bytes of a DNS message
)

// posts carries queries in HTTP requests (RFC 8484), over one connection by HTTP/2 where the server has it.
type posts struct {
	url    string
	client *http.Client

	life    context.Context // ends with close
	end     context.CancelFunc
	dialer  dialer
	addr    string
	timeout time.Duration

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
}

func newPosts(d dialer, r Resolver, roots *x509.CertPool, timeout time.Duration) *posts {
	life, end := context.WithCancel(context.Background())
	p := &posts{life: life, end: end, dialer: d, addr: r.Addr.String(), timeout: timeout, conns: make(map[net.Conn]bool)}
	host := r.certified()
	if port := r.Addr.Port(); port != defaultHTTPSPort || strings.Contains(host, ":") {
		host = net.JoinHostPort(host, strconv.Itoa(int(port)))
	}
	p.url = (&url.URL{Scheme: "https", Host: host, Path: r.path()}).String()
	p.client = &http.Client{
		Transport: &http.Transport{
			Proxy:               nil, // it would see the queries, and answer them: whoever wants one names it as the resolver
			DialContext:         func(context.Context, string, string) (net.Conn, error) { return p.open() },
			TLSClientConfig:     tlsConfig(r, roots),
			TLSHandshakeTimeout: timeout,
			ForceAttemptHTTP2:   true,
			HTTP2:               &http.HTTP2Config{SendPingTimeout: timeout, PingTimeout: timeout}, // finds out connections that died unsaid
			MaxIdleConnsPerHost: mostLines,
			IdleConnTimeout:     idleLine,
			DisableCompression:  true,
		},
		// Where the resolver is, is a setting; nobody moves it.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return p
}

// open dials the one address there is, whatever look waits for it: the next one will use the connection.
func (p *posts) open() (net.Conn, error) {
	limited, cancel := context.WithTimeout(p.life, p.timeout)
	defer cancel()
	conn, err := p.dialer.DialContext(limited, transportTCP, p.addr)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = conn.Close() // unused
		return nil, errClosed
	}
	p.conns[conn] = true
	return &counted{conn, p}, nil
}

// counted is a connection that is known till it is closed.
type counted struct {
	net.Conn

	posts *posts
}

// Close closes the connection.
func (c *counted) Close() error {
	c.posts.mu.Lock()
	defer c.posts.mu.Unlock()
	delete(c.posts.conns, c.Conn)
	return c.Conn.Close()
}

// carry posts the query. Where a connection that was kept turns out to be broken, it is posted once more.
func (p *posts) carry(ctx context.Context, q query) (reply, error, error) {
	q.padded = true
	message, err := q.pack(0) // RFC 8484 section 4.1: one id for all, HTTP tells replies apart
	if err != nil {
		return reply{}, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	raw, kept, err := p.post(ctx, message)
	if _, answered := errors.AsType[*exchangeError](err); err != nil && !answered && kept && ctx.Err() == nil {
		raw, _, err = p.post(ctx, message)
	}
	if err != nil {
		return reply{}, nil, err
	}
	r, err := parseReply(raw, 0, q.name, q.kind)
	if err != nil {
		return reply{}, nil, &exchangeError{reason: ReasonMalformed, err: err}
	}
	return r, nil, nil
}

// post sends a message and brings back what was answered; kept tells whether the connection was an earlier one.
func (p *posts) post(ctx context.Context, message []byte) (raw []byte, kept bool, err error) {
	var reused atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused.Store(info.Reused) }})
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(message))
	if err != nil {
		return nil, false, err
	}
	request.Header.Set("Content-Type", dnsMessage)
	request.Header.Set("Accept", dnsMessage)
	request.Header.Set("User-Agent", "") // it is nobody's business
	response, err := p.client.Do(request)
	if err != nil {
		if outer, ok := errors.AsType[*url.Error](err); ok {
			err = outer.Err
		}
		return nil, reused.Load(), handshakeError(err)
	}
	defer response.Body.Close()
	raw, err = readPosted(response)
	return raw, reused.Load(), err
}

// readPosted reads a response, if it is one that holds a DNS message.
func readPosted(response *http.Response) ([]byte, error) {
	if response.StatusCode != http.StatusOK {
		return nil, &exchangeError{reason: ReasonRefused, err: fmt.Errorf("the resolver answered HTTP %d where 200 is wanted (redirects are not followed)", response.StatusCode)}
	}
	kind := response.Header.Get("Content-Type")
	if media, _, err := mime.ParseMediaType(kind); err != nil || media != dnsMessage {
		return nil, &exchangeError{reason: ReasonMalformed, err: fmt.Errorf("the resolver answered with content of type %s where %s is wanted", shown(kind, 60), dnsMessage)}
	}
	raw, err := io.ReadAll(io.LimitReader(response.Body, mostMessage+1))
	switch {
	case err != nil:
		return nil, err
	case len(raw) > mostMessage:
		return nil, &exchangeError{reason: ReasonMalformed, err: fmt.Errorf("the resolver answered with more than the %d bytes that a message can have", mostMessage)}
	}
	return raw, nil
}

func (p *posts) close() {
	p.end()
	p.mu.Lock()
	p.closed = true
	for conn := range p.conns {
		_ = conn.Close() // nobody waits for anything on it any more
	}
	p.mu.Unlock()
	p.client.CloseIdleConnections()
}
