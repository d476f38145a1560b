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
	"slices"
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

// dialer opens a connection: a *net.Dialer, or in tests connections that live in memory under a clock of their own.
type dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// exchange carries queries to servers and returns their replies, as RFC 5452 section 9 wants it: each query has a
// connected socket of its own on a random port, so that the kernel drops what comes from elsewhere; a random id; and
// letters of random case where the server keeps them. What is not its reply is passed over until the time is up.
type exchange struct {
	dialer  dialer
	timeout time.Duration              // of one attempt over one transport
	folders *memory[bool]              // servers, by address and port, that do not return letters as they were sent
	kept    map[netip.AddrPort]carrier // of resolvers over TCP, TLS and HTTPS
	life    context.Context            // of what is kept
	end     context.CancelFunc
}

func newExchange(d dialer, timeout time.Duration) *exchange {
	life, end := context.WithCancel(context.Background())
	return &exchange{
		dialer: d, timeout: timeout, folders: newMemory[bool](),
		kept: make(map[netip.AddrPort]carrier), life: life, end: end,
	}
}

// through is the same exchange over another dialer; what is known of servers is shared, and nothing is kept.
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

// askFor asks a server over the transport given (and TCP, where UDP does not do), and returns the transport that brought
// the reply. A server that stumbles over EDNS is asked again without (RFC 6891 section 7). The error is the context's, or
// an *exchangeError.
func (x *exchange) askFor(ctx context.Context, to Resolver, transport string, q query) (reply, string, error) {
	q.edns = true
	r, transport, err := x.over(ctx, to, transport, q)
	if err != nil || !slices.Contains([]int{dns.RcodeFormatError, dns.RcodeNotImplemented, dns.RcodeBadVers}, r.rcode) {
		return r, transport, err
	}
	q.edns = false
	return x.over(ctx, to, transport, q)
}

