package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/cli"
	"orgops/internal/engine/kinds"
	"orgops/internal/events"
	"orgops/internal/pace"
	"orgops/internal/redisconn"
	"orgops/internal/sweep"
	"orgops/internal/tracing"
	"orgops/internal/webhooks"
	"orgops/tasks"
)

// systems are the flags that say what a worker connects to: Redis and tenants.
type systems struct {
	RedisURL string `help:"Redis: redis://, rediss://, redis-sentinel:// or redis-cluster://. Set the password in ORGOPS_REDIS_PASSWORD or ORGOPS_REDIS_PASSWORD_FILE." default:"redis://127.0.0.1:6379/0"`
	Config   string `help:"YAML file of tenants, instead of the tenant's flags." placeholder:"FILE"`

	tenant `group:"The tenant"` // tenantGroup
}

// settings are the worker's flags; each has an environment variable.
type settings struct {
	systems
	HTTPAddr        string        `name:"http-addr" help:"Address of the operator pages (including asynqmon), or off. Other than on loopback, --ops-users or --ops-proxy-header is required." default:"127.0.0.1:8080"`
	ProbeAddr       string        `help:"Address of /healthz, /readyz and /metrics, or off." default:"127.0.0.1:8081"`
	ShutdownTimeout time.Duration `help:"How long running tasks may take to finish at shutdown." default:"25s"`
	LogLevel        string        `help:"Log level: debug, info, warn or error." default:"info"`
	LogFormat       string        `help:"Log format: json or text (default: text on a terminal, else json)." enum:"json,text," default:""`
	DebugHTTP       bool          `name:"debug-http" help:"Log requests to the API and the token endpoint, with their responses, at debug level. Secrets are left out."`

	OTLPEndpoint string  `name:"otlp-endpoint" help:"Send traces to this OpenTelemetry collector by OTLP over HTTP, such as http://127.0.0.1:4318 (default: no tracing)." placeholder:"URL"`
	OTLPRatio    float64 `name:"otlp-ratio" help:"Fraction of rows to trace, 0 to 1. Rows enqueued with a trace follow its sampling decision." default:"1"`

	CheckConfig bool `help:"Print the effective configuration and exit." noenv:"true"`
	Sandbox     bool `help:"Run an embedded tenant, DNS server and Redis, with a sample run of each kind." noenv:"true"`
	Drain       bool `help:"Exit with status 0 once all submitted runs and sweeps of the tenants have ended, apart from runs that are paused or not due yet." noenv:"true"`

	accessFlags `group:"Access to the operator pages"`
}

// tenantGroup is the group of the flags that describe one tenant.
const tenantGroup = "The tenant"

