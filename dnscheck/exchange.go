package dnscheck

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	// ednsSize is how large a datagram may come back: what passes everywhere without fragments (RFC 6891 section
	// 6.2.5, DNS flag day 2020).
	ednsSize = 1232
	// datagramOctets is what is read of a datagram: servers that heed no advertised size stay below it. A longer one is cut
	// and no reply any more (its counts lie); TCP brings it whole.
	datagramOctets = 4096
)

// dialer opens the connection for one query: a *net.Dialer, or in tests connections that live in memory under a clock of
// their own. TLS would be another one.
type dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// exchange carries questions to resolvers and brings replies back, as RFC 5452 section 9 wants it: each query has a socket
// of its own on a random port, connected, so that the kernel drops what comes from elsewhere; each has a random id, and
// letters of random case where the server keeps them; what is not its reply is passed over, and the reply is awaited
// till the time is up.
type exchange struct {
	dialer  dialer
	timeout time.Duration // of one attempt over one transport
	folders *folders
	kept    map[netip.AddrPort]carrier // of resolvers over TCP, TLS and HTTPS
}

func newExchange(d dialer, timeout time.Duration) *exchange {
	return &exchange{dialer: d, timeout: timeout, folders: new(folders)}
}

// through is the same exchange over another dialer; what is known of servers is shared.
func (x *exchange) through(d dialer) *exchange {
	return &exchange{dialer: d, timeout: x.timeout, folders: x.folders}
}

// exchangeError tells why no reply came that could be used.
type exchangeError struct {
	reason Reason
	err    error
}

func (e *exchangeError) Error() string { return e.err.Error() }
func (e *exchangeError) Unwrap() error { return e.err }

// askFor asks a resolver the question over the transport given (and TCP, where UDP does not do), and tells which one
// brought the reply. A server that stumbles over EDNS is asked again without (RFC 6891 section 7). The error is the context's,
// or an *exchangeError.
func (x *exchange) askFor(ctx context.Context, to Resolver, transport string, q query) (reply, string, error) {
	q.edns = true
	r, transport, err := x.over(ctx, to, transport, q)
	if err != nil || !stumbles(r) {
		return r, transport, err
	}
	q.edns = false
	return x.over(ctx, to, transport, q)
}

func stumbles(r reply) bool {
	return r.rcode == dns.RcodeFormatError || r.rcode == dns.RcodeNotImplemented || r.rcode == dns.RcodeBadVers
}

// over asks once over the transport given, and then over TCP if UDP brought a truncated reply, or none.
func (x *exchange) over(ctx context.Context, to Resolver, transport string, q query) (reply, string, error) {
	if transport != transportUDP {
		r, err := x.attempt(ctx, to, transport, q)
		return r, transport, err
	}
	q.mixed = !x.folders.has(to.Addr)
	r, failed := x.attempt(ctx, to, transportUDP, q)
	switch {
	case ctx.Err() != nil:
		return r, transportUDP, failed
	case failed == nil && r.folded && q.mixed:
		return x.onceMore(ctx, to, q)
	case failed == nil && !r.truncated:
		return r, transportUDP, nil
	}
	r, err := x.attempt(ctx, to, transportTCP, q)
	return r, transportTCP, both(failed, err)
}

// onceMore asks again where a reply over UDP had not the letters that were sent: the server does not keep them, or somebody
// has guessed all but them. Over TCP nobody gets by with guesses; where it is closed, they would have to guess
// right a second time. A server that does the same again is known from then on not to keep letters.
func (x *exchange) onceMore(ctx context.Context, to Resolver, q query) (reply, string, error) {
	r, failed := x.attempt(ctx, to, transportTCP, q)
	if failed == nil || ctx.Err() != nil {
		x.learn(to, r)
		return r, transportTCP, failed
	}
	r, err := x.attempt(ctx, to, transportUDP, q)
	switch {
	case err != nil:
		return r, transportUDP, both(err, failed)
	case r.truncated: // and TCP has just failed
		return reply{}, transportTCP, failed
	}
	x.learn(to, r)
	return r, transportUDP, nil
}

// learn remembers a server by whose reply it does not keep letters.
func (x *exchange) learn(server Resolver, r reply) {
	if r.folded {
		x.folders.add(server.Addr)
	}
}

