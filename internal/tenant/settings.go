package tenant

import (
	"errors"
	"fmt"
	"os"

	"github.com/alecthomas/kong"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/cli"
	"orgops/internal/pace"
	"orgops/internal/sweep"
	"orgops/internal/webhooks"
)

// Settings are one tenant's settings, as flags and as the members of a tenant in a file.
type Settings struct {
	Name                 string       `yaml:"name" name:"tenant" help:"Name of the tenant." default:"default"`
	BaseURL              string       `yaml:"base_url" help:"Base URL of the Management API: https://TENANT/api/v2." placeholder:"URL"`
	AuthURL              string       `yaml:"auth_url" help:"URL of the authorization server (default: the base URL's host)." placeholder:"URL"`
	ClientAuth           string       `yaml:"client_auth" help:"Client authentication: body (secret in the form), basic (HTTP Basic), or private-key-jwt (an assertion signed with a key)." default:"body"`
	ClientKeyFile        string       `yaml:"client_key_file" help:"Private key for private-key-jwt: PEM or JWK; RSA of 2048 bits or more, or P-256. Read for each token, as secrets in files are." placeholder:"FILE"`
	ClientKeyAlg         string       `yaml:"client_key_alg" help:"Signature algorithm: RS256, RS384, PS256 or ES256 (default: the JWK's, else RS256 for RSA and ES256 for P-256)." placeholder:"ALG"`
	AssertionAudience    string       `yaml:"assertion_audience" help:"Audience of the assertion (default: {auth-url}/)." placeholder:"URL"`
	CAFile               string       `yaml:"ca_file" name:"ca-file" help:"Certificate authorities to trust for the API and webhooks in addition to the system's, PEM." placeholder:"FILE"`
	Body                 string       `yaml:"body" help:"Format of request bodies: json or form." default:"json"`
	TokenURL             string       `yaml:"token_url" help:"URL of the token endpoint (default: {auth-url}/oauth/token/)." placeholder:"URL"`
	Audience             string       `yaml:"audience" help:"Audience of the token (default: the base URL's host with /api/v2/)." placeholder:"URL"`
	ClientID             string       `yaml:"client_id" help:"Client id. Set the secret in ORGOPS_CLIENT_SECRET or ORGOPS_CLIENT_SECRET_FILE; or, instead of both, a bearer token in ORGOPS_TOKEN or ORGOPS_TOKEN_FILE." placeholder:"ID"`
	ClientSecretFile     string       `yaml:"client_secret_file" kong:"-"`
	ClientSecretEnv      string       `yaml:"client_secret_env" kong:"-"`
	TokenFile            string       `yaml:"token_file" kong:"-"`
	TokenEnv             string       `yaml:"token_env" kong:"-"`
	Rate                 string       `yaml:"rate" help:"Request rate that the tenant's plan allows: 16/s, 150/min, or unlimited." default:"2/s"`
	Burst                int          `yaml:"burst" help:"Burst that the tenant's plan allows, in requests." default:"2"`
	Reserve              float64      `yaml:"reserve" help:"Percentage of rate and burst reserved for the tenant's own logins." default:"20"`
	SweepShare           float64      `yaml:"sweep_share" help:"Percentage of the rate after the reserve that sweeps may use." default:"20"`
	MaxClientsPerRequest int          `yaml:"max_clients_per_request" help:"Maximum number of clients that one request removes." default:"100"`
	Resolvers            []string     `yaml:"resolvers" help:"Resolvers to query: https://ADDRESS/dns-query#NAME, or unencrypted ADDRESS or tcp://ADDRESS. The certificate must be valid for NAME (default: the address), which is never looked up. @PERSPECTIVE names the network of your own resolver (https://ADDRESS/dns-query#NAME@eu); if any resolver has one, each perspective has one vote." default:"https://1.1.1.1/dns-query#one.one.one.one,https://8.8.8.8/dns-query#dns.google,https://9.9.9.9/dns-query#dns.quad9.net"`
	ResolverQuorum       int          `yaml:"resolver_quorum" help:"Resolvers that must return the token (default and minimum: all of two, all but one of three to five, all but two of six or more)." default:"0"`
	RequireDNSSEC        bool         `yaml:"require_dnssec" name:"require-dnssec" help:"Require a quorum of answers authenticated by DNSSEC. Domains without DNSSEC are then never verified."`
	RefuseAliases        bool         `yaml:"refuse_aliases" help:"Do not verify a domain whose TXT record is reached through an alias (CNAME or DNAME) that leads out of the domain."`
	DNSMode              string       `yaml:"dns_mode" name:"dns-mode" help:"Servers to query: authority (the domain's own name servers; a proof requires a quorum of the resolvers too), or resolvers (only these, for networks in which port 53 is closed; a quorum of them has to be queried over HTTPS or at private addresses)." default:"authority"`
	GiveUp               cli.Duration `yaml:"give_up" help:"How long to wait for the TXT record of a domain to appear, unless a row's submission says it." default:"72h"`
	Sweep                string       `yaml:"sweep" help:"Schedule for checking all verified domains again: five cron fields in UTC (0 3 * * *), @daily and the like, or off." default:"off" placeholder:"CRON"`
	VerifyPending        bool         `yaml:"verify_pending" help:"Let sweeps check pending domains too, and verify those whose TXT record is there."`
	Grace                cli.Duration `yaml:"grace" help:"How long the TXT record of a verified domain must be gone until sweeps report the domain as lost, and it may be revoked; at least 24h." default:"168h"`
	AbsentChecks         int          `yaml:"absent_checks" help:"Number of consecutive sweeps that must find it gone until then; at least 2." default:"3"`
	Protect              []string     `yaml:"protect" help:"Domains (including their subdomains) and organization ids that are never revoked." placeholder:"NAME"`
	Webhooks             string       `yaml:"webhooks" help:"YAML file of webhook endpoints." placeholder:"FILE"`
	WebhookBacklog       int          `yaml:"webhook_backlog" help:"Maximum number of events that wait for one endpoint. If there are more, the oldest are dropped." default:"9000"`
	AllowUnproven        bool         `yaml:"allow_unproven" help:"Allow domains update to set verified without a proof."`

	Derived `yaml:"-" kong:"-"`
}

