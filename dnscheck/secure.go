package dnscheck

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
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
	"sync/atomic"
	"time"
)

// Who a resolver is, is settled by its certificate (RFC 8310: strict): no answer is better than one from somebody else, so that nothing
// is ever asked in the clear instead.

// tlsConfig wants a certificate for the resolver's name or address, by the roots given; nil: the system's.
func tlsConfig(r Resolver, roots *x509.CertPool, protocols ...string) *tls.Config {
	return &tls.Config{ServerName: r.certified(), RootCAs: roots, MinVersion: tls.VersionTLS12, NextProtos: protocols}
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
	url     string
	client  *http.Client
	timeout time.Duration
}

func newPosts(d tether, r Resolver) *posts {
	host := r.certified()
	if port := r.Addr.Port(); port != defaultHTTPSPort || strings.Contains(host, ":") {
		host = net.JoinHostPort(host, strconv.Itoa(int(port)))
	}
	return &posts{
		url:     (&url.URL{Scheme: "https", Host: host, Path: r.path()}).String(),
		timeout: d.timeout,
		client: &http.Client{
			Transport: &http.Transport{
				Proxy:               nil, // it would see the queries, and answer them: whoever wants one names it as the resolver
				DialTLSContext:      func(context.Context, string, string) (net.Conn, error) { return d.open() },
				ForceAttemptHTTP2:   true,
				HTTP2:               &http.HTTP2Config{SendPingTimeout: d.timeout, PingTimeout: d.timeout}, // finds out connections that died unsaid
				MaxIdleConnsPerHost: mostLines,
				IdleConnTimeout:     idleLine,
				DisableCompression:  true,
			},
			// Where the resolver is, is a setting; nobody moves it.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
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
		return nil, reused.Load(), err
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

func (p *posts) close() { p.client.CloseIdleConnections() }
