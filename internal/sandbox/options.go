package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"
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

	// CAFile is where the certificate of the API is written, PEM: it is served over TLS then, as
	// the vendor's own clients want it. Empty: without TLS.
	CAFile string

	Seed uint64 // of identifiers and domains' tokens: the same seed makes the same ones

	// Resolvers is the number of addresses at which the DNS server answers, for a quorum:
	// DNSAddr, and free ports of its host; 0: 3.
	Resolvers int

	Rate  float64 // permits per second of the tenant's bucket; 0: no limit and no x-ratelimit headers
	Burst int     // the bucket's size; 0: the permits of one second, at least 1

	// SOA TTL and MINIMUM in negative answers, and the TTL of every record; whole seconds, rounded up
	NegativeTTL time.Duration

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
	case o.Remember < 0:
		return o, fmt.Errorf("remember %d: want 1 or more, or 0 for %d", o.Remember, defaultRemember)
	case o.Burst < 0:
		return o, fmt.Errorf("burst %d: want 1 or more, or 0 for the permits of one second", o.Burst)
	case o.ReadLag < 0:
		return o, errors.New("read lag: it cannot be below zero")
	}
	return o, nil
}