// tenant is one tenant's settings, as flags and as the members of a tenant in a file.
type tenant struct {
	Name                 string        `yaml:"name" name:"tenant" help:"Name of the tenant." default:"default"`
	BaseURL              string        `yaml:"base_url" help:"Base URL of the Management API: https://TENANT/api/v2." placeholder:"URL"`
	AuthURL              string        `yaml:"auth_url" help:"URL of the authorization server (default: the base URL's host)." placeholder:"URL"`
	ClientAuth           string        `yaml:"client_auth" help:"Client authentication: body (secret in the form), basic (HTTP Basic), or private-key-jwt (an assertion signed with a key)." default:"body"`
	ClientKeyFile        string        `yaml:"client_key_file" help:"Private key for private-key-jwt: PEM or JWK; RSA of 2048 bits or more, or P-256. Read for each token, as secrets in files are." placeholder:"FILE"`
	ClientKeyAlg         string        `yaml:"client_key_alg" help:"Signature algorithm: RS256, RS384, PS256 or ES256 (default: the JWK's, else RS256 for RSA and ES256 for P-256)." placeholder:"ALG"`
	AssertionAudience    string        `yaml:"assertion_audience" help:"Audience of the assertion (default: {auth-url}/)." placeholder:"URL"`
	CAFile               string        `yaml:"ca_file" name:"ca-file" help:"Certificate authorities to trust for the API in addition to the system's, PEM." placeholder:"FILE"`
	Body                 string        `yaml:"body" help:"Format of request bodies: json or form." default:"json"`
	TokenURL             string        `yaml:"token_url" help:"URL of the token endpoint (default: {auth-url}/oauth/token/)." placeholder:"URL"`
	Audience             string        `yaml:"audience" help:"Audience of the token (default: the base URL's host with /api/v2/)." placeholder:"URL"`
	ClientID             string        `yaml:"client_id" help:"Client id. Set the secret in ORGOPS_CLIENT_SECRET or ORGOPS_CLIENT_SECRET_FILE; or, instead of both, a bearer token in ORGOPS_TOKEN or ORGOPS_TOKEN_FILE." placeholder:"ID"`
	ClientSecretFile     string        `yaml:"client_secret_file" kong:"-"`
	ClientSecretEnv      string        `yaml:"client_secret_env" kong:"-"`
	TokenFile            string        `yaml:"token_file" kong:"-"`
	TokenEnv             string        `yaml:"token_env" kong:"-"`
	Rate                 string        `yaml:"rate" help:"Request rate that the tenant's plan allows: 16/s, 150/min, or unlimited." default:"2/s"`
	Burst                int           `yaml:"burst" help:"Burst that the tenant's plan allows, in requests." default:"2"`
	Reserve              float64       `yaml:"reserve" help:"Percentage of rate and burst reserved for the tenant's own logins." default:"20"`
	SweepShare           float64       `yaml:"sweep_share" help:"Percentage of the rate after the reserve that sweeps may use." default:"20"`
	MaxClientsPerRequest int           `yaml:"max_clients_per_request" help:"Maximum number of clients that one request removes." default:"100"`
	Resolvers            []string      `yaml:"resolvers" help:"Resolvers to query: tls://ADDRESS#NAME, https://ADDRESS/dns-query#NAME, or unencrypted ADDRESS or tcp://ADDRESS. The certificate must be valid for NAME (default: the address), which is never looked up. @PERSPECTIVE names the network of your own resolver (tls://ADDRESS#NAME@eu); if any resolver has one, a proof requires answers from two." default:"tls://1.1.1.1#one.one.one.one,tls://8.8.8.8#dns.google,tls://9.9.9.9#dns.quad9.net"`
	ResolverQuorum       int           `yaml:"resolver_quorum" help:"Resolvers that must return the token (default and minimum: all of two, all but one of three to five, all but two of six or more)." default:"0"`
	RequireDNSSEC        bool          `yaml:"require_dnssec" name:"require-dnssec" help:"Require a quorum of answers authenticated by DNSSEC. Domains without DNSSEC are then never verified."`
	ThinProofAfter       time.Duration `yaml:"thin_proof_after" help:"Accept a proof that lacks only silent name servers once each check for this time has found it so (24h; at least 1h; 0: never). Whoever holds the other name servers and silences these for so long can have the domain verified." default:"0"`
	RefuseAliases        bool          `yaml:"refuse_aliases" help:"Do not verify a domain whose TXT record is reached through an alias (CNAME or DNAME) that leads out of the domain."`
	RefuseWildcards      bool          `yaml:"refuse_wildcards" help:"Do not verify a domain whose TXT record comes from a wildcard. A proof then asks the resolvers for one random name more."`
	DNSMode              string        `yaml:"dns_mode" name:"dns-mode" help:"Servers to query: auto (the domain's own name servers, or the resolvers where those cannot be reached; a proof requires both, or resolvers over TLS or HTTPS), authority (never the resolvers alone), or resolvers." default:"auto"`
	CanaryZone           string        `yaml:"canary_zone" help:"Empty zone of yours that answers NXDOMAIN. A resolver that answers for a random name in it is not counted." placeholder:"ZONE"`
	GiveUp               time.Duration `yaml:"give_up" help:"How long to wait for the TXT record of a domain to appear." default:"72h"`
	Sweep                string        `yaml:"sweep" help:"Schedule for checking all verified domains again: five cron fields in UTC (0 3 * * *), @daily and the like, or off." default:"off" placeholder:"CRON"`
	VerifyPending        bool          `yaml:"verify_pending" help:"Let sweeps check pending domains too, and verify those whose TXT record is there."`
	AbsentAction         string        `yaml:"absent_action" help:"Action on a verified domain whose TXT record is gone: report, unroute (set use_for_organization_discovery to false) or pending (set the status)." default:"report"`
	Grace                time.Duration `yaml:"grace" help:"How long the TXT record must be gone before the action." default:"168h"`
	AbsentChecks         int           `yaml:"absent_checks" help:"Number of consecutive sweeps that must find it gone before the action." default:"3"`
	Protect              []string      `yaml:"protect" help:"Domains (including their subdomains) and organization ids that are never acted on." placeholder:"NAME"`
	TrustPayload         bool          `yaml:"trust_payload" help:"Do not read records, for credentials without read scopes. Rows must then contain host, token and flag."`
	Webhooks             string        `yaml:"webhooks" help:"YAML file of webhook endpoints." placeholder:"FILE"`
	WebhookBacklog       int           `yaml:"webhook_backlog" help:"Maximum number of events that wait for one endpoint. If there are more, the oldest are dropped." default:"10000"`
	AllowUnproven        bool          `yaml:"allow_unproven" help:"Allow domains update to set verified without a proof."`

	// What follows from these: see complete.
	limit     pace.Limit
	resolvers []dnscheck.Resolver
	quorum    int // of the resolvers
	dnsMode   dnscheck.Mode
	cron      sweep.Cron // if sweep is not off
	rules     sweep.Rules
	secret    apiclient.Secret
	token     apiclient.Secret
	network   apiclient.Network
	endpoints []webhooks.Endpoint
}

