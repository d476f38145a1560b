package sandbox

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Sandbox is a running tenant. It is safe for concurrent use. Methods that set state accept
// everything: only requests must follow the specification.
type Sandbox struct {
	options      Options
	baseURL      string
	authURL      string
	clientID     string
	clientSecret string

	tenant *tenant
	tokens tokens
	bucket *bucket // nil: no limit
	faults *faults
	log    *requestLog
	zone   *zone
	names  *names

	api     *http.Server
	dns     *dnsServer
	redis   *miniredis.Miniredis // nil: none
	closing context.Context      // ended by end
	end     context.CancelFunc
	serving sync.WaitGroup // the accepting loop of the API
	conns   sync.WaitGroup // its connections
	calls   sync.WaitGroup // its handlers, including those of hijacked connections
	once    sync.Once
	closed  error
}

// inUse adds advice to the error of an address in use.
func inUse(err error) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	return fmt.Errorf("%w (is another sandbox running? Stop it with Ctrl-C, or use that one)", err)
}

// Start opens the listeners and serves. The error names the address that is unavailable or
// the invalid option; then nothing is left running.
func Start(options Options) (*Sandbox, error) {
	o, err := options.complete()
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	listener, origin, err := listen(o)
	if err != nil {
		return nil, err
	}
	s := assemble(o, origin)
	if s.dns, err = startDNS(o.DNSAddr, o.Resolvers, s.zone); err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox: DNS on %s: %w", o.DNSAddr, inUse(err)), listener.Close())
	}
	if o.RedisAddr != "" {
		s.redis = miniredis.NewMiniRedis()
		s.redis.ClockTTL(true) // otherwise keys never expire
		if err := s.redis.StartAddr(o.RedisAddr); err != nil {
			return nil, errors.Join(fmt.Errorf("sandbox: Redis on %s: %w", o.RedisAddr, inUse(err)),
				s.dns.close(), listener.Close())
		}
	}
	s.serve(listener)
	s.options.Logger.Info("sandbox started", "base_url", s.baseURL, "dns", s.DNSAddr(), "redis", s.RedisURL())
	return s, nil
}

// listen opens the API's listener, over TLS if there is a file for its certificate, and returns its
// origin too, such as http://127.0.0.1:16380.
func listen(o Options) (net.Listener, string, error) {
	listener, err := net.Listen("tcp", o.APIAddr)
	if err != nil {
		return nil, "", fmt.Errorf("sandbox: API on %s: %w", o.APIAddr, inUse(err))
	}
	addr := reachable(listener.Addr().String())
	if o.CAFile == "" {
		return listener, "http://" + addr, nil
	}
	certificate, err := newCertificate(o.CAFile, addr)
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("sandbox: certificate of the API: %w", err), listener.Close())
	}
	return tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{certificate}}), "https://" + addr, nil
}

// assemble returns a sandbox with its API at origin. It serves nothing yet.
func assemble(o Options, origin string) *Sandbox {
	s := &Sandbox{
		options: o,
		authURL: origin,
		tenant:  &tenant{templateNames: map[string]int{}},
		faults:  &faults{},
		log:     newRequestLog(o.Remember),
		zone:    newZone(o),
		names:   newNames(o.Seed),
	}
	s.closing, s.end = context.WithCancel(context.Background())
	s.baseURL = s.authURL + basePath
	s.clientID = s.names.client()
	s.clientSecret = rand.Text() + rand.Text()
	s.tokens.key = []byte(rand.Text() + rand.Text())
	if o.Rate > 0 {
		s.bucket = newBucket(o.Rate, o.Burst)
	}
	return s
}

// reachable returns an address that a client on this machine can dial: for a listener on
// all interfaces it is a loopback address.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

func (s *Sandbox) serve(listener net.Listener) {
	s.api = &http.Server{
		Handler:           http.HandlerFunc(s.serveHTTP),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(s.options.Logger.Handler(), slog.LevelDebug),
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				s.conns.Add(1)
			case http.StateClosed, http.StateHijacked:
				s.conns.Done()
			}
		},
	}
	s.serving.Go(func() {
		if err := s.api.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.options.Logger.Error("sandbox API stopped", "error", err)
		}
	})
}

