package apiclient

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

// AuthMethod is how a client proves to the token endpoint who it is.
type AuthMethod string

// The methods, of which the names in OpenID Connect Core section 9 are
// client_secret_post, client_secret_basic and private_key_jwt.
const (
	AuthBody          AuthMethod = "body"            // the secret in the form
	AuthBasic         AuthMethod = "basic"           // the secret by HTTP Basic (RFC 6749 section 2.3.1)
	AuthPrivateKeyJWT AuthMethod = "private-key-jwt" // an assertion that the client's key has signed (RFC 7523)
)

var authMethods = []AuthMethod{AuthBody, AuthBasic, AuthPrivateKeyJWT}

// ParseAuthMethod reads a method's name.
func ParseAuthMethod(name string) (AuthMethod, error) {
	if m := AuthMethod(name); slices.Contains(authMethods, m) {
		return m, nil
	}
	return "", fmt.Errorf("want %s, %s or %s, got %s", AuthBody, AuthBasic, AuthPrivateKeyJWT, textValue(name))
}

// proof is what one token request proves the client's identity with.
type proof struct {
	style  oauth2.AuthStyle
	secret Secret     // of the client; zero: the form has an assertion
	form   url.Values // beside what every request has
	hidden Secret     // what must not be repeated: secret, or the assertion
}

const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" // RFC 7523 section 2.2

// proof reads the secret or the key anew, so that one that was replaced is
// taken without a restart. now is the time by the token endpoint's clock.
func (cfg ClientCredentialsConfig) proof(now time.Time) (proof, error) {
	if cfg.Method == AuthPrivateKeyJWT {
		assertion, err := cfg.assertion(now)
		if err != nil {
			return proof{}, err
		}
		form := url.Values{"client_assertion_type": {assertionType}, "client_assertion": {assertion.Reveal()}}
		return proof{style: oauth2.AuthStyleInParams, form: form, hidden: assertion}, nil
	}
	secret, err := cfg.secret()
	if err != nil {
		return proof{}, err
	}
	p := proof{style: oauth2.AuthStyleInParams, secret: secret, form: url.Values{}, hidden: secret}
	if cfg.Method == AuthBasic {
		p.style = oauth2.AuthStyleInHeader
	}
	return p, nil
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

// check checks what no file can change.
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

// DefaultAssertionAudience is who an assertion is for, where nothing else is
// said: the authorization server with a slash at its end.
func DefaultAssertionAudience(authURL string) string {
	return strings.TrimRight(authURL, "/") + "/"
}
