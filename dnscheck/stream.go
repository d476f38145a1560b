package dnscheck

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// mostLines is how many connections to one resolver there are at most: one carries thousands of queries at a time, the
	// others help where one is slow to be read (RFC 7766 section 6.2.2 asks for few).
	mostLines = 4
	// lineLoad is how many queries wait on one line before another is opened.
	lineLoad = 64
	// idleLine is how long a connection is kept that carries nothing (RFC 7766 section 6.2.3: seconds). Looks come in bursts,
	// and public resolvers hang up after about as long.
	idleLine = 10 * time.Second
	// mostWaiting is how many queries of one line may be unanswered, those that were given up among them: their ids cannot be
	// used again.
	mostWaiting = 4096
)

// errClosed is what a query meets once the Checker was closed.
var errClosed = errors.New("the checker is closed")

// carrier carries queries to one resolver over connections that it keeps from look to look.
type carrier interface {
	// carry sends a query and waits for its reply till its time is up or the context ends. passedOver is as in converse.
	carry(ctx context.Context, q query) (r reply, passedOver, err error)
	// close returns when nothing is running any more. The exchange's life has ended, and the connections with it.
	close()
}

// keep makes ready what carries queries to a resolver over connections that are kept; it opens none.
func (x *exchange) keep(r Resolver, roots *x509.CertPool) {
	d := tether{dialer: x.dialer, life: x.life, timeout: x.timeout, addr: r.Addr.String()}
	switch r.Transport {
	case transportTCP:
		x.kept[r.Addr] = newLines(d, false)
	case transportTLS:
		d.config = tlsConfig(r, roots)
		x.kept[r.Addr] = newLines(d, true)
	case transportHTTPS:
		d.config = tlsConfig(r, roots, "h2", "http/1.1")
		x.kept[r.Addr] = newPosts(d, r)
	}
}

func (x *exchange) close() {
	x.end()
	for _, kept := range x.kept {
		kept.close()
	}
}

// tether opens connections to one address. They, and dials under way, end with the exchange's life, and not with the look
// that caused them: the next one will use the connection.
type tether struct {
	dialer
	life    context.Context
	timeout time.Duration
	addr    string
	config  *tls.Config // nil: in the clear
}

func (d tether) open() (net.Conn, error) {
	ctx, cancel := context.WithTimeout(d.life, d.timeout)
	defer cancel()
	raw, err := d.DialContext(ctx, transportTCP, d.addr)
	if err != nil {
		return nil, err
	}
	conn := tethered{raw, context.AfterFunc(d.life, func() { _ = raw.Close() })}
	if d.config == nil {
		return conn, nil
	}
	secure := tls.Client(conn, d.config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // the handshake's error tells more
		return nil, handshakeError(err)
	}
	return secure, nil
}

// tethered is a connection that the end of life closes, until it is closed.
type tethered struct {
	net.Conn

	untie func() bool
}

// Close closes the connection.
func (c tethered) Close() error {
	c.untie()
	return c.Conn.Close()
}

// lines are connections to one resolver: queries go out at once, one after the other, and replies come in whatever order
// (RFC 7766 section 6.2.1.1, 7858 section 3.4), matched by their ids.
type lines struct {
	tether
	padded  bool
	running sync.WaitGroup

	mu    sync.Mutex // of all below, lines and waiters too; never held across a read, a write or a dial
	all   map[*line]bool
	begun int
}

// line is one connection. Its goroutines open it, write and read.
type line struct {
	number int
	out    chan []byte   // to be written
	gone   chan struct{} // closed when the line is; why and latest hold from then on
	why    error
	latest int // the highest number that a line had then

	conn    net.Conn           // nil until it is open
	waiting map[uint16]*waiter // nil: given up, the reply may still come
}

// waiter is a query that is out.
type waiter struct {
	id         uint16
	query      query
	first      bool       // the line was begun for it
	reply      chan reply // has room for the one that comes
	passedOver error
}

func newLines(d tether, padded bool) *lines {
	return &lines{tether: d, padded: padded, all: make(map[*line]bool)}
}

// carry asks over a line that is open, or a new one. Where the line breaks, the query is asked once more, over one that
// was begun since: servers close connections when they like (RFC 7766 section 6.2.4).
func (p *lines) carry(ctx context.Context, q query) (reply, error, error) {
	q.padded = p.padded
	end := time.NewTimer(p.timeout)
	defer end.Stop()
	r, passedOver, broken, err := p.try(ctx, end.C, q, 0)
	if broken > 0 && ctx.Err() == nil {
		before := passedOver
		r, passedOver, _, err = p.try(ctx, end.C, q, broken)
		passedOver = cmp.Or(passedOver, before)
	}
	return r, passedOver, err
}