// defaultTenant has the defaults of the flags.
func defaultTenant() (t tenant) {
	if err := kong.ApplyDefaults(&t); err != nil {
		panic(fmt.Sprintf("defaults of a tenant: %v", err)) // a tag is wrong
	}
	return t
}

// UnmarshalYAML reads over the defaults, so that a 0 which the file says is
// seen. Of YAML's two interfaces this is the one that refuses unknown members
// further down.
func (t *tenant) UnmarshalYAML(unmarshal func(any) error) error {
	type plain tenant
	*t = defaultTenant()
	return unmarshal((*plain)(t))
}

// checkTogether refuses flags that would be left aside. What the environment
// says is: it is often there for other commands.
func checkTogether(selected *kong.Context, s systems, sandbox bool) error {
	given := cli.GivenIn(selected, tenantGroup)
	switch {
	case sandbox && cli.Given(selected, "config"):
		given = append(given, "config")
	case sandbox && cli.Given(selected, "redis-url"):
		given = append(given, "redis-url")
	}
	switch {
	case len(given) == 0:
		return nil
	case sandbox:
		return cli.Usage(fmt.Errorf("--%s and --sandbox do not go together: the sandbox brings its own tenant and Redis", given[0]))
	case s.Config != "":
		return cli.Usage(fmt.Errorf("--%s and --config do not go together: with a file, the tenants' settings are in it", given[0]))
	}
	return nil
}

// environment is where secrets come from.
type environment func(string) string

// tenants are the tenants that the settings speak of, checked.
func (s systems) tenants(env environment) ([]tenant, error) {
	proxy, err := proxies(env)
	if err != nil {
		return nil, cli.Usage(err)
	}
	all, err := s.named(env)
	for i := range all {
		all[i].network.Proxy = proxy
	}
	return all, err
}

func (s systems) named(env environment) ([]tenant, error) {
	if s.Config == "" {
		t := s.fromFlags(env)
		if err := t.complete(env); err != nil {
			return nil, cli.Usage(err)
		}
		return []tenant{t}, nil
	}
	if s.BaseURL != "" {
		return nil, cli.Usage(errors.New("base-url and config are both set: with a file, the tenants are in it"))
	}
	all, err := readConfig(s.Config, env)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("%s: %w", s.Config, err))
	}
	return all, nil
}

// fromFlags returns the tenant that flags and environment describe.
func (s systems) fromFlags(env environment) tenant {
	t := s.tenant
	t.ClientSecretFile, t.TokenFile = env("ORGOPS_CLIENT_SECRET_FILE"), env("ORGOPS_TOKEN_FILE")
	if env("ORGOPS_CLIENT_SECRET") != "" {
		t.ClientSecretEnv = "ORGOPS_CLIENT_SECRET"
	}
	if env("ORGOPS_TOKEN") != "" {
		t.TokenEnv = "ORGOPS_TOKEN"
	}
	return t
}

