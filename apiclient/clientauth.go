package apiclient

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
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
	return "", fmt.Errorf("want %s, %s or %s, got %s", AuthBody, AuthBasic, AuthPrivateKeyJWT, textValue(name))
}

const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" // RFC 7523 section 2.2

// request returns a token request (RFC 6749 section 4.4), and the secrets in it. It reads
// the file of the secret or key again, so that they can be replaced without a restart. now
// is the time by the token endpoint's clock.
func (cfg ClientCredentialsConfig) request(ctx context.Context, address string, now time.Time) (*http.Request, mask, error) {
	if err := cfg.check(); err != nil {
		return nil, nil, err
	}
	prove := cfg.secret
	if cfg.Method == AuthPrivateKeyJWT {
		prove = func() (Secret, error) { return cfg.assertion(now) }
	}
	proof, err := prove()
	if err != nil {
		return nil, nil, err
	}
	form := url.Values{"grant_type": {"client_credentials"}, "audience": {cfg.Audience}}
	secrets := mask{proof}
	header := http.Header{"Accept": {jsonType}, "Content-Type": {formType}}
	switch cfg.Method {
	case AuthBasic: // both are form-encoded first (RFC 6749 section 2.3.1)
		credentials := url.QueryEscape(cfg.ClientID) + ":" + url.QueryEscape(proof.Reveal())
		encoded := base64.StdEncoding.EncodeToString([]byte(credentials))
		secrets = append(secrets, NewSecret(encoded))
		header.Set("Authorization", "Basic "+encoded)
	case AuthPrivateKeyJWT:
		form.Set("client_id", cfg.ClientID)
		form.Set("client_assertion_type", assertionType)
		form.Set("client_assertion", proof.Reveal())
	default:
		form.Set("client_id", cfg.ClientID)
		form.Set("client_secret", proof.Reveal())
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, nil, err
	}
	req.Header = header
	return req, secrets, nil
}

func (cfg ClientCredentialsConfig) secret() (Secret, error) {
	if cfg.ClientSecretFile == "" {
		if cfg.ClientSecret.IsZero() {
			return Secret{}, errors.New("no client secret was set")
		}
		return cfg.ClientSecret, nil
	}
	content, err := readSmallFile(cfg.ClientSecretFile)
	if err != nil {
		return Secret{}, fmt.Errorf("client secret: %w", err)
	}
	return NewSecret(string(content)), nil
}

// check checks the settings, except the files.
func (cfg ClientCredentialsConfig) check() error {
	if err := CheckTokenURL(cfg.TokenURL); err != nil {
		return err
	}
	switch {
	case cfg.ClientID == "":
		return errors.New("no client id was set")
	case cfg.Audience == "":
		return errors.New("no audience was set")
	case cfg.Method == "":
		return nil
	}
	_, err := ParseAuthMethod(string(cfg.Method))
	return err
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
