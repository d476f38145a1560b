package sandbox

import (
	"crypto"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// assertions verifies private_key_jwt, which a client signs instead of sending a secret
// (RFC 7523 section 3, OpenID Connect Core section 9).
type assertions struct {
	mu   sync.Mutex
	keys []crypto.PublicKey
	seen map[string]time.Time // jti to its exp
}

// TrustKeys sets the public keys (*rsa.PublicKey, *ecdsa.PublicKey) with which the client
// may authenticate instead of its secret.
func (s *Sandbox) TrustKeys(keys ...crypto.PublicKey) {
	s.assertions.mu.Lock()
	defer s.assertions.mu.Unlock()
	s.assertions.keys = keys
}

const (
	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	// assertionMost is the longest lifetime that the service accepts.
	assertionMost = 300 * time.Second
)

var assertionAlgorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.PS256, jose.ES256}

// check verifies an assertion of a client for one of the audiences. The error says why it
// is refused.
func (a *assertions) check(text, client string, audiences []string, now time.Time) error {
	token, err := jwt.ParseSigned(text, assertionAlgorithms)
	if other, ok := errors.AsType[*jose.ErrUnexpectedSignatureAlgorithm](err); ok {
		return notSigned(string(other.Got))
	}
	if err != nil {
		return errors.New("client_assertion is no JWT")
	}
	header := token.Headers[0]
	kind, isText := header.ExtraHeaders[jose.HeaderType].(string)
	if isText && !strings.EqualFold(kind, "JWT") || header.ExtraHeaders["crit"] != nil {
		return errors.New("client_assertion: its header names an unsupported feature")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var c jwt.Claims
	if !slices.ContainsFunc(a.keys, func(key crypto.PublicKey) bool { return token.Claims(key, &c) == nil }) {
		return notSigned(header.Algorithm)
	}
	return a.checkClaims(c, client, audiences, now)
}

func notSigned(algorithm string) error {
	return fmt.Errorf("client_assertion: no key that is known has signed it with %s", capped(algorithm))
}

func (a *assertions) checkClaims(c jwt.Claims, client string, audiences []string, now time.Time) error {
	switch {
	case c.Issuer != client || c.Subject != client:
		return errors.New("client_assertion: iss and sub must be the client's id")
	case !slices.ContainsFunc(audiences, c.Audience.Contains):
		return errors.New("client_assertion: aud is not this server")
	case c.Expiry == nil || !c.Expiry.Time().After(now):
		return errors.New("client_assertion has expired, or has no exp")
	case c.Expiry.Time().After(now.Add(assertionMost)):
		return errors.New("client_assertion lives too long")
	case c.NotBefore != nil && c.NotBefore.Time().After(now), c.IssuedAt != nil && c.IssuedAt.Time().After(now):
		return errors.New("client_assertion is from the future")
	case c.ID == "":
		return errors.New("client_assertion has no jti")
	}
	for id, exp := range a.seen {
		if !exp.After(now) {
			delete(a.seen, id)
		}
	}
	if _, again := a.seen[c.ID]; again {
		return errors.New("client_assertion was used before")
	}
	a.seen[c.ID] = c.Expiry.Time()
	return nil
}