// readConfig reads a file of tenants. Unknown members are refused.
func readConfig(path string, env environment) ([]tenant, error) {
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Tenants []tenant `yaml:"tenants"`
	}
	d := yaml.NewDecoder(bytes.NewReader(body))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, cli.YAMLError(err)
	}
	if len(file.Tenants) == 0 {
		return nil, errors.New("tenants: none is defined")
	}
	seen := map[string]bool{}
	for i := range file.Tenants {
		t := &file.Tenants[i]
		if err := t.complete(env); err != nil {
			return nil, fmt.Errorf("tenants[%d] %q: %w", i, t.Name, err)
		}
		if seen[t.Name] {
			return nil, fmt.Errorf("tenants[%d] %q: the name is used twice", i, t.Name)
		}
		seen[t.Name] = true
	}
	return file.Tenants, nil
}

// complete reads the secrets, fills in what follows from the rest, and checks
// everything that can be checked without asking anyone.
func (t *tenant) complete(env environment) error {
	return errors.Join(tasks.CheckTenant(t.Name), t.checkURLs(), t.readSecrets(env), t.checkNetwork(), t.checkLimit(), t.checkResolvers(), t.checkDNSMode(), kinds.CheckThinProofAfter(t.ThinProofAfter), t.checkSweep(), t.checkRules(), t.readWebhooks(env), t.checkBacklog())
}

func (t *tenant) checkURLs() error {
	if t.BaseURL == "" {
		return errors.New("base-url is missing: the tenant's Management API, https://TENANT/api/v2 (or try --sandbox)")
	}
	t.BaseURL = completeBaseURL(t.BaseURL)
	if err := apiclient.CheckBaseURL(t.BaseURL); err != nil {
		return err
	}
	if t.AuthURL == "" {
		t.AuthURL = strings.TrimSuffix(strings.TrimSuffix(t.BaseURL, "/"), "/api/v2")
	}
	if t.TokenURL == "" {
		t.TokenURL = apiclient.DefaultTokenURL(t.AuthURL)
	}
	if err := apiclient.CheckTokenURL(t.TokenURL); err != nil {
		return err
	}
	if t.Audience == "" {
		audience, err := apiclient.DefaultAudience(t.BaseURL)
		if err != nil {
			return fmt.Errorf("audience: %w", err)
		}
		t.Audience = audience
	}
	return nil
}

// completeBaseURL drops a trailing slash, and adds the path of the Management API to a
// tenant's URL without a path.
func completeBaseURL(text string) string {
	text = strings.TrimRight(text, "/")
	if u, err := url.Parse(text); err == nil && u.Host != "" && u.Path == "" && u.RawQuery == "" && u.Fragment == "" {
		return text + "/api/v2"
	}
	return text
}