// both joins what went wrong over UDP and then over TCP. That TCP is closed says less than what UDP met.
func both(udp, tcp error) error {
	var first, second *exchangeError
	if tcp == nil || !errors.As(udp, &first) || !errors.As(tcp, &second) {
		return tcp
	}
	reason := second.reason
	if reason == ReasonUnreachable {
		reason = first.reason
	}
	return &exchangeError{reason: reason, err: fmt.Errorf("over UDP: %w; over TCP: %w", udp, tcp)}
}

// attempt sends one query over one transport and waits for its reply till the time is up, or the context ends.
func (x *exchange) attempt(ctx context.Context, to Resolver, transport string, q query) (reply, error) {
	carry := x.carrying(to, transport)
	r, passedOver, err := carry(ctx, q)
	if err != nil {
		return reply{}, x.fault(ctx, err, passedOver)
	}
	if r.truncated && transport != transportUDP {
		return reply{}, &exchangeError{reason: ReasonMalformed, err: errors.New("a reply over a stream that says it was truncated")}
	}
	return r, nil
}

// carrying is how a query gets there: over connections that are kept, or over one of its own.
func (x *exchange) carrying(to Resolver, transport string) func(context.Context, query) (reply, error, error) {
	if kept := x.kept[to.Addr]; kept != nil && transport == to.Transport {
		return kept.carry
	}
	return func(ctx context.Context, q query) (r reply, passedOver, err error) {
		end := time.Now().Add(x.timeout)
		conn, err := x.open(ctx, end, transport, to.Addr)
		if err != nil {
			return reply{}, nil, err
		}
		defer func() { _ = conn.Close() }() // nothing is lost with it: the reply is read, or given up
		// The end of the time and of the context are one mechanism: reads and writes under way fail at once.
		_ = conn.SetDeadline(end) // if it fails, so does what follows
		stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
		defer stop()
		return converse(conn, transport, q)
	}
}

// open opens the connection for one query.
func (x *exchange) open(ctx context.Context, end time.Time, transport string, to netip.AddrPort) (net.Conn, error) {
	if transport != transportUDP { // where a socket is all there is to open
		limited, cancel := context.WithDeadline(ctx, end)
		defer cancel()
		ctx = limited
	}
	return x.dialer.DialContext(ctx, transport, to.String())
}

// converse sends the query and reads until its reply comes. passedOver is the last message that had our id and was no
// answer, if there was one: with the error that ended the wait, it tells a broken server from a silent one.
func converse(conn net.Conn, transport string, q query) (r reply, passedOver, err error) {
	id := randomID()
	wire, err := q.pack(id)
	if err != nil {
		return reply{}, nil, err
	}
	sent := questionName(wire)
	given := sent
	if q.mixed {
		given = bytes.Clone(sent)
		mixLetters(sent)
	}
	receive, done := datagrams(conn)
	defer done()
	if transport == transportTCP {
		wire = framed(wire)
		receive = frames(conn)
	}
	if _, err := conn.Write(wire); err != nil {
		return reply{}, nil, err
	}
	for {
		raw, err := receive()
		if err != nil {
			return reply{}, passedOver, err
		}
		folded := !restoreLetters(raw, sent, given)
		r, err := parseReply(raw, id, q.name, q.kind)
		if err == nil {
			r.folded = folded
			return r, nil, nil
		}
		if !errors.Is(err, errStray) {
			passedOver = err
		}
	}
}

// datagramBuffers are used again and again: one for each query is most of what a look would leave to be collected.
var datagramBuffers = sync.Pool{New: func() any { return new([datagramOctets]byte) }}

// datagrams reads one datagram a call; the bytes hold until the next, or till done. A reply that was parsed holds none of them.
func datagrams(conn net.Conn) (receive func() ([]byte, error), done func()) {
	buffer := datagramBuffers.Get().(*[datagramOctets]byte)
	receive = func() ([]byte, error) {
		n, err := conn.Read(buffer[:])
		return buffer[:n], err
	}
	return receive, func() { datagramBuffers.Put(buffer) }
}

