package dnscheck

import (
	"bytes"
	"cmp"
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
	"syscall"
	"time"

	"github.com/miekg/dns"

	"orgops/dnscheck/dnsname"
	"orgops/internal/untrusted"
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
	if transport != transportUDP || ctx.Err() != nil || (err == nil && !r.recased && !r.truncated) {
		return r, transport, err
	}
	recased := err == nil && r.recased
	udpErr := err
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

// noRoute are the errors of opening a socket on a machine without IPv6. Over UDP that sends
// nothing, so that no other machine has them returned.
var noRoute = []syscall.Errno{syscall.ENETUNREACH, syscall.EADDRNOTAVAIL, syscall.EAFNOSUPPORT}

// carry sends the query over a connection of its own.
func (x *exchange) carry(ctx context.Context, to netip.AddrPort, transport string,
	q query) (r reply, skipped, err error) {
	ctx, cancel := context.WithTimeout(ctx, x.timeout)
	defer cancel()
	conn, err := x.dialer.DialContext(ctx, transport, to.String())
	if transport == transportUDP && to.Addr().Is6() && slices.ContainsFunc(noRoute,
		func(without syscall.Errno) bool { return errors.Is(err, without) }) {
		return reply{}, nil, &exchangeError{ReasonNoIPv6, fmt.Errorf("no way out over IPv6: %w", err)}
	}
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

	// Over UDP the letters of the name are in random case, which a forger would have to guess; over
	// TCP each message has its length before it.
	sent := questionName(message)
	given := bytes.Clone(sent)
	receive := datagrams(conn)
	if transport == transportTCP {
		message = framed(message)
		receive = frames(conn)
	} else if !q.given {
		randomizeCase(sent)
	}
	if _, err := conn.Write(message); err != nil {
		return reply{}, nil, err
	}

	// Replies that cannot be read are skipped, since a good one may follow; the last of their errors
	// is returned if none does.
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
	given            bool // over UDP, too, the letters are those of the name, and not random
	checkingDisabled bool // CD: the resolver returns answers that do not validate, too (RFC 4035 section 3.2.2)
}

// pack encodes the query. With AD set the server reports whether it validated the answer
// (RFC 6840 section 5.7). Padding is to a multiple of 128 bytes (RFC 8467 section 4.1).
func (q query) pack(id uint16) ([]byte, error) {
	m := &dns.Msg{
		MsgHdr: dns.MsgHdr{Id: id, RecursionDesired: !q.nonRecursive, AuthenticatedData: true,
			CheckingDisabled: q.checkingDisabled},
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
		return nil, fmt.Errorf("write the query for %s: %w", dnsname.Shown(dnsname.Unrooted(q.name)), err)
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
				// detects dead connections
				HTTP2:               &http.HTTP2Config{SendPingTimeout: x.timeout, PingTimeout: x.timeout},
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
			err = &exchangeError{
				ReasonUnreachable, fmt.Errorf("%w: %s", ErrCertificate, untrusted.QuoteASCII(invalid.Err.Error(), 200)),
			}
		}
		return nil, err
	}
	defer response.Body.Close()
	return readMessage(response)
}

func readMessage(response *http.Response) ([]byte, error) {
	if response.StatusCode != http.StatusOK {
		return nil,
			&exchangeError{
				ReasonRefused, fmt.Errorf("the resolver answered HTTP %d where 200 is wanted (redirects are not followed)",
					response.StatusCode),
			}
	}
	kind := response.Header.Get("Content-Type")
	if media, _, err := mime.ParseMediaType(kind); err != nil || media != dnsMessage {
		return nil,
			&exchangeError{ReasonMalformed, fmt.Errorf("the resolver answered with content of type %s where %s is wanted",
				untrusted.QuoteASCII(kind, 60), dnsMessage)}
	}
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxMessage+1))
	switch {
	case err != nil:
		return nil, err
	case len(raw) > maxMessage:
		return nil,
			&exchangeError{
				ReasonMalformed, fmt.Errorf("the resolver answered with more than the %d bytes that a message can have",
					maxMessage),
			}
	}
	return raw, nil
}

const headerSize = 12 // bytes (RFC 1035 section 4.1.1)

// maxRecords bounds the records of a reply. A thousand TXT records are supported
// (CASES.md); a hundred more leave room for the rest of the reply. 64 KiB could hold 4,660
// records with names of 255 bytes each, which take 20 ms and 6 MB to parse.
const maxRecords = 1100

// Flags in the header's third and fourth byte (RFC 1035 section 4.1.1).
const (
	bitQR      = 1 << 15
	bitAA      = 1 << 10
	bitTC      = 1 << 9
	bitRA      = 1 << 7
	bitAD      = 1 << 5 // RFC 4035 section 3.2.3
	maskOpcode = 0xF << 11
	maskRCode  = 0xF
)

// errStray marks a message that is not a reply to the query: forged, damaged, or another's.
var errStray = errors.New("not a reply to the question")

type reply struct {
	recased                       bool // the question came back with its letters in another case
	truncated                     bool // the sections are not read then
	authoritative, recursion      bool // AA, RA
	authenticated                 bool // AD
	rcode                         int  // extended (RFC 6891 section 6.1.3)
	answer, authority, additional []dns.RR
	errors                        []*dns.EDNS0_EDE
}

