package sandbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
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

// FlagReading is an interpretation of the default of use_for_organization_discovery in an
// update (specification 4.1).
type FlagReading int

// The two interpretations.
const (
	KeepFlag FlagReading = iota // an update without the flag does not change it
	FlagTrue                    // an update without the flag sets it to true
)

// Options configures a sandbox. The zero value is a tenant without a rate limit, on free
// ports of loopback, without a Redis.
type Options struct {
	// APIAddr, DNSAddr and RedisAddr are the addresses to listen at, host:port.
	// Empty: a free port of 127.0.0.1; for RedisAddr: no Redis.
	APIAddr, DNSAddr, RedisAddr string

	Seed uint64 // of identifiers and domains' tokens: the same seed makes the same ones

	// Resolvers is the number of addresses at which the DNS server answers, for a quorum:
	// DNSAddr, and free ports of its host; 0: 3.
	Resolvers int

	Rate  float64 // permits per second of the tenant's bucket; 0: no limit and no x-ratelimit headers
	Burst int     // the bucket's size; 0: the permits of one second, at least 1

	NegativeTTL time.Duration // SOA TTL and MINIMUM in negative answers, and the TTL of every record; whole seconds, rounded up

	FlagDefault         FlagReading   // the default of specification 4.1
	TokenLifetime       time.Duration // of access tokens, whole seconds, rounded up; 0: 24 h
	MaxClients          int           // most clients in one DELETE, at most 100; 0: 100
	ReadLag             time.Duration // after which reads of discovery domains return a change or a new domain
	RepeatTemplateNames bool          // several templates may have one name; otherwise the second gets a 409
	OldRecords          bool          // answers omit use_for_organization_discovery, as older ones did

	Remember int // the number of last requests, and of last DNS queries, in the logs; 0: 200,000. All are counted

	Clock  func() time.Time // nil: time.Now; latency and dripping always take real time
	Logger *slog.Logger     // nil: silent
}

// defaultResolvers have a quorum of two, and one to spare.
const defaultResolvers = 3

// Sandbox is a running tenant. It is safe for concurrent use. Methods that set state accept
// everything: only requests must follow the specification.
type Sandbox struct {
	options      Options
	baseURL      string
	authURL      string
	clientID     string
	clientSecret string

	tenant     *tenant
	tokens     tokens
	assertions assertions
	bucket     *bucket // nil: no limit
	faults     *faults
	log        *requestLog
	zone       *zone
	names      *names

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
	listener, err := net.Listen("tcp", o.APIAddr)
	if err != nil {
		return nil, fmt.Errorf("sandbox: API on %s: %w", o.APIAddr, inUse(err))
	}
	s := assemble(o, listener.Addr())
	if s.dns, err = startDNS(o.DNSAddr, o.Resolvers, s.zone); err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox: DNS on %s: %w", o.DNSAddr, inUse(err)), listener.Close())
	}
	if o.RedisAddr != "" {
		s.redis = miniredis.NewMiniRedis()
		s.redis.ClockTTL(true) // otherwise keys never expire
		if err := s.redis.StartAddr(o.RedisAddr); err != nil {
			return nil, errors.Join(fmt.Errorf("sandbox: Redis on %s: %w", o.RedisAddr, inUse(err)), s.dns.close(), listener.Close())
		}
	}
	s.serve(listener)
	s.options.Logger.Info("sandbox started", "base_url", s.baseURL, "dns", s.DNSAddr(), "redis", s.RedisURL())
	return s, nil
}

// complete sets defaults and refuses invalid options.
func (o Options) complete() (Options, error) {
	o.APIAddr = cmp.Or(o.APIAddr, "127.0.0.1:0")
	o.DNSAddr = cmp.Or(o.DNSAddr, "127.0.0.1:0")
	o.TokenLifetime = cmp.Or(o.TokenLifetime, 24*time.Hour)
	o.MaxClients = cmp.Or(o.MaxClients, maxClients)
	o.Resolvers = cmp.Or(o.Resolvers, defaultResolvers)
	o.Remember = cmp.Or(o.Remember, defaultRemember)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.Rate < 0 || math.IsNaN(o.Rate) || math.IsInf(o.Rate, 0):
		return o, fmt.Errorf("rate %v: want permits per second, or 0 for no limit", o.Rate)
	case o.Resolvers < 0:
		return o, fmt.Errorf("resolvers %d: want 1 or more", o.Resolvers)
	case o.Remember < 0:
		return o, fmt.Errorf("remember %d: want 1 or more, or 0 for %d", o.Remember, defaultRemember)
	case o.Burst < 0:
		return o, fmt.Errorf("burst %d: want 1 or more, or 0 for the permits of one second", o.Burst)
	case o.MaxClients < 1 || o.MaxClients > maxClients:
		return o, fmt.Errorf("max clients %d: want 1 to %d", o.MaxClients, maxClients)
	case o.NegativeTTL < 0 || o.TokenLifetime < 0 || o.ReadLag < 0:
		return o, errors.New("negative TTL, token lifetime and read lag cannot be below zero")
	}
	return o, nil
}

func assemble(o Options, addr net.Addr) *Sandbox {
	s := &Sandbox{
		options: o,
		authURL: "http://" + reachable(addr.String()),
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
	s.tokens.granted.Store(new(AllScopes()))
	s.assertions.seen = map[string]time.Time{}
	if o.Rate > 0 {
		s.bucket = newBucket(o.Rate, o.Burst, o.Clock())
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

func (s *Sandbox) serveHTTP(w http.ResponseWriter, r *http.Request) {
	s.calls.Add(1)
	defer s.calls.Done()
	if strings.HasPrefix(r.URL.Path, controlPrefix) {
		s.serveControl(w, r)
		return
	}
	s.serveAPI(w, r)
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

// BaseURL returns the API's base URL: http://127.0.0.1:port/api/v2.
func (s *Sandbox) BaseURL() string { return s.baseURL }

// AuthURL returns the base of the token endpoint: http://127.0.0.1:port.
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
	if s.redis != nil {
		lines = append(lines, "ORGOPS_REDIS_URL="+s.RedisURL())
	}
	if s.bucket == nil {
		lines = append(lines, "ORGOPS_RATE=unlimited")
	} else {
		lines = append(lines,
			"ORGOPS_RATE="+strconv.FormatFloat(s.options.Rate, 'f', -1, 64)+"/s",
			"ORGOPS_BURST="+strconv.Itoa(int(s.bucket.size)))
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
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.closing.Done():
	}
}

// Requests returns the last requests to API and token endpoint, oldest first, as many as
// Options.Remember.
func (s *Sandbox) Requests() []Request { return s.log.since(0) }