// Close closes the listeners and connections, and returns when all goroutines of the
// sandbox have ended. A second call does nothing and returns the same.
func (s *Sandbox) Close() error {
	s.once.Do(func() {
		s.end()
		err := s.api.Close()
		s.serving.Wait()
		err = errors.Join(err, s.api.Close()) // a connection accepted meanwhile
		s.conns.Wait()
		s.calls.Wait()
		s.closed = errors.Join(err, s.dns.close())
		if s.redis != nil {
			s.redis.Close()
		}
	})
	return s.closed
}

// BaseURL returns the API's base URL: http://127.0.0.1:port/api/v2, or https with Options.CAFile.
func (s *Sandbox) BaseURL() string { return s.baseURL }

// AuthURL returns the base of the token endpoint: http://127.0.0.1:port, or https.
func (s *Sandbox) AuthURL() string { return s.authURL }

// DNSAddr returns the host:port of the first DNS server, over UDP and TCP.
func (s *Sandbox) DNSAddr() string { return s.DNSAddrs()[0] }

// DNSAddrs returns the addresses of all DNS servers.
func (s *Sandbox) DNSAddrs() []string {
	var all []string
	for _, addr := range s.dns.addrs {
		all = append(all, reachable(addr.String()))
	}
	return all
}

// RedisURL returns redis://host:port/0, or "" without a Redis.
func (s *Sandbox) RedisURL() string {
	if s.redis == nil {
		return ""
	}
	return (&url.URL{Scheme: "redis", Host: reachable(s.redis.Addr()), Path: "/0"}).String()
}

// ClientID returns the id of the only client of the token endpoint.
func (s *Sandbox) ClientID() string { return s.clientID }

// ClientSecret returns that client's secret, which each Start makes.
func (s *Sandbox) ClientSecret() string { return s.clientSecret }

// Settings returns the lines NAME=value of an environment file that connects a worker to
// this sandbox.
func (s *Sandbox) Settings() []string {
	lines := []string{
		"ORGOPS_BASE_URL=" + s.BaseURL(),
		"ORGOPS_AUTH_URL=" + s.AuthURL(),
		"ORGOPS_CLIENT_ID=" + s.ClientID(),
		"ORGOPS_CLIENT_SECRET=" + s.ClientSecret(),
		"ORGOPS_RESOLVERS=" + strings.Join(s.DNSAddrs(), ","),
		"ORGOPS_DNS_MODE=resolvers", // its zone has no name servers
	}
	if s.options.CAFile != "" {
		lines = append(lines, "ORGOPS_CA_FILE="+s.options.CAFile)
	}
	if s.redis != nil {
		lines = append(lines, "ORGOPS_REDIS_URL="+s.RedisURL())
	}
	if s.bucket == nil {
		lines = append(lines, "ORGOPS_RATE=unlimited")
	} else {
		lines = append(lines,
			"ORGOPS_RATE="+strconv.FormatFloat(s.options.Rate, 'f', -1, 64)+"/s",
			"ORGOPS_BURST="+strconv.Itoa(s.bucket.Burst()))
	}
	if s.options.MaxClients != maxClients {
		lines = append(lines, "ORGOPS_MAX_CLIENTS_PER_REQUEST="+strconv.Itoa(s.options.MaxClients))
	}
	return lines
}

func (s *Sandbox) now() time.Time { return s.options.Clock() }

// pause waits in real time, or until the sandbox closes. As in a server, it continues if the
// client has disconnected.
func (s *Sandbox) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-s.closing.Done():
	}
}

// Requests returns the last requests to API and token endpoint, oldest first, as many as
// Options.Remember.
func (s *Sandbox) Requests() []Request { return s.log.since(0) }

const basePath = "/api/v2"