// Derived are the values that [Settings.Complete] derives from the settings.
type Derived struct {
	Limit        pace.Limit
	DNSResolvers []dnscheck.Resolver
	Quorum       int // of the resolvers
	Mode         dnscheck.Mode
	Cron         sweep.Cron // the zero value if there is no schedule
	Rules        sweep.Rules
	Secret       apiclient.Secret
	Token        apiclient.Secret
	Network      apiclient.Network
	Endpoints    []webhooks.Endpoint
	Files        string // [Settings.DigestFiles] before they were read
}

// formerMode is a DNS mode that files may still name.
const formerMode = "auto"

// Off is the schedule of a tenant that has none.
const Off = "off"

// Default returns the defaults of the flags.
func Default() (t Settings) {
	if err := kong.ApplyDefaults(&t); err != nil {
		panic(fmt.Sprintf("defaults of a tenant: %v", err)) // a tag is wrong
	}
	return t
}

// UnmarshalYAML reads over the defaults, so that a 0 in the file replaces a default. Of
// YAML's two interfaces this is the one that refuses unknown members further down.
func (t *Settings) UnmarshalYAML(unmarshal func(any) error) error {
	type plain Settings
	*t = Default()
	return unmarshal((*plain)(t))
}

// WithSecrets returns the settings of flags, with the sources of the secrets that the
// environment names.
func (t Settings) WithSecrets(env func(string) string) Settings {
	t.ClientSecretFile, t.TokenFile = env("ORGOPS_CLIENT_SECRET_FILE"), env("ORGOPS_TOKEN_FILE")
	if env("ORGOPS_CLIENT_SECRET") != "" {
		t.ClientSecretEnv = "ORGOPS_CLIENT_SECRET"
	}
	if env("ORGOPS_TOKEN") != "" {
		t.TokenEnv = "ORGOPS_TOKEN"
	}
	return t
}

// ReadFile reads a YAML file of tenants. Unknown members are refused. Errors name the line
// of the tenant.
func ReadFile(path string, env func(string) string) ([]Settings, error) {
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	all, err := parse(body, env)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

func parse(body []byte, env func(string) string) ([]Settings, error) {
	var file struct {
		Tenants []Settings `yaml:"tenants"`
	}
	lines, err := cli.ReadYAML(body, "tenants", &file)
	if err != nil {
		return nil, err
	}
	if len(file.Tenants) == 0 {
		return nil, errors.New("tenants: none is defined")
	}
	seen := map[string]bool{}
	for i := range file.Tenants {
		t := &file.Tenants[i]
		err := t.Complete(env)
		if err == nil && seen[t.Name] {
			err = errors.New("the name is used twice")
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: tenants[%d] %q: %w", lines[i], i, t.Name, err)
		}
		seen[t.Name] = true
	}
	return file.Tenants, nil
}
