package dnscheck

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"
)

const (
	// ednsSize is the advertised size of datagrams: it passes everywhere without fragments
	// (RFC 6891 section 6.2.5, DNS flag day 2020).
	ednsSize = 1232
	// datagramSize is the size of the read buffer. Servers that ignore the advertised size
	// stay below it. A longer reply is cut, so that its counts are wrong, and TCP follows.
	datagramSize = 4096
)

// dialer opens a connection: a *net.Dialer, or in tests connections in memory.
type dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// exchange sends queries and receives their replies. As RFC 5452 section 9 requires, each
// query over UDP has a connected socket of its own at a random port, so that the kernel
// drops datagrams from other addresses, a random id, and letters of random case. Messages
// that are not its reply are skipped until the timeout.
type exchange struct {
	dialer  dialer
	timeout time.Duration // of one attempt over one transport
	doh     map[netip.AddrPort]*dohClient
}

func newExchange(d dialer, timeout time.Duration) *exchange {
	return &exchange{dialer: d, timeout: timeout, doh: make(map[netip.AddrPort]*dohClient)}
}

// exchangeError is the reason why there is no usable reply.
type exchangeError struct {
	reason Reason
	err    error
}

func (e *exchangeError) Error() string { return e.err.Error() }
func (e *exchangeError) Unwrap() error { return e.err }

// query queries a server over the transport, and over TCP if UDP fails. It returns the
// transport of the reply. A server that rejects EDNS is queried again without (RFC 6891
// section 7). The error is the context's, or an *exchangeError.
func (x *exchange) query(ctx context.Context, to Resolver, transport string, q query) (reply, string, error) {
	q.edns = true
	r, transport, err := x.send(ctx, to, transport, q)
	if err != nil || !slices.Contains([]int{dns.RcodeFormatError, dns.RcodeNotImplemented, dns.RcodeBadVers}, r.rcode) {
		return r, transport, err
	}
	q.edns = false
	return x.send(ctx, to, transport, q)
}

// send queries once over the transport. If UDP brings no reply, or a truncated one, TCP
// follows. So it does if the reply has the question's letters in another case: the server
// changes them, or an attacker guessed the rest. If TCP fails then, UDP is tried once more,
// where an attacker would have to guess right a second time.
func (x *exchange) send(ctx context.Context, to Resolver, transport string, q query) (reply, string, error) {
	r, err := x.attempt(ctx, to, transport, q)
	if transport != transportUDP || ctx.Err() != nil || err == nil && !r.recased && !r.truncated {
		return r, transport, err
	}
	recased, udpErr := err == nil && r.recased, err
	r, err = x.attempt(ctx, to, transportTCP, q)
	if err == nil || !recased || ctx.Err() != nil {
		return r, transportTCP, joinErrors(udpErr, err)
	}
	tcpErr := err
	r, err = x.attempt(ctx, to, transportUDP, q)
	switch {
	case err != nil:
		return r, transportUDP, joinErrors(err, tcpErr)
	case r.truncated:
		return reply{}, transportTCP, tcpErr
	}
	return r, transportUDP, nil
}

// joinErrors joins the errors of UDP and TCP. If TCP is closed, UDP's reason says more.
func joinErrors(udp, tcp error) error {
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

// attempt sends one query over one transport and waits for its reply until the timeout.
func (x *exchange) attempt(ctx context.Context, to Resolver, transport string, q query) (r reply, err error) {
	var skipped error
	if transport == transportHTTPS {
		r, skipped, err = x.doh[to.Addr].carry(ctx, q)
	} else {
		r, skipped, err = x.carry(ctx, to.Addr, transport, q)
	}
	if err != nil {
		return reply{}, x.classify(ctx, err, skipped)
	}
	if r.truncated && transport != transportUDP {
		return reply{}, &exchangeError{ReasonMalformed, errors.New("a reply over a stream that says it was truncated")}
	}
	return r, nil
}

// carry sends the query over a connection of its own.
func (x *exchange) carry(ctx context.Context, to netip.AddrPort, transport string, q query) (r reply, skipped, err error) {
	ctx, cancel := context.WithTimeout(ctx, x.timeout)
	defer cancel()
	conn, err := x.dialer.DialContext(ctx, transport, to.String())
	if err != nil {
		return reply{}, nil, err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // reads and writes fail at once
	defer stop()
	return converse(conn, transport, q)
}

// converse sends the query and reads until its reply arrives. skipped is the error of the
// last message that had the query's id and was not a valid reply, which distinguishes a
// broken server from a silent one.
func converse(conn net.Conn, transport string, q query) (r reply, skipped, err error) {
	id := dns.Id() // unpredictable (RFC 5452 section 4.3)
	message, err := q.pack(id)
	if err != nil {
		return reply{}, nil, err
	}
	sent := questionName(message)
	given := bytes.Clone(sent)
	receive := datagrams(conn)
	if transport == transportUDP {
		randomizeCase(sent)
	} else {
		message, receive = framed(message), frames(conn)
	}
	if _, err := conn.Write(message); err != nil {
		return reply{}, nil, err
	}
	for {
		raw, err := receive()
		if err != nil {
			return reply{}, skipped, err
		}
		recased := transport == transportUDP && !restoreCase(raw, sent, given)
		r, err := parseReply(raw, id, q.name, q.kind)
		if err == nil {
			r.recased = recased
			return r, nil, nil
		}
		if !errors.Is(err, errStray) {
			skipped = err
		}
	}
}

// datagrams returns a function that reads a datagram. Its bytes are valid until the next.
func datagrams(conn net.Conn) func() ([]byte, error) {
	buffer := make([]byte, datagramSize)
	return func() ([]byte, error) {
		n, err := conn.Read(buffer)
		return buffer[:n], err
	}
}

// framed returns the message after its length (RFC 7766 section 8).
func framed(message []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(message))), message...)
}

