package dnscheck

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
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
	// mostUnanswered is how many queries of one line may be given up before it is left: their ids cannot be used again.
	mostUnanswered = 4096
	// batchOctets is up to which size queries are written together.
	batchOctets = 16 << 10
)

// errClosed is what a query meets once the Checker was closed.
var errClosed = errors.New("the checker is closed")

// carrier carries queries to one resolver over connections that it keeps from look to look.
type carrier interface {
	// carry sends a query and waits for its reply till its time is up or the context ends. passedOver is as in converse.
	carry(ctx context.Context, q query) (r reply, passedOver, err error)
	// close closes the connections, and returns when nothing is running any more.
	close()
}

// keep makes ready what carries queries to a resolver over connections that are kept; it opens none.
func (x *exchange) keep(r Resolver, roots *x509.CertPool) {
	if x.kept == nil {
		x.kept = make(map[netip.AddrPort]carrier)
	}
	switch r.Transport {
	case transportTCP:
		dial := func(ctx context.Context) (net.Conn, error) {
			return x.dialer.DialContext(ctx, transportTCP, r.Addr.String())
		}
		x.kept[r.Addr] = newLines(dial, x.timeout, false)
	case transportTLS:
		x.kept[r.Addr] = newLines(overTLS(x.dialer, r, roots), x.timeout, true)
	case transportHTTPS:
		x.kept[r.Addr] = newPosts(x.dialer, r, roots, x.timeout)
	}
}

func (x *exchange) close() {
	for _, kept := range x.kept {
		kept.close()
	}
}

// lines are connections to one resolver: queries go out at once, one after the other, and replies come in whatever order
// (RFC 7766 section 6.2.1.1, 7858 section 3.4), matched by their ids.
type lines struct {
	dial    func(ctx context.Context) (net.Conn, error)
	timeout time.Duration // for opening a connection, and for writing to it
	padded  bool

	life    context.Context // ends with close
	end     context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex // of all below, lines and waiters too; never held across a read, a write or a dial
	all    map[*line]bool
	begun  int
	closed bool
}

// line is one connection. Its goroutines open it, write and read; whoever has a query waits beside.
type line struct {
	number int
	out    chan []byte   // to be written
	gone   chan struct{} // closed when the line is; why and latest hold from then on
	why    error
	latest int // the highest number that a line had then

	conn       net.Conn // nil until it is open
	waiting    map[uint16]*waiter
	live       int       // of those in waiting, how many somebody waits for; the others are nil: given up, their replies may still come
	quietSince time.Time // since when queries are out and nothing was heard; zero where none is out
	retired    bool      // takes no more queries, and closes after the last
	idle       *time.Timer
}

// waiter is a query that is out.
type waiter struct {
	id         uint16
	query      query
	first      bool       // the line was begun for it
	reply      chan reply // has room for the one that comes
	passedOver error
}

func newLines(dial func(context.Context) (net.Conn, error), timeout time.Duration, padded bool) *lines {
	life, end := context.WithCancel(context.Background())
	return &lines{dial: dial, timeout: timeout, padded: padded, life: life, end: end, all: make(map[*line]bool)}
}

// carry asks over a line that is open, or a new one. Where the line breaks, the query is asked once more, over one that
// was begun since: servers close connections when they like (RFC 7766 section 6.2.4).
func (p *lines) carry(ctx context.Context, q query) (reply, error, error) {
	q.padded = p.padded
	end := time.NewTimer(p.timeout)
	defer end.Stop()
	r, passedOver, broken, err := p.try(ctx, end.C, q, 0)
	if broken > 0 && ctx.Err() == nil {
		r, passedOver, _, err = p.try(ctx, end.C, q, broken)
	}
	return r, passedOver, err
}

// try asks over a line with a higher number than after. Where the line broke before the reply came, and the query is to
// be asked once more, broken is the highest number that there was then.
func (p *lines) try(ctx context.Context, end <-chan time.Time, q query, after int) (r reply, passedOver error, broken int, err error) {
	l, w, err := p.join(q, after)
	if err != nil {
		return reply{}, nil, 0, err
	}
	message, err := q.pack(w.id)
	if err != nil {
		p.leave(l, w)
		return reply{}, nil, 0, err
	}
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
	// Whoever came later to a line that could not be opened has had no attempt of his own.
	if (l.conn != nil || !w.first) && !p.closed {
		broken = l.latest
	}
	return reply{}, w.passedOver, broken, l.why
}

// framed puts a message's length before it (RFC 7766 section 8).
func framed(message []byte) []byte {
	return append(binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(message)), uint16(len(message))), message...)
}

// join has a query wait at the line with the fewest, or at a new one.
func (p *lines) join(q query, after int) (*line, *waiter, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, errClosed
	}
	now := time.Now()
	var best *line
	var usable int
	for l := range p.all {
		p.weigh(l, now)
		if l.retired {
			continue
		}
		if usable++; l.number > after && (best == nil || l.live < best.live) {
			best = l
		}
	}
	first := best == nil || best.live >= lineLoad && usable < mostLines
	if first {
		best = p.begin()
	}
	w := best.add(q, now)
	w.first = first
	return best, w, nil
}

