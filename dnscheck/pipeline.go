package dnscheck

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	// maxUnanswered bounds the unanswered queries of a connection. Those that were given up
	// are among them, since their ids cannot be used again.
	maxUnanswered = 4096
	// writeQueue is how many queries may wait to be written.
	writeQueue = 64
	// idleTimeout is for how long an unused connection stays open (RFC 7766 section 6.2.3).
	// Public resolvers close it after about as long.
	idleTimeout = 10 * time.Second
)

var errClosed = errors.New("the checker is closed")

// connector opens connections to one address. The end of life closes them and cancels
// dials. The end of the check that caused a dial does not: the next check uses the
// connection.
type connector struct {
	dialer
	life    context.Context
	timeout time.Duration
	addr    string
	config  *tls.Config // nil: TCP without TLS
}

func (c connector) open() (net.Conn, error) {
	ctx, cancel := context.WithTimeout(c.life, c.timeout)
	defer cancel()
	raw, err := c.DialContext(ctx, transportTCP, c.addr)
	if err != nil {
		return nil, err
	}
	conn := boundConn{raw, context.AfterFunc(c.life, func() { _ = raw.Close() })}
	if c.config == nil {
		return conn, nil
	}
	secure := tls.Client(conn, c.config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		if invalid, ok := errors.AsType[*tls.CertificateVerificationError](err); ok { // its names are foreign text
			err = &exchangeError{ReasonUnreachable, fmt.Errorf("%w: %s", ErrCertificate, shown(invalid.Err.Error(), 200))}
		}
		return nil, err
	}
	return secure, nil
}

// boundConn is a connection that the end of the connector's life closes.
type boundConn struct {
	net.Conn

	unbind func() bool
}

func (c boundConn) Close() error {
	c.unbind()
	return c.Conn.Close()
}

// tlsConfig requires a certificate for the resolver's name or address (RFC 8310, strict
// profile); nothing falls back to cleartext. roots: nil means the system's.
func tlsConfig(r Resolver, roots *x509.CertPool, protocols ...string) *tls.Config {
	return &tls.Config{ServerName: r.certified(), RootCAs: roots, MinVersion: tls.VersionTLS12, NextProtos: protocols}
}

// ErrCertificate is in the error of a resolver whose certificate is not valid for its name.
var ErrCertificate = errors.New("the resolver's certificate is not valid")

// pipeline sends the queries to one resolver over one connection, without waiting for
// earlier replies, and matches replies by their ids (RFC 7766 section 6.2.1.1, RFC 7858
// section 3.4). A connection is opened when a query needs it.
type pipeline struct {
	connector
	padded  bool
	running sync.WaitGroup

	// mu guards current and the fields of connections and queries. It is never held across
	// a read, a write or a dial.
	mu      sync.Mutex
	current *pipelineConn // nil: none is open or being opened
}

type pipelineConn struct {
	out    chan []byte   // messages to write
	broken chan struct{} // closed when the connection is; err is set then
	err    error

	conn    net.Conn                 // nil until it is open
	waiting map[uint16]*pendingQuery // by id; nil: given up, but the reply may still arrive
}

type pendingQuery struct {
	id      uint16
	query   query
	opener  bool       // the connection was opened for it
	reply   chan reply // buffered
	skipped error
}

// carry sends the query. If the connection breaks before the reply, the query is sent once
// more over a new one: servers close connections when they like (RFC 7766 section 6.2.4).
func (p *pipeline) carry(ctx context.Context, q query) (reply, error, error) {
	q.padded = p.padded
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	r, skipped, again, err := p.try(ctx, q)
	if again && ctx.Err() == nil {
		before := skipped
		r, skipped, _, err = p.try(ctx, q)
		skipped = cmp.Or(skipped, before)
	}
	return r, skipped, err
}

// try sends the query once. again: its connection broke.
func (p *pipeline) try(ctx context.Context, q query) (r reply, skipped error, again bool, err error) {
	message, err := q.pack(0)
	if err != nil {
		return reply{}, nil, false, err
	}
	c, pending, err := p.join(q)
	if err != nil {
		return reply{}, nil, false, err
	}
	binary.BigEndian.PutUint16(message, pending.id)
	message = framed(message)
	out := c.out
	for {
		select {
		case out <- message:
			out = nil // blocks from now on
		case r := <-pending.reply:
			return r, nil, false, nil
		case <-c.broken:
			return p.lost(c, pending)
		case <-ctx.Done():
			p.giveUp(c, pending)
			return reply{}, pending.skipped, false, ctx.Err()
		}
	}
}