// readSecrets reads what the tenant authenticates with: a bearer token, or
// the secret or the key of its client credentials.
func (t *tenant) readSecrets(env environment) (err error) {
	if t.secret, err = cli.FileOrEnv(env, t.ClientSecretFile, t.ClientSecretEnv, "client secret"); err != nil {
		return err
	}
	if t.token, err = cli.FileOrEnv(env, t.TokenFile, t.TokenEnv, "token"); err != nil {
		return err
	}
	method, err := apiclient.ParseAuthMethod(t.ClientAuth)
	if err != nil {
		return fmt.Errorf("client-auth: %w", err)
	}
	byKey := method == apiclient.AuthPrivateKeyJWT
	bearer := !t.token.IsZero()
	switch {
	case bearer && !t.secret.IsZero():
		return errors.New("both a token and a client secret are set: set one of them")
	case bearer && (byKey || t.ClientKeyFile != ""):
		return errors.New("both a token and a client key are set: set one of them")
	case !byKey && t.ClientKeyAlg != "":
		return fmt.Errorf("client-key-alg is set, and client-auth is %s: it is for private-key-jwt", method)
	case !byKey && t.AssertionAudience != "":
		return fmt.Errorf("assertion-audience is set, and client-auth is %s: it is for private-key-jwt", method)
	case bearer && method != apiclient.AuthBody:
		return fmt.Errorf("both a token and client-auth %s are set: set one of them", method)
	case bearer:
		return nil
	case byKey && !t.secret.IsZero():
		return errors.New("both a client secret and client-auth private-key-jwt are set: set one of them")
	case byKey && t.ClientKeyFile == "":
		return errors.New("client-key-file is missing: client-auth private-key-jwt signs with a private key, PEM or JWK")
	case !byKey && t.ClientKeyFile != "":
		return fmt.Errorf("client-key-file is set, and client-auth is %s: a key is for private-key-jwt", method)
	case !byKey && t.secret.IsZero():
		return errors.New("no credentials: set client-id with ORGOPS_CLIENT_SECRET or ORGOPS_CLIENT_SECRET_FILE (or with client-auth private-key-jwt and client-key-file), or set ORGOPS_TOKEN or ORGOPS_TOKEN_FILE (in a file: client_secret_file, client_secret_env, token_file or token_env)")
	case t.ClientID == "" && byKey:
		return errors.New("client-id is missing: a client key is set")
	case t.ClientID == "":
		return errors.New("client-id is missing: a client secret is set")
	case byKey:
		if err := apiclient.CheckKeyFile(t.ClientKeyFile, t.ClientKeyAlg); err != nil {
			return fmt.Errorf("client-key-file: %w", err)
		}
		t.AssertionAudience = cmp.Or(t.AssertionAudience, apiclient.DefaultAssertionAudience(t.AuthURL))
	}
	return nil
}

// checkNetwork reads what the tenant's connections need.
func (t *tenant) checkNetwork() error {
	if _, err := apiclient.ParseBodyFormat(t.Body); err != nil {
		return fmt.Errorf("body: %w", err)
	}
	if t.CAFile == "" {
		return nil
	}
	roots, err := apiclient.ReadRootCAs(t.CAFile)
	if err != nil {
		return fmt.Errorf("ca-file: %w", err)
	}
	t.network.RootCAs = roots
	return nil
}

func (t *tenant) checkLimit() error {
	rate, err := pace.ParseRate(t.Rate)
	if err != nil {
		return fmt.Errorf("rate: %w", err)
	}
	if t.Burst < 1 {
		return fmt.Errorf("burst: want at least 1, got %d", t.Burst)
	}
	if !(t.Reserve >= 0 && t.Reserve <= 95) { // NaN is neither
		return fmt.Errorf("reserve: want 0 to 95 percent, got %g", t.Reserve)
	}
	if !(t.SweepShare > 0 && t.SweepShare <= 100) {
		return fmt.Errorf("sweep-share: want above 0 to 100 percent, got %g", t.SweepShare)
	}
	if t.MaxClientsPerRequest < 1 || t.MaxClientsPerRequest > tasks.MaxClients {
		return fmt.Errorf("max-clients-per-request: want 1 to %d, got %d", tasks.MaxClients, t.MaxClientsPerRequest)
	}
	if t.GiveUp <= 0 {
		return fmt.Errorf("give-up: want a time above 0, got %s", t.GiveUp)
	}
	t.limit = pace.Limit{Rate: rate, Burst: t.Burst, Reserve: t.Reserve / 100, SweepShare: t.SweepShare / 100}
	if left, _ := t.limit.Effective(); left.PerSecond() < slowestRate {
		return fmt.Errorf("rate: %s less the reserve of %g percent is less than one request in 30 s: a task that needs several could not end", t.Rate, t.Reserve)
	}
	return nil
}