// frames returns a function that reads a message after its length.
func frames(conn io.Reader) func() ([]byte, error) {
	return func() ([]byte, error) {
		var length [2]byte
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			return nil, err
		}
		message := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(conn, message); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // the length was there
			}
			return nil, err
		}
		return message, nil
	}
}

// classify returns the context's own error, or an *exchangeError.
func (x *exchange) classify(ctx context.Context, err, skipped error) error {
	var timeout net.Error
	var classified *exchangeError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &classified):
		return classified
	case errors.As(err, &timeout) && timeout.Timeout(): // also os.ErrDeadlineExceeded and context.DeadlineExceeded
		if skipped != nil {
			return &exchangeError{ReasonMalformed, fmt.Errorf("no answer within %s but %w", x.timeout, skipped)}
		}
		return &exchangeError{ReasonTimeout, fmt.Errorf("no answer within %s", x.timeout)}
	case skipped != nil:
		return &exchangeError{ReasonMalformed, fmt.Errorf("no answer but %w", skipped)}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &exchangeError{ReasonMalformed, errors.New("the connection was closed in the middle of a reply")}
	case errors.Is(err, io.EOF):
		return &exchangeError{ReasonUnreachable, errors.New("the connection was closed without a reply")}
	}
	return &exchangeError{ReasonUnreachable, err}
}

type query struct {
	name             string // as it was given, with the final dot
	kind             uint16
	edns             bool
	padded           bool // to hide the length of the name
	nonRecursive     bool // the server must answer from its own zones
	checkingDisabled bool // CD: the resolver returns answers that do not validate, too (RFC 4035 section 3.2.2)
}