// over asks once over the transport given, and then over TCP if UDP brought a truncated reply, or none.
func (x *exchange) over(ctx context.Context, to Resolver, transport string, q query) (reply, string, error) {
	if transport != transportUDP {
		r, err := x.attempt(ctx, to, transport, q)
		return r, transport, err
	}
	_, folds := x.folders.get(to.Addr.String())
	q.mixed = !folds
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

// onceMore asks again where a reply over UDP had other letters than were sent: the server does not keep them, or somebody
// guessed all but them. Over TCP nobody gets by with guesses; where it is closed, they would have to guess right a second
// time. A server that does the same again is asked without mixed letters from then on.
func (x *exchange) onceMore(ctx context.Context, to Resolver, q query) (reply, string, error) {
	transport := transportTCP
	r, err := x.attempt(ctx, to, transportTCP, q)
	if err != nil && ctx.Err() == nil {
		failed := err
		r, err = x.attempt(ctx, to, transportUDP, q)
		switch {
		case err != nil:
			return r, transportUDP, both(err, failed)
		case r.truncated:
			return reply{}, transportTCP, failed
		}
		transport = transportUDP
	}
	if r.folded {
		x.folders.store(to.Addr.String(), true, foldedFor)
	}
	return r, transport, err
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
func (x *exchange) attempt(ctx context.Context, to Resolver, transport string, q query) (r reply, err error) {
	var passedOver error
	if kept := x.kept[to.Addr]; kept != nil && transport == to.Transport {
		r, passedOver, err = kept.carry(ctx, q)
	} else {
		r, passedOver, err = x.carry(ctx, to.Addr, transport, q)
	}
	if err != nil {
		return reply{}, x.fault(ctx, err, passedOver)
	}
	if r.truncated && transport != transportUDP {
		return reply{}, &exchangeError{reason: ReasonMalformed, err: errors.New("a reply over a stream that says it was truncated")}
	}
	return r, nil
}

// carry sends the query over a connection of its own. passedOver is as in converse.
func (x *exchange) carry(ctx context.Context, to netip.AddrPort, transport string, q query) (r reply, passedOver, err error) {
	ctx, cancel := context.WithTimeout(ctx, x.timeout)
	defer cancel()
	conn, err := x.dialer.DialContext(ctx, transport, to.String())
	if err != nil {
		return reply{}, nil, err
	}
	defer func() { _ = conn.Close() }()                                              // nothing is lost with it: the reply is read, or given up
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // reads and writes fail at once
	defer stop()
	return converse(conn, transport, q)
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
	given := bytes.Clone(sent)
	if q.mixed {
		mixLetters(sent)
	}
	receive := datagrams(conn)
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

// datagrams reads one datagram a call; the bytes hold until the next.
func datagrams(conn net.Conn) func() ([]byte, error) {
	buffer := make([]byte, datagramOctets)
	return func() ([]byte, error) {
		n, err := conn.Read(buffer)
		return buffer[:n], err
	}
}

// framed puts a message's length before it (RFC 7766 section 8).
func framed(message []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(message))), message...)
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

// pack writes the query. RD: the server shall resolve; AD: it reports whether it validated (RFC 6840 section 5.7); CD: it
// returns answers that do not validate (RFC 4035 section 3.2.2). Padding is up to a multiple of 128 bytes (RFC 8467 section
// 4.1).
func (q query) pack(id uint16) ([]byte, error) {
	m := &dns.Msg{
		MsgHdr:   dns.MsgHdr{Id: id, RecursionDesired: !q.straight, AuthenticatedData: true, CheckingDisabled: q.unchecked},
		Question: []dns.Question{{Name: q.name, Qtype: q.kind, Qclass: dns.ClassINET}},
	}
	if q.edns {
		m.SetEdns0(ednsSize, false)
	}
	if q.edns && q.padded {
		const block = 128
		padding := new(dns.EDNS0_PADDING)
		m.IsEdns0().Option = []dns.EDNS0{padding}
		padding.Padding = make([]byte, (block-m.Len()%block)%block)
	}
	wire, err := m.Pack()
	if err != nil {
		return nil, fmt.Errorf("write the query for %s: %w", shownHost(unrooted(q.name)), err)
	}
	return wire, nil
}

// randomID is one that nobody can foresee (RFC 5452 section 4.3).
func randomID() uint16 {
	var id [2]byte
	_, _ = rand.Read(id[:]) // never fails: it ends the program where there is no randomness
	return binary.BigEndian.Uint16(id[:])
}

// The letters of a question go out over UDP in upper or lower case at random, and most servers return them as they came
// (draft-vixie-dnsext-dns0x20): an attacker who does not see the query has to guess them, with the id and the port.

// foldedFor is how long a server that did not keep the letters is asked without mixed ones: long enough for a second query
// to be rare, short enough for a server that was replaced.
const foldedFor = time.Hour

// questionName is the name in a query that pack has written, as it stands there, length bytes included. No length is an
// ASCII letter (RFC 1035 section 3.1).
func questionName(query []byte) []byte {
	_, end, _ := dns.UnpackDomainName(query, headerOctets)
	return query[headerOctets:end]
}

// mixLetters puts each letter of a name into upper or lower case, unpredictably.
func mixLetters(name []byte) {
	random := make([]byte, len(name))
	_, _ = rand.Read(random) // never fails, as in randomID
	for i, c := range name {
		if 'a' <= c|0x20 && c|0x20 <= 'z' {
			name[i] ^= random[i] & 0x20
		}
	}
}

// restoreLetters reports whether a reply names the question in the letters that were sent. Then it puts back those that
// were given: names further down point to the question's, and are shown to people.
func restoreLetters(reply, sent, given []byte) bool {
	if len(reply) < headerOctets || !bytes.HasPrefix(reply[headerOctets:], sent) {
		return false
	}
	copy(reply[headerOctets:], given)
	return true
}
