package tenant

import (
	"crypto/sha256"
	"encoding/hex"
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
	Name              string `yaml:"name" name:"tenant" help:"Name of the tenant." default:"default"`
	BaseURL           string `yaml:"base_url" help:"Base URL of the Management API: https://TENANT/api/v2." placeholder:"URL"`
	AuthURL           string `yaml:"auth_url" help:"URL of the authorization server (default: the base URL's host)." placeholder:"URL"`
	ClientAuth        string `yaml:"client_auth" help:"Client authentication: body (secret in the form), basic (HTTP Basic), or private-key-jwt (an assertion signed with a key)." default:"body"`
	ClientKeyFile     string `yaml:"client_key_file" help:"Private key for private-key-jwt: PEM or JWK; RSA of 2048 bits or more, or P-256. Read for each token, as secrets in files are." placeholder:"FILE"`
	ClientKeyAlg      string `yaml:"client_key_alg" help:"Signature algorithm: RS256, RS384, PS256 or ES256 (default: the JWK's, else RS256 for RSA and ES256 for P-256)." placeholder:"ALG"`
	AssertionAudience string `yaml:"assertion_audience" help:"Audience of the assertion (default: {auth-url}/)." placeholder:"URL"`
	CAFile            string `yaml:"ca_file" name:"ca-file" help:"Certificate authorities to trust for the API and webhooks in addition to the system's, PEM." placeholder:"FILE"`
	Body              string `yaml:"body" help:"Format of request bodies: json or form." default:"json"`
	TokenURL          string `yaml:"token_url" help:"URL of the token endpoint (default: {auth-url}/oauth/token/)." placeholder:"URL"`
	Audience          string `yaml:"audience" help:"Audience of the token (default: the base URL's host with /api/v2/)." placeholder:"URL"`
	ClientID          string `yaml:"client_id" help:"Client id. Set the secret in ORGOPS_CLIENT_SECRET or ORGOPS_CLIENT_SECRET_FILE; or, instead of both, a bearer token in ORGOPS_TOKEN or ORGOPS_TOKEN_FILE." placeholder:"ID"`
	ClientSecretFile  string `yaml:"client_secret_file" kong:"-"`
	ClientSecretEnv   string `yaml:"client_secret_env" kong:"-"`
	TokenFile         string `yaml:"token_file" kong:"-"`
	TokenEnv          string `yaml:"token_env" kong:"-"`

	Announced `yaml:",inline"`

	Webhooks       string `yaml:"webhooks" help:"YAML file of webhook endpoints." placeholder:"FILE"`
	WebhookBacklog int    `yaml:"webhook_backlog" help:"Maximum number of events that wait for one endpoint. If there are more, the oldest are dropped." default:"9000"`
	AllowUnproven  bool   `yaml:"allow_unproven" help:"Allow domains update to set verified without a proof."`

	Derived `yaml:"-" kong:"-"`
}

// Derived are the values that [Settings.Complete] derives from the settings.
type Derived struct {
	Limit        pace.Limit
	DNSResolvers []dnscheck.Resolver
	Mode         dnscheck.Mode
	Cron         sweep.Cron // the zero value if there is no schedule
	Secret       apiclient.Secret
	Token        apiclient.Secret
	Network      apiclient.Network
	Endpoints    []webhooks.Endpoint
	Files        string // [Settings.DigestFiles] before they were read
}

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
	t.ClientSecretFile = env("ORGOPS_CLIENT_SECRET_FILE")
	t.TokenFile = env("ORGOPS_TOKEN_FILE")
	if env("ORGOPS_CLIENT_SECRET") != "" {
		t.ClientSecretEnv = "ORGOPS_CLIENT_SECRET"
	}
	if env("ORGOPS_TOKEN") != "" {
		t.TokenEnv = "ORGOPS_TOKEN"
	}
	return t
}

// ReadFile reads a YAML file of tenants, and returns its [Digest] too. It opens the file once,
// which may be a pipe. Unknown members are refused. Errors name the line of the tenant.
func ReadFile(path string, env func(string) string) (all []Settings, digest string, err error) {
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	all, err = parse(body, env)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	return all, digestOf(sha256.Sum256(body)), nil
}

// digestOf returns the [Digest] of files whose contents have these sums.
func digestOf(sums ...[sha256.Size]byte) string {
	all := sha256.New()
	for _, sum := range sums {
		_, _ = all.Write(sum[:]) // it never fails
	}
	return hex.EncodeToString(all.Sum(nil))
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