// pack encodes the query. With AD set the server reports whether it validated the answer
// (RFC 6840 section 5.7). Padding is to a multiple of 128 bytes (RFC 8467 section 4.1).
func (q query) pack(id uint16) ([]byte, error) {
	m := &dns.Msg{
		MsgHdr:   dns.MsgHdr{Id: id, RecursionDesired: !q.nonRecursive, AuthenticatedData: true, CheckingDisabled: q.checkingDisabled},
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
	message, err := m.Pack()
	if err != nil {
		return nil, fmt.Errorf("write the query for %s: %w", shownHost(unrooted(q.name)), err)
	}
	return message, nil
}

// questionName returns the encoded name in a query, a part of it.
func questionName(query []byte) []byte {
	_, end, _ := dns.UnpackDomainName(query, headerSize)
	return query[headerSize:end]
}

// randomizeCase changes the case of letters at random (draft-vixie-dnsext-dns0x20): most
// servers return the question as it was sent, so an attacker who does not see the query has
// to guess the letters, the id and the port.
func randomizeCase(name []byte) {
	random := make([]byte, len(name))
	_, _ = rand.Read(random) // never returns an error
	for i, c := range name { // no length byte is an ASCII letter (RFC 1035 section 3.1)
		if 'a' <= c|0x20 && c|0x20 <= 'z' {
			name[i] ^= random[i] & 0x20
		}
	}
}

// restoreCase reports whether a reply has the question in the letters that were sent, and
// replaces them by the given ones: compressed names refer to the question's, and are shown.
func restoreCase(reply, sent, given []byte) bool {
	if len(reply) < headerSize || !bytes.HasPrefix(reply[headerSize:], sent) {
		return false
	}
	copy(reply[headerSize:], given)
	return true
}

const (
	dnsMessage     = "application/dns-message" // RFC 8484 section 6
	maxMessage     = 1<<16 - 1                 // bytes of a DNS message
	maxConnections = 4                         // idle, to a resolver without HTTP/2
	// idleTimeout is for how long an unused connection stays open. Public resolvers close it
	// after about as long.
	idleTimeout = 10 * time.Second
)

// ErrCertificate is in the error of a resolver whose certificate is not valid for its name.
var ErrCertificate = errors.New("the resolver's certificate is not valid")

// dohClient sends queries in HTTP requests (RFC 8484), over one connection with HTTP/2.
type dohClient struct {
	url     string
	client  *http.Client
	timeout time.Duration
}

// newDoHClient opens no connection. All go to the resolver's address, whatever its name resolves
// to, and need a certificate for its name, or its address (RFC 8310, strict profile): nothing falls
// back to cleartext. roots: nil means the system's.
func (x *exchange) newDoHClient(r Resolver, roots *x509.CertPool) *dohClient {
	host := r.certified()
	if port := r.Addr.Port(); port != defaultHTTPSPort || strings.Contains(host, ":") {
		host = net.JoinHostPort(host, strconv.Itoa(int(port)))
	}
	return &dohClient{
		url:     (&url.URL{Scheme: "https", Host: host, Path: r.path()}).String(),
		timeout: x.timeout,
		client: &http.Client{
			Transport: &http.Transport{
				Proxy: nil, // a proxy would read the queries, and could forge the replies of all resolvers
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					return x.dialer.DialContext(ctx, transportTCP, r.Addr.String())
				},
				TLSClientConfig:     &tls.Config{ServerName: r.certified(), RootCAs: roots, MinVersion: tls.VersionTLS12},
				TLSHandshakeTimeout: x.timeout,
				ForceAttemptHTTP2:   true,
				HTTP2:               &http.HTTP2Config{SendPingTimeout: x.timeout, PingTimeout: x.timeout}, // detects dead connections
				MaxIdleConnsPerHost: maxConnections,
				IdleConnTimeout:     idleTimeout,
				DisableCompression:  true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// carry posts the query, and once more if the connection breaks.
func (d *dohClient) carry(ctx context.Context, q query) (reply, error, error) {
	q.padded = true
	message, err := q.pack(0) // RFC 8484 section 4.1: id 0, since HTTP matches replies
	if err != nil {
		return reply{}, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	raw, err := d.post(ctx, message)
	if _, final := errors.AsType[*exchangeError](err); err != nil && !final && ctx.Err() == nil {
		raw, err = d.post(ctx, message)
	}
	if err != nil {
		return reply{}, nil, err
	}
	r, err := parseReply(raw, 0, q.name, q.kind)
	if err != nil {
		return reply{}, nil, &exchangeError{ReasonMalformed, err}
	}
	return r, nil, nil
}

func (d *dohClient) post(ctx context.Context, message []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url, bytes.NewReader(message))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", dnsMessage)
	request.Header.Set("Accept", dnsMessage)
	request.Header.Set("User-Agent", "") // sends none
	response, err := d.client.Do(request)
	if err != nil {
		if outer, ok := errors.AsType[*url.Error](err); ok {
			err = outer.Err
		}
		if invalid, ok := errors.AsType[*tls.CertificateVerificationError](err); ok { // its names are foreign text
			err = &exchangeError{ReasonUnreachable, fmt.Errorf("%w: %s", ErrCertificate, shown(invalid.Err.Error(), 200))}
		}
		return nil, err
	}
	defer response.Body.Close()
	return readMessage(response)
}

func readMessage(response *http.Response) ([]byte, error) {
	if response.StatusCode != http.StatusOK {
		return nil, &exchangeError{ReasonRefused, fmt.Errorf("the resolver answered HTTP %d where 200 is wanted (redirects are not followed)", response.StatusCode)}
	}
	kind := response.Header.Get("Content-Type")
	if media, _, err := mime.ParseMediaType(kind); err != nil || media != dnsMessage {
		return nil, &exchangeError{ReasonMalformed, fmt.Errorf("the resolver answered with content of type %s where %s is wanted", shown(kind, 60), dnsMessage)}
	}
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxMessage+1))
	switch {
	case err != nil:
		return nil, err
	case len(raw) > maxMessage:
		return nil, &exchangeError{ReasonMalformed, fmt.Errorf("the resolver answered with more than the %d bytes that a message can have", maxMessage)}
	}
	return raw, nil
}