func (t *tenant) checkResolvers() error {
	if len(t.Resolvers) == 0 {
		return errors.New("resolvers: none is named")
	}
	t.resolvers = nil
	for _, s := range t.Resolvers {
		r, err := dnscheck.ParseResolver(s)
		if err != nil {
			return fmt.Errorf("resolvers: %w", err)
		}
		t.resolvers = append(t.resolvers, r)
	}
	if len(t.resolvers) < 2 {
		return fmt.Errorf("resolvers: want at least two, of different operators, since one alone proves nothing; got only %s", t.Resolvers[0])
	}
	// The checker has rules of its own; made here, it asks nobody.
	if _, err := dnscheck.New(dnscheck.Config{Resolvers: t.resolvers, Quorum: t.ResolverQuorum}); err != nil {
		return fmt.Errorf("resolvers: %w", err)
	}
	var err error
	if t.quorum, err = dnscheck.QuorumOf(t.ResolverQuorum, len(t.resolvers)); err != nil {
		return fmt.Errorf("resolvers: %w", err)
	}
	if _, err := dnscheck.New(dnscheck.Config{Resolvers: t.resolvers, CanaryZone: t.CanaryZone}); err != nil {
		return fmt.Errorf("canary-zone: %w", err)
	}
	return nil
}

func (t *tenant) checkDNSMode() error {
	mode, err := dnscheck.ParseMode(t.DNSMode)
	if err != nil {
		return fmt.Errorf("dns-mode: want auto, authority or resolvers, got %.40q", t.DNSMode)
	}
	t.dnsMode = mode
	return nil
}

// readWebhooks reads who is told of events.
func (t *tenant) readWebhooks(env environment) (err error) {
	if t.Webhooks == "" {
		return nil
	}
	t.endpoints, err = webhooks.ReadEndpoints(t.Webhooks, webhooks.Surroundings{Getenv: env, Types: events.Types})
	if err != nil {
		return fmt.Errorf("webhooks: %w", err)
	}
	return nil
}

// redis is the Redis that the settings name.
func (s systems) redis(p cli.Program, fromArgs bool) (redisconn.Config, error) {
	if err := redisconn.Check(s.RedisURL, !fromArgs); err != nil {
		return redisconn.Config{}, cli.Usage(fmt.Errorf("redis-url: %w", err))
	}
	password, err := cli.Secret(p.Env.Get, cli.EnvName("redis-password"))
	return redisconn.Config{URL: s.RedisURL, Password: password, AllowURLPassword: !fromArgs}, err
}

// check checks what does not concern a tenant.
func (s settings) check() error {
	if s.HTTPAddr != off {
		if err := s.accessFlags.check(s.HTTPAddr); err != nil {
			return cli.Usage(err)
		}
	}
	if s.ProbeAddr != off {
		if _, _, err := net.SplitHostPort(s.ProbeAddr); err != nil {
			return cli.Usage(fmt.Errorf("probe-addr: %w: want host:port, such as 127.0.0.1:8081", err))
		}
	}
	if sameAddr(s.HTTPAddr, s.ProbeAddr) {
		return cli.Usage(fmt.Errorf("http-addr and probe-addr are both %s: give the probes another port: they require no sign-in", s.HTTPAddr))
	}
	if s.DebugHTTP && s.LogLevel != "debug" {
		return cli.Usage(fmt.Errorf("debug-http: it logs at debug level, and log-level is %.20q: set log-level to debug", s.LogLevel))
	}
	if err := tracing.Check(s.OTLPEndpoint, s.OTLPRatio); err != nil {
		return cli.Usage(err)
	}
	if s.ShutdownTimeout < time.Second {
		return cli.Usage(fmt.Errorf("shutdown-timeout: want at least 1s, got %s", s.ShutdownTimeout))
	}
	return nil
}

const (
	// slowestRate, in requests per second, lets a task that needs two requests
	// have both permits within the time that it waits for one.
	slowestRate = 1.0 / 30
	// off turns a listener, or the schedule, off.
	off = "off"
	// defaultHTTPAddr is --http-addr's.
	defaultHTTPAddr = "127.0.0.1:8080"
	// defaultLogLevel is --log-level's.
	defaultLogLevel = "info"
)