// lost returns the result of a query whose connection broke. Its reply may have arrived just
// before. A query that joined a connection which could not be opened is sent again.
func (p *pipeline) lost(c *pipelineConn, pending *pendingQuery) (r reply, skipped error, again bool, err error) {
	select {
	case r := <-pending.reply:
		return r, nil, false, nil
	default:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	again = (c.conn != nil || !pending.opener) && p.life.Err() == nil
	return reply{}, pending.skipped, again, c.err
}

// join adds a query to the connection, and opens one if there is none.
func (p *pipeline) join(q query) (*pipelineConn, *pendingQuery, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life.Err() != nil {
		return nil, nil, errClosed
	}
	if p.current != nil && len(p.current.waiting) >= maxUnanswered {
		p.breakLocked(p.current, errors.New("too many queries without a reply"))
	}
	opener := p.current == nil
	if opener {
		c := &pipelineConn{
			out: make(chan []byte, writeQueue), broken: make(chan struct{}), waiting: make(map[uint16]*pendingQuery),
		}
		p.current = c
		p.running.Go(func() { p.run(c) })
	}
	c := p.current
	pending := &pendingQuery{id: dns.Id(), query: q, opener: opener, reply: make(chan reply, 1)}
	for _, taken := c.waiting[pending.id]; taken; _, taken = c.waiting[pending.id] {
		pending.id++
	}
	c.waiting[pending.id] = pending
	if len(c.waiting) == 1 {
		p.setReadDeadline(c)
	}
	return c, pending, nil
}

func (p *pipeline) giveUp(c *pipelineConn, pending *pendingQuery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.waiting[pending.id] == pending { // not answered meanwhile
		c.waiting[pending.id] = nil
	}
}

// run opens the connection, and reads from it until it breaks.
func (p *pipeline) run(c *pipelineConn) {
	conn, err := p.open()
	if err != nil {
		p.breakConn(c, err)
		return
	}
	p.mu.Lock()
	c.conn = conn
	p.setReadDeadline(c)
	p.mu.Unlock()
	p.running.Go(func() { p.write(c) })
	receive := frames(bufio.NewReader(conn))
	for {
		raw, err := receive()
		if err != nil {
			p.breakConn(c, err)
			return
		}
		p.deliver(c, raw)
	}
}

// write writes each message in a TLS record of its own: a server may read one message of a
// record, and the next one only when more arrives (NSD 4.6 does).
func (p *pipeline) write(c *pipelineConn) {
	for {
		select {
		case <-c.broken:
			return
		case message := <-c.out:
			_ = c.conn.SetWriteDeadline(time.Now().Add(p.timeout)) // if it fails, so does Write
			if _, err := c.conn.Write(message); err != nil {
				p.breakConn(c, err)
				return
			}
		}
	}
}

// deliver passes a message to the query that waits for it. Other messages are dropped.
func (p *pipeline) deliver(c *pipelineConn, raw []byte) {
	if len(raw) < headerSize {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.setReadDeadline(c)
	id := binary.BigEndian.Uint16(raw)
	pending := c.waiting[id]
	if pending == nil {
		delete(c.waiting, id) // if it was given up, this is its reply
		return
	}
	r, err := parseReply(raw, id, pending.query.name, pending.query.kind)
	switch {
	case errors.Is(err, errStray):
	case err != nil:
		pending.skipped = err
	default:
		delete(c.waiting, id)
		pending.reply <- r
	}
}

// setReadDeadline bounds the silence of a connection, which may be dead without a sign.
func (p *pipeline) setReadDeadline(c *pipelineConn) {
	silence := idleTimeout
	if len(c.waiting) > 0 {
		silence = p.timeout
	}
	if c.conn != nil {
		_ = c.conn.SetReadDeadline(time.Now().Add(silence)) // if it fails, so does Read
	}
}

// breakConn closes a connection. Its queries fail with err, or are sent again.
func (p *pipeline) breakConn(c *pipelineConn, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.breakLocked(c, err)
}

func (p *pipeline) breakLocked(c *pipelineConn, err error) {
	if p.current != c {
		return
	}
	p.current, c.err = nil, err
	close(c.broken)
	conn := c.conn
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn() // TLS would wait until its close-notify is read
	}
	if conn != nil {
		_ = conn.Close()
	}
}

func (p *pipeline) close() {
	p.mu.Lock()
	if p.current != nil {
		p.breakLocked(p.current, errClosed)
	}
	p.mu.Unlock()
	p.running.Wait()
}
