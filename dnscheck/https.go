package dnscheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	dnsMessage     = "application/dns-message" // RFC 8484 section 6
	maxMessage     = 1<<16 - 1                 // bytes of a DNS message
	maxConnections = 4                         // idle, to a resolver without HTTP/2
)

// dohClient sends queries in HTTP requests (RFC 8484), over one connection with HTTP/2.
type dohClient struct {
	url     string
	client  *http.Client
	timeout time.Duration
}

func newDoHClient(c connector, r Resolver) *dohClient {
	host := r.certified()
	if port := r.Addr.Port(); port != defaultHTTPSPort || strings.Contains(host, ":") {
		host = net.JoinHostPort(host, strconv.Itoa(int(port)))
	}
	return &dohClient{
		url:     (&url.URL{Scheme: "https", Host: host, Path: r.path()}).String(),
		timeout: c.timeout,
		client: &http.Client{
			Transport: &http.Transport{
				Proxy:               nil, // a proxy would read the queries, and could forge the replies
				DialTLSContext:      func(context.Context, string, string) (net.Conn, error) { return c.open() },
				ForceAttemptHTTP2:   true,
				HTTP2:               &http.HTTP2Config{SendPingTimeout: c.timeout, PingTimeout: c.timeout}, // detects dead connections
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

func (d *dohClient) close() { d.client.CloseIdleConnections() }