// frames reads one message with its length before it a call.
func frames(conn io.Reader) func() ([]byte, error) {
	return func() ([]byte, error) {
		var length [2]byte
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			return nil, err
		}
		message := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(conn, message); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // after a length, even no byte at all is a part only
			}
			return nil, err
		}
		return message, nil
	}
}

// fault says what an error of the network means. The context's own end is given back as it is.
func (x *exchange) fault(ctx context.Context, err, passedOver error) error {
	var timeout net.Error
	var plain *exchangeError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &plain):
		return plain
	case errors.As(err, &timeout) && timeout.Timeout(): // os.ErrDeadlineExceeded and context.DeadlineExceeded are such
		if passedOver != nil {
			return &exchangeError{reason: ReasonMalformed, err: fmt.Errorf("no answer within %s but %w", x.timeout, passedOver)}
		}
		return &exchangeError{reason: ReasonTimeout, err: fmt.Errorf("no answer within %s", x.timeout)}
	case passedOver != nil:
		return &exchangeError{reason: ReasonMalformed, err: fmt.Errorf("no answer but %w", passedOver)}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &exchangeError{reason: ReasonMalformed, err: errors.New("the connection was closed in the middle of a reply")}
	case errors.Is(err, io.EOF):
		return &exchangeError{reason: ReasonUnreachable, err: errors.New("the connection was closed without a reply")}
	}
	return &exchangeError{reason: ReasonUnreachable, err: err}
}

// query is a question for the records of one kind at a name.
type query struct {
	name      string // as it was given, with the last dot
	kind      uint16
	edns      bool
	padded    bool // to a length that tells less of the name
	mixed     bool // the letters go out in upper or lower case at random
	straight  bool // what the server itself knows is asked for; it shall not resolve
	unchecked bool // checking disabled: the answer is wanted though its signatures do not hold
}

// pack writes the query. RD: the server shall resolve; AD: it reports whether it validated (RFC 6840 section 5.7); CD: it returns answers that do
// not validate (RFC 4035 section 3.2.2).
func (q query) pack(id uint16) ([]byte, error) {
	const fields, opt, padding = 4, 11, 128 // bytes after the name: of the question, of an OPT record (RFC 6891 section 6.1.2), at most
	named := headerOctets + len(q.name) + 1
	wire := make([]byte, named, named+fields+opt+padding)
	end, err := dns.PackDomainName(q.name, wire, headerOctets, nil, false)
	if err != nil {
		return nil, fmt.Errorf("write the query for %s: %w", shownHost(unrooted(q.name)), err)
	}
	flags, additional := uint16(bitAD), uint16(0)
	if !q.straight {
		flags |= bitRD
	}
	if q.unchecked {
		flags |= bitCD
	}
	if q.edns {
		additional = 1
	}
	header := wire[:0]
	for _, word := range [headerOctets / 2]uint16{id, flags, 1, 0, 0, additional} {
		header = binary.BigEndian.AppendUint16(header, word)
	}
	wire = binary.BigEndian.AppendUint16(wire[:end], q.kind)
	wire = binary.BigEndian.AppendUint16(wire, dns.ClassINET)
	if !q.edns {
		return wire, nil
	}
	wire = append(wire, 0) // the root
	for _, word := range [5]uint16{dns.TypeOPT, ednsSize, 0, 0, 0} {
		wire = binary.BigEndian.AppendUint16(wire, word)
	}
	if q.padded {
		wire = pad(wire)
	}
	return wire, nil
}

// pad gives a query that ends in an empty OPT record the option that fills it up to the next multiple of 128 bytes (RFC 7830, RFC
// 8467 section 4.1).
func pad(wire []byte) []byte {
	const block, option = 128, 4
	fill := block - 1 - (len(wire)+option-1)%block
	binary.BigEndian.PutUint16(wire[len(wire)-2:], uint16(option+fill))
	wire = binary.BigEndian.AppendUint16(wire, dns.EDNS0PADDING)
	wire = binary.BigEndian.AppendUint16(wire, uint16(fill))
	return append(wire, make([]byte, fill)...)
}

// randomID is one that nobody can foresee (RFC 5452 section 4.3).
func randomID() uint16 {
	var id [2]byte
	_, _ = rand.Read(id[:]) // never fails: it ends the program where there is no randomness
	return binary.BigEndian.Uint16(id[:])
}
