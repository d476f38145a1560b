package dnscheck

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"orgops/internal/untrusted"
)

// DefaultTimeout is the timeout of one attempt over one transport. Public resolvers answer
// from their cache in milliseconds and give up on a dead zone within two or three seconds.
const DefaultTimeout = 3 * time.Second

// Config configures a Checker.
type Config struct {
	Resolvers []Resolver        // at least one, no address twice; perspectives, if any is named: at least two
	Quorum    int               // how many must agree, as by QuorumOf; 0: the least that it allows
	Timeout   time.Duration     // of one attempt over one transport; 0: DefaultTimeout
	RootCAs   *x509.CertPool    // for resolvers over HTTPS; nil: the system's
	Observe   func(Observation) // called with each observation that counts, concurrently; nil: not

	RequireDNSSEC bool // a proof needs authenticated answers (AD), even if no resolver returns any
	RefuseAliases bool // no proof through an alias out of the registered domain: ReasonAliasOut

	Mode           Mode   // which servers are queried; 0: the resolvers
	NameServerPort uint16 // of the zones' name servers; 0: 53
	AnyNameServer  bool   // query non-public addresses too: for tests, and a private DNS
}

// Mode selects the servers that are queried.
type Mode int

// The modes.
const (
	// ModeResolvers queries only the resolvers. A public one counts for a proof only over HTTPS: where
	// port 53 is redirected, one machine would be all of them.
	ModeResolvers Mode = iota
	// ModeAuthority queries the zone's name servers, and for a proof the resolvers too. Without an
	// answer of the name servers the result is Unknown: what the resolvers say does not replace it.
	ModeAuthority
)

var modes = []string{ModeResolvers: "resolvers", ModeAuthority: "authority"}

func (m Mode) String() string { return modes[m] }

// ParseMode is the inverse of String.
func ParseMode(s string) (Mode, error) {
	m := slices.Index(modes, s)
	if m < 0 {
		return 0, fmt.Errorf("dns mode %s: want authority or resolvers", untrusted.QuoteASCII(s, 20))
	}
	return Mode(m), nil
}

// Checker checks verification tokens in the DNS. It caches zones' name servers, but none of
// their answers. It is safe for concurrent use.
type Checker struct {
	panel     // the resolvers
	config    Config
	exchange  *exchange
	authority *authority // nil in ModeResolvers
	zones     *cache[Zone]
}

// New returns a Checker, or an error that describes an invalid Config.
func New(c Config) (*Checker, error) { return newChecker(c, &net.Dialer{}) }

func newChecker(c Config, d dialer) (*Checker, error) {
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	quorum, err := c.check()
	if err != nil {
		return nil, err
	}
	checker := &Checker{
		panel:  panel{quorum: quorum, in: perspectivesOf(c.Resolvers)},
		config: c, exchange: newExchange(d, c.Timeout), zones: newCache[Zone](),
	}

	// The resolvers, each with its operator: no operator may reach the quorum alone.
	operators := Operators(c.Resolvers)
	for i, r := range c.Resolvers {
		r.Name = cmp.Or(r.Name, r.String())
		r.Transport = cmp.Or(r.Transport, transportUDP)
		if r.encrypted() {
			checker.exchange.doh[r.Addr] = checker.exchange.newDoHClient(r, c.RootCAs)
		}
		checker.resolvers = append(checker.resolvers, resolverClient{
			resolver: r, operator: operators[i], exchange: checker.exchange, status: new(resolverStatus),
		})
	}

	// The domains' own name servers, unless only resolvers are queried.
	if c.Mode != ModeResolvers {
		checker.authority = &authority{
			panel: checker.panel, exchange: newExchange(d, min(c.Timeout, authorityAttempt)),
			port: cmp.Or(c.NameServerPort, defaultPort), anyAddress: c.AnyNameServer,
			delegations: newCache[delegation](),
		}
		for i := range checker.authority.addresses {
			checker.authority.addresses[i] = newCache[addresses]()
		}
	}
	return checker, nil
}

// check returns the quorum, or why the configuration is invalid.
func (c Config) check() (quorum int, err error) {
	if err := checkResolvers(c.Resolvers); err != nil {
		return 0, err
	}
	if quorum, err = QuorumOf(c.Quorum, len(c.Resolvers)); err != nil {
		return 0, err
	}
	if err := checkOperators(c.Resolvers, quorum); err != nil {
		return 0, err
	}
	if err := checkPerspectives(c.Resolvers); err != nil {
		return 0, err
	}
	if c.Mode == ModeResolvers {
		return quorum, checkProtected(c.Resolvers, quorum)
	}
	return quorum, nil
}

func checkResolvers(resolvers []Resolver) error {
	if len(resolvers) == 0 {
		return errors.New("no resolvers: name at least one")
	}
	for i, r := range resolvers {
		if err := r.check(); err != nil {
			return err
		}
		if slices.ContainsFunc(resolvers[:i], r.isSame) {
			return fmt.Errorf("resolver %s is named twice: it would count twice for the quorum; name each once", r)
		}
	}
	return nil
}

// Close closes the connections to resolvers. All checks must have ended.
func (c *Checker) Close() {
	for _, doh := range c.exchange.doh {
		doh.client.CloseIdleConnections()
	}
}
