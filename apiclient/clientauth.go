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