// print says what would be used. Secrets are masked by their type.
func (s settings) print(out io.Writer, all []tenant, redis redisconn.Config) {
	fmt.Fprintf(out, "redis-url: %s\nhttp-addr: %s\n", redisconn.Mask(redis.URL), s.HTTPAddr)
	if s.HTTPAddr != off {
		s.accessFlags.print(out)
	}
	fmt.Fprintf(out, "probe-addr: %s\nshutdown-timeout: %s\n", s.ProbeAddr, s.ShutdownTimeout)
	if s.OTLPEndpoint != "" {
		fmt.Fprintf(out, "otlp-endpoint: %s, ratio %g\n", s.OTLPEndpoint, s.OTLPRatio)
	}
	for _, t := range all {
		fmt.Fprintf(out, "tenant %s:\n", t.Name)
		fmt.Fprintf(out, "  base-url: %s\n  token-url: %s\n  audience: %s\n", t.BaseURL, t.TokenURL, t.Audience)
		t.printCredentials(out)
		t.printNetwork(out)
		fmt.Fprintf(out, "  rate: %s, burst %d, reserve %g %%, sweep-share %g %%\n", t.Rate, t.Burst, t.Reserve, t.SweepShare)
		fmt.Fprintf(out, "  max-clients-per-request: %d\n  give-up: %s\n", t.MaxClientsPerRequest, t.GiveUp)
		fmt.Fprintf(out, "  resolvers: %s, quorum %d\n", strings.Join(t.Resolvers, ", "), t.quorum)
		fmt.Fprintf(out, "  operators: %s\n", t.operators())
		fmt.Fprintf(out, "  firewall: %s\n", t.outward())
		fmt.Fprintf(out, "  dns-mode: %s\n  require-dnssec: %t\n", t.dnsMode, t.RequireDNSSEC)
		fmt.Fprintf(out, "  thin-proof-after: %s\n", t.ThinProofAfter)
		fmt.Fprintf(out, "  refuse-aliases: %t\n  refuse-wildcards: %t\n", t.RefuseAliases, t.RefuseWildcards)
		if t.CanaryZone != "" {
			fmt.Fprintf(out, "  canary-zone: %s\n", t.CanaryZone)
		}
		t.printSweep(out)
		fmt.Fprintf(out, "  trust-payload: %t\n  allow-unproven: %t\n", t.TrustPayload, t.AllowUnproven)
		if len(t.endpoints) > 0 {
			fmt.Fprintf(out, "  webhook-backlog: %d\n", t.WebhookBacklog)
		}
		for _, e := range t.endpoints {
			fmt.Fprintf(out, "  webhook %s, secret %s\n", e, apiclient.Secret{})
		}
	}
}

func (t tenant) printCredentials(out io.Writer) {
	switch {
	case !t.token.IsZero():
		fmt.Fprintf(out, "  token: %s\n", t.token)
	case t.ClientKeyFile != "":
		fmt.Fprintf(out, "  client-id: %s\n  client-auth: %s\n  client-key-file: %s\n  assertion-audience: %s\n", t.ClientID, t.ClientAuth, t.ClientKeyFile, t.AssertionAudience)
	default:
		fmt.Fprintf(out, "  client-id: %s\n  client-auth: %s\n  client secret: %s\n", t.ClientID, t.ClientAuth, t.secret)
	}
}

func (t tenant) printNetwork(out io.Writer) {
	fmt.Fprintf(out, "  body: %s\n", t.Body)
	if t.CAFile != "" {
		fmt.Fprintf(out, "  ca-file: %s\n", t.CAFile)
	}
	if u, err := url.Parse(t.BaseURL); err == nil && t.network.Proxy != nil {
		if through, err := t.network.Proxy(u); err == nil && through != nil {
			fmt.Fprintf(out, "  proxy: %s\n", through.Redacted())
		}
	}
}

// operators names who runs each resolver, and its perspective if it has one.
func (t tenant) operators() string {
	names := dnscheck.Operators(t.resolvers)
	for i, r := range t.resolvers {
		if r.Perspective != "" {
			names[i] += " in " + r.Perspective
		}
	}
	return strings.Join(names, ", ")
}

// outward says which connections to the outside the tenant's DNS checks make.
func (t tenant) outward() string {
	var to []string
	if t.dnsMode != dnscheck.ModeResolvers {
		to = append(to, "UDP and TCP to port 53 of any address (the domains' own name servers)")
	}
	for _, r := range t.resolvers {
		protocol := "TCP"
		if r.Transport == "" || r.Transport == "udp" {
			protocol = "UDP and TCP"
		}
		to = append(to, fmt.Sprintf("%s to %s", protocol, r.Addr))
	}
	return strings.Join(to, "; ")
}