// weigh retires a line on which too much was given up, or nothing is heard any more: the connection may be dead without
// anybody having said so.
func (p *lines) weigh(l *line, now time.Time) {
	quiet := l.conn != nil && !l.quietSince.IsZero() && now.Sub(l.quietSince) >= p.timeout
	if !quiet && len(l.waiting)-l.live < mostUnanswered {
		return
	}
	l.retired = true
	if l.live == 0 {
		p.drop(l, errors.New("no further reply came"))
	}
}

// begin starts a new line.
func (p *lines) begin() *line {
	p.begun++
	l := &line{number: p.begun, out: make(chan []byte, lineLoad), gone: make(chan struct{}), waiting: make(map[uint16]*waiter)}
	l.idle = time.AfterFunc(idleLine, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if l.live == 0 {
			p.drop(l, errors.New("idle"))
		}
	})
	p.all[l] = true
	p.running.Go(func() { p.run(l) })
	return l
}

// add gives a query an id that no other of the line has had.
func (l *line) add(q query, now time.Time) *waiter {
	w := &waiter{id: randomID(), query: q, reply: make(chan reply, 1)}
	for taken := true; taken; {
		if _, taken = l.waiting[w.id]; taken {
			w.id++
		}
	}
	l.waiting[w.id] = w
	if l.quietSince.IsZero() {
		l.quietSince = now
	}
	l.live++
	l.idle.Stop()
	return w
}

// leave gives a query up.
func (p *lines) leave(l *line, w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.waiting[w.id] != w {
		return // answered just now
	}
	l.waiting[w.id] = nil
	p.release(l)
	p.weigh(l, time.Now())
}

// release notes that one query less is waited for.
func (p *lines) release(l *line) {
	if l.live--; l.live > 0 {
		return
	}
	if l.retired {
		p.drop(l, errors.New("retired"))
		return
	}
	l.idle.Reset(idleLine)
}

// breakOff ends a line that cannot go on.
func (p *lines) breakOff(l *line, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(l, why)
}

// drop ends a line.
func (p *lines) drop(l *line, why error) {
	if !p.all[l] {
		return
	}
	delete(p.all, l)
	l.why, l.latest = why, p.begun
	close(l.gone)
	l.idle.Stop()
	if l.conn != nil {
		hangUp(l.conn)
	}
}

// hangUp closes a connection at once: TLS would wait for its farewell to be taken.
func hangUp(conn net.Conn) {
	if secure, ok := conn.(*recorded); ok {
		conn = secure.NetConn()
	}
	_ = conn.Close() // nothing is lost with it: replies were read, or given up
}

// run opens the line, and reads from it to its end.
func (p *lines) run(l *line) {
	conn, err := p.open(l)
	if err != nil {
		p.breakOff(l, err)
		return
	}
	p.running.Go(func() { p.write(l, conn) })
	receive := frames(bufio.NewReader(conn))
	for {
		raw, err := receive()
		if err != nil {
			p.breakOff(l, err)
			return
		}
		p.deliver(l, raw)
	}
}

// open dials. The line's end meanwhile, by close or idleness, ends the dial too.
func (p *lines) open(l *line) (net.Conn, error) {
	limited, cancel := context.WithTimeout(p.life, p.timeout)
	defer cancel()
	conn, err := p.dial(limited)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.all[l] {
		hangUp(conn)
		return nil, errClosed
	}
	l.conn = conn
	if !l.quietSince.IsZero() {
		l.quietSince = time.Now()
	}
	return conn, nil
}

// write writes what queries there are, several at once where they wait.
func (p *lines) write(l *line, conn net.Conn) {
	for {
		var batch []byte
		select {
		case <-l.gone:
			return
		case batch = <-l.out:
		}
		for more := true; more && len(batch) < batchOctets; {
			select {
			case message := <-l.out:
				batch = append(batch, message...)
			default:
				more = false
			}
		}
		_ = conn.SetWriteDeadline(time.Now().Add(p.timeout)) // if it fails, so does what follows
		if _, err := conn.Write(batch); err != nil {
			p.breakOff(l, err)
			return
		}
	}
}

// deliver brings a message to whoever waits for it. What is nobody's is passed over.
func (p *lines) deliver(l *line, raw []byte) {
	w := p.heard(l, raw)
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
		l.listen(time.Now())
		w.reply <- r
		p.release(l)
	}
}

// heard notes that the other side lives, and finds who waits for a message, if anybody does.
func (p *lines) heard(l *line, raw []byte) *waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	var w *waiter
	if len(raw) >= headerOctets {
		id := binary.BigEndian.Uint16(raw)
		late := false
		if w, late = l.waiting[id]; late && w == nil {
			delete(l.waiting, id) // the reply to a query that was given up
		}
	}
	l.listen(time.Now())
	return w
}

// listen begins to wait for what is to be heard next, if anything is.
func (l *line) listen(now time.Time) {
	l.quietSince = time.Time{}
	if len(l.waiting) > 0 {
		l.quietSince = now
	}
}

func (p *lines) close() {
	p.mu.Lock()
	p.closed = true
	for l := range p.all {
		p.drop(l, errClosed)
	}
	p.mu.Unlock()
	p.end()
	p.running.Wait()
}