// try asks over a line with a higher number than after. Where the line broke before the reply came, and the query is to
// be asked once more, broken is the highest number that there was then.
func (p *lines) try(ctx context.Context, end <-chan time.Time, q query, after int) (r reply, passedOver error, broken int, err error) {
	message, err := q.pack(0)
	if err != nil {
		return reply{}, nil, 0, err
	}
	l, w, err := p.join(q, after)
	if err != nil {
		return reply{}, nil, 0, err
	}
	binary.BigEndian.PutUint16(message, w.id)
	message = framed(message)
	out := l.out
	for {
		select {
		case out <- message:
			out = nil // sent; from here on it blocks
		case r := <-w.reply:
			return r, nil, 0, nil
		case <-l.gone:
			return p.lost(l, w)
		case <-end:
			p.leave(l, w)
			return reply{}, w.passedOver, 0, os.ErrDeadlineExceeded
		case <-ctx.Done():
			p.leave(l, w)
			return reply{}, w.passedOver, 0, ctx.Err()
		}
	}
}

// lost is what becomes of a query whose line is gone; its reply may have come last.
func (p *lines) lost(l *line, w *waiter) (r reply, passedOver error, broken int, err error) {
	select {
	case r := <-w.reply:
		return r, nil, 0, nil
	default:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// A query that came later to a line that could not be opened has had no attempt of its own.
	if (l.conn != nil || !w.first) && p.life.Err() == nil {
		broken = l.latest
	}
	return reply{}, w.passedOver, broken, l.why
}

// join has a query wait at the line with the fewest, or at a new one.
func (p *lines) join(q query, after int) (*line, *waiter, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life.Err() != nil {
		return nil, nil, errClosed
	}
	var best *line
	var usable int
	for l := range p.all {
		if len(l.waiting) >= mostWaiting {
			continue // it is closed once nothing more is heard
		}
		if usable++; l.number > after && (best == nil || len(l.waiting) < len(best.waiting)) {
			best = l
		}
	}
	first := best == nil || len(best.waiting) >= lineLoad && usable < mostLines
	if first {
		p.begun++
		best = &line{number: p.begun, out: make(chan []byte, lineLoad), gone: make(chan struct{}), waiting: make(map[uint16]*waiter)}
		p.all[best] = true
		p.running.Go(func() { p.run(best) })
	}
	w := &waiter{id: randomID(), query: q, first: first, reply: make(chan reply, 1)}
	for taken := true; taken; {
		if _, taken = best.waiting[w.id]; taken {
			w.id++
		}
	}
	best.waiting[w.id] = w
	if len(best.waiting) == 1 {
		p.listen(best)
	}
	return best, w, nil
}

// leave gives a query up.
func (p *lines) leave(l *line, w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.waiting[w.id] == w { // else it was answered just now
		l.waiting[w.id] = nil
	}
}

// listen sets how long the line may be silent from now on: it may be dead without anybody having said so.
func (p *lines) listen(l *line) {
	silence := idleLine
	if len(l.waiting) > 0 {
		silence = p.timeout
	}
	if l.conn != nil {
		_ = l.conn.SetReadDeadline(time.Now().Add(silence)) // if it fails, so does what follows
	}
}

// drop ends a line.
func (p *lines) drop(l *line, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.all[l] {
		return
	}
	delete(p.all, l)
	l.why, l.latest = why, p.begun
	close(l.gone)
	conn := l.conn
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn() // TLS would wait for its farewell to be taken
	}
	if conn != nil {
		_ = conn.Close() // nothing is lost with it: replies were read, or given up
	}
}

// run opens the line, and reads from it to its end.
func (p *lines) run(l *line) {
	conn, err := p.open()
	if err != nil {
		p.drop(l, err)
		return
	}
	p.mu.Lock()
	l.conn = conn
	p.listen(l)
	p.mu.Unlock()
	p.running.Go(func() { p.write(l) })
	receive := frames(bufio.NewReader(conn))
	for {
		raw, err := receive()
		if err != nil {
			p.drop(l, err)
			return
		}
		p.deliver(l, raw)
	}
}

// write writes what queries there are. Each is a TLS record of its own: a server may take one message out of a record, and
// the next only when more comes (NSD 4.6 does).
func (p *lines) write(l *line) {
	for {
		select {
		case <-l.gone:
			return
		case message := <-l.out:
			_ = l.conn.SetWriteDeadline(time.Now().Add(p.timeout)) // if it fails, so does what follows
			if _, err := l.conn.Write(message); err != nil {
				p.drop(l, err)
				return
			}
		}
	}
}

// deliver brings a message to whoever waits for it. What is nobody's is passed over.
func (p *lines) deliver(l *line, raw []byte) {
	if len(raw) < headerOctets {
		return
	}
	id := binary.BigEndian.Uint16(raw)
	p.mu.Lock()
	w := l.waiting[id]
	if w == nil {
		delete(l.waiting, id) // the reply to a query that was given up, if it is one
	}
	p.listen(l)
	p.mu.Unlock()
	if w == nil {
		return
	}
	r, err := parseReply(raw, w.id, w.query.name, w.query.kind)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case errors.Is(err, errStray) || l.waiting[w.id] != w:
	case err != nil:
		w.passedOver = err
	default:
		delete(l.waiting, w.id)
		p.listen(l)
		w.reply <- r
	}
}

func (p *lines) close() {
	p.mu.Lock()
	open := slices.Collect(maps.Keys(p.all))
	p.mu.Unlock()
	for _, l := range open {
		p.drop(l, errClosed)
	}
	p.running.Wait()
}