// parseReply parses the reply to the query with this id, name and type. The error is errStray
// for a message that is not its reply; any other error means a reply with its id that is
// invalid. doc.go says why dns.Msg does not suffice.
func parseReply(raw []byte, id uint16, name string, kind uint16) (reply, error) {
	// Is it a reply to this query? Others are strays, which a forger may have sent.
	if len(raw) < headerSize {
		return reply{}, fmt.Errorf("%w: %d bytes", errStray, len(raw))
	}
	field := func(i int) uint16 { return binary.BigEndian.Uint16(raw[2*i:]) }
	flags := field(1)
	if field(0) != id || flags&bitQR == 0 {
		return reply{}, fmt.Errorf("%w: another id, or a query", errStray)
	}
	if flags&maskOpcode != dns.OpcodeQuery<<11 {
		return reply{}, errors.New("a reply with another opcode")
	}
	if field(2) != 1 {
		return reply{}, fmt.Errorf("a reply with %d questions instead of one", field(2))
	}
	off, err := checkQuestion(raw, name, kind)
	if err != nil {
		return reply{}, err
	}

	// A truncated reply says only that TCP has more.
	r := reply{
		truncated:     flags&bitTC != 0,
		authoritative: flags&bitAA != 0,
		recursion:     flags&bitRA != 0,
		authenticated: flags&bitAD != 0,
		rcode:         int(flags & maskRCode),
	}
	if r.truncated {
		return r, nil
	}

	// The three sections, to the last byte.
	if records := int(field(3)) + int(field(4)) + int(field(5)); records > maxRecords {
		return reply{}, fmt.Errorf("a reply with %d records, more than %d", records, maxRecords)
	}
	for i, section := range []*[]dns.RR{&r.answer, &r.authority, &r.additional} {
		if *section, off, err = parseRecords(raw, off, int(field(3+i))); err != nil {
			return reply{}, err
		}
	}
	if off != len(raw) {
		return reply{}, fmt.Errorf("a reply with %d bytes after its end", len(raw)-off)
	}
	return r, r.readOptions()
}

// checkQuestion compares the reply's question with the query, and returns where it ends.
func checkQuestion(raw []byte, name string, kind uint16) (end int, err error) {
	gotName, off, err := dns.UnpackDomainName(raw, headerSize)
	if err != nil {
		return 0, fmt.Errorf("a reply whose question cannot be read: %w", err)
	}
	if off+4 > len(raw) {
		return 0, errors.New("a reply that ends in its question")
	}
	gotKind := binary.BigEndian.Uint16(raw[off:])
	class := binary.BigEndian.Uint16(raw[off+2:])
	if !dnsname.Same(gotName, name) || gotKind != kind || class != dns.ClassINET {
		return 0, fmt.Errorf("a reply to another question: %s %s %s", dnsname.Shown(dnsname.Unrooted(gotName)),
			dns.Class(class), dns.Type(gotKind))
	}
	return off + 4, nil
}

func parseRecords(raw []byte, off, count int) (records []dns.RR, end int, err error) {
	for range count {
		// At the end of the message UnpackRR returns an empty record.
		if off >= len(raw) {
			return nil, 0, errors.New("a reply with fewer records than it counts")
		}
		record, next, err := dns.UnpackRR(raw, off)
		if err != nil {
			return nil, 0, fmt.Errorf("a reply with a record that cannot be read: %w", err)
		}
		records = append(records, record)
		off = next
	}
	return records, off, nil
}

// readOptions reads the OPT record, of which there is at most one (RFC 6891 section 6.1.1).
func (r *reply) readOptions() error {
	options := recordsOf[*dns.OPT](r.additional)
	if len(options) > 1 {
		return errors.New("a reply with two OPT records")
	}
	for _, opt := range options {
		r.rcode |= opt.ExtendedRcode()
		for _, option := range opt.Option {
			if ede, ok := option.(*dns.EDNS0_EDE); ok {
				r.errors = append(r.errors, ede)
			}
		}
	}
	return nil
}

func recordsOf[T dns.RR](section []dns.RR) (records []T) {
	for _, record := range section {
		if r, ok := record.(T); ok {
			records = append(records, r)
		}
	}
	return records
}

// isAnswer reports whether the response code is of an answer: NOERROR or NXDOMAIN.
func (r *reply) isAnswer() bool { return r.rcode == dns.RcodeSuccess || r.rcode == dns.RcodeNameError }

// rcodeName returns the response code's mnemonic, or RCODE and its number.
func (r *reply) rcodeName() string {
	if r.rcode == dns.RcodeBadVers { // the number is BADSIG's too, which belongs to TSIG
		return "BADVERS"
	}
	return cmp.Or(dns.RcodeToString[r.rcode], fmt.Sprintf("RCODE%d", r.rcode))
}

// errorText returns the extended errors: name, number and the server's text, capped.
func (r *reply) errorText() string {
	const most = 3 // of thousands that a reply could hold
	var texts []string
	for _, ede := range r.errors[:min(len(r.errors), most)] {
		text := fmt.Sprintf("%s (%d)", cmp.Or(dns.ExtendedErrorCodeToString[ede.InfoCode], "extended error"), ede.InfoCode)
		if ede.ExtraText != "" {
			text += " " + untrusted.QuoteFound(ede.ExtraText, 100)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ") + andMore(len(r.errors)-most)
}
