package apiclient

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"orgops/internal/untrusted"
)

// AuthMethod is how a client authenticates to the token endpoint.
type AuthMethod string

// The methods: client_secret_post, client_secret_basic and private_key_jwt of OpenID
// Connect Core section 9.
const (
	AuthBody          AuthMethod = "body"            // the secret in the form
	AuthBasic         AuthMethod = "basic"           // the secret by HTTP Basic (RFC 6749 section 2.3.1)
	AuthPrivateKeyJWT AuthMethod = "private-key-jwt" // an assertion signed by the client's key (RFC 7523)
)

var authMethods = []AuthMethod{AuthBody, AuthBasic, AuthPrivateKeyJWT}

// ParseAuthMethod reads a method's name.
func ParseAuthMethod(name string) (AuthMethod, error) {
	if m := AuthMethod(name); slices.Contains(authMethods, m) {
		return m, nil
	}
	return "", fmt.Errorf("want %s, %s or %s, got %s", AuthBody, AuthBasic, AuthPrivateKeyJWT, untrusted.Value(name))
}

const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" // RFC 7523 section 2.2

// config returns a token request (RFC 6749 section 4.4), and the secret in it. It reads the
// file of the secret or key again, so that they can be replaced without a restart. now is
// the time by the token endpoint's clock.
func (cfg ClientCredentialsConfig) config(address string, now time.Time) (*clientcredentials.Config, Secret, error) {
	if err := CheckTokenURL(cfg.TokenURL); err != nil {
		return nil, Secret{}, err
	}
	c := &clientcredentials.Config{
		ClientID: cfg.ClientID, TokenURL: address, EndpointParams: url.Values{"audience": {cfg.Audience}},
		AuthStyle: oauth2.AuthStyleInParams, // by default it would try both
	}
	if cfg.Method == AuthPrivateKeyJWT {
		assertion, err := cfg.assertion(now)
		c.EndpointParams.Set("client_assertion_type", assertionType)
		c.EndpointParams.Set("client_assertion", assertion.Reveal())
		return c, assertion, err
	}
	if cfg.Method == AuthBasic {
		c.AuthStyle = oauth2.AuthStyleInHeader
	}
	secret, err := cfg.secret()
	c.ClientSecret = secret.Reveal()
	return c, secret, err
}

func (cfg ClientCredentialsConfig) secret() (Secret, error) {
	if cfg.ClientSecretFile == "" {
		return cfg.ClientSecret, nil
	}
	secret, err := ReadSecretFile(cfg.ClientSecretFile, ParseSecret)
	if err != nil {
		return Secret{}, fmt.Errorf("client secret: %w", err)
	}
	return secret, nil
}

// DefaultAssertionAudience returns the default audience of assertions: the authorization
// server's URL with a slash at its end.
func DefaultAssertionAudience(authURL string) string {
	return strings.TrimRight(authURL, "/") + "/"
}

// ClientCredentialsConfig configures the client credentials flow (specification 5).
// TokenURL, Audience and ClientID are required, and the members that Method uses.
type ClientCredentialsConfig struct {
	TokenURL string // https, or http on loopback; see DefaultTokenURL
	Audience string // see DefaultAudience
	ClientID string
	Method   AuthMethod // empty: AuthBody

	// AuthBody and AuthBasic use one of these. The file is read again for each fetch.
	ClientSecret     Secret
	ClientSecretFile string

	// AuthPrivateKeyJWT uses these. The file, a private key as PEM or JWK, is read again
	// for each fetch.
	KeyFile           string
	KeyAlgorithm      string // RS256, RS384, PS256 or ES256; empty: that of the key, or the first that fits it
	AssertionAudience string // see DefaultAssertionAudience

	Network Network // not used if Transport is set

	Transport http.RoundTripper // of token requests; nil: one that opens a connection for each fetch
	Timeout   time.Duration     // of one fetch; 0: 30 s
}

// DefaultTokenURL returns the token endpoint of specification 5 below authURL, including
// its last slash.
func DefaultTokenURL(authURL string) string {
	return strings.TrimRight(authURL, "/") + "/oauth/token/"
}

// CheckTokenURL checks the address of a token endpoint: https, or http on the
// loopback interface only; no credentials, query or fragment.
func CheckTokenURL(tokenURL string) error {
	_, err := parseEndpoint("token URL", tokenURL)
	return err
}
