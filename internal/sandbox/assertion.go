package sandbox

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"
)

// assertions verifies what a client signs instead of sending a secret:
// private_key_jwt (RFC 7523 section 3, OpenID Connect Core section 9).
type assertions struct {
	mu   sync.Mutex
	keys []crypto.PublicKey
	seen map[string]int64 // jti to its exp, Unix seconds
}

// TrustKeys sets the public keys (*rsa.PublicKey, *ecdsa.PublicKey) by which the
// client may prove who it is, instead of its secret. None: only the secret does.
func (s *Sandbox) TrustKeys(keys ...crypto.PublicKey) {
	s.assertions.mu.Lock()
	defer s.assertions.mu.Unlock()
	s.assertions.keys = keys
}

const (
	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	// assertionMost is the longest that the service lets one live, in seconds.
	assertionMost = 300
)

// assertionClaims are those that an assertion must have, and may have. A NumericDate
// may have a fraction.
type assertionClaims struct {
	Issuer    string          `json:"iss"`
	Subject   string          `json:"sub"`
	Audience  json.RawMessage `json:"aud"`
	ID        string          `json:"jti"`
	Expires   *float64        `json:"exp"`
	NotBefore *float64        `json:"nbf"`
	IssuedAt  *float64        `json:"iat"`
}

// check verifies text for a client and one of the audiences, at now in Unix
// seconds. The error says what is wrong.
func (a *assertions) check(text, client string, audiences []string, now int64) error {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return errors.New("client_assertion is no JWT")
	}
	var head struct {
		Algorithm string   `json:"alg"`
		Type      string   `json:"typ"`
		Critical  []string `json:"crit"`
	}
	var c assertionClaims
	if err := errors.Join(segment(parts[0], &head), segment(parts[1], &c)); err != nil {
		return errors.New("client_assertion is no JWT")
	}
	if head.Type != "" && !strings.EqualFold(head.Type, "JWT") || head.Critical != nil {
		return errors.New("client_assertion: its header names an unsupported feature")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.signedBy(head.Algorithm, parts[0]+"."+parts[1], parts[2]) {
		return fmt.Errorf("client_assertion: no key that is known has signed it with %s", capped(head.Algorithm))
	}
	return a.checkClaims(c, client, audiences, float64(now))
}

func (a *assertions) checkClaims(c assertionClaims, client string, audiences []string, now float64) error {
	switch {
	case c.Issuer != client || c.Subject != client:
		return errors.New("client_assertion: iss and sub must be the client's id")
	case !meant(c.Audience, audiences):
		return errors.New("client_assertion: aud is not this server")
	case c.Expires == nil || *c.Expires <= now:
		return errors.New("client_assertion has expired, or has no exp")
	case *c.Expires > now+assertionMost:
		return errors.New("client_assertion lives too long")
	case c.NotBefore != nil && *c.NotBefore > now, c.IssuedAt != nil && *c.IssuedAt > now:
		return errors.New("client_assertion is from the future")
	case c.ID == "":
		return errors.New("client_assertion has no jti")
	}
	for id, exp := range a.seen {
		if float64(exp) <= now {
			delete(a.seen, id)
		}
	}
	if _, again := a.seen[c.ID]; again {
		return errors.New("client_assertion was used before")
	}
	a.seen[c.ID] = int64(*c.Expires) + 1
	return nil
}

// meant says whether aud, a name or a list of names, has one of ours.
func meant(aud json.RawMessage, ours []string) bool {
	var names []string
	if json.Unmarshal(aud, &names) != nil {
		names = make([]string, 1)
		if json.Unmarshal(aud, &names[0]) != nil {
			return false
		}
	}
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(ours, name) })
}

// signedBy says whether one of the keys made the signature (RFC 7518 section 3).
func (a *assertions) signedBy(algorithm, signed, encoded string) bool {
	signature, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return false
	}
	short, long := sha256.Sum256([]byte(signed)), sha512.Sum384([]byte(signed))
	for _, key := range a.keys {
		good := false
		switch k := key.(type) {
		case *rsa.PublicKey:
			switch algorithm {
			case "RS256":
				good = rsa.VerifyPKCS1v15(k, crypto.SHA256, short[:], signature) == nil
			case "RS384":
				good = rsa.VerifyPKCS1v15(k, crypto.SHA384, long[:], signature) == nil
			case "PS256":
				good = rsa.VerifyPSS(k, crypto.SHA256, short[:], signature, &rsa.PSSOptions{SaltLength: sha256.Size}) == nil
			}
		case *ecdsa.PublicKey:
			const half = 32
			good = algorithm == "ES256" && k.Curve == elliptic.P256() && len(signature) == 2*half &&
				ecdsa.Verify(k, short[:], new(big.Int).SetBytes(signature[:half]), new(big.Int).SetBytes(signature[half:]))
		}
		if good {
			return true
		}
	}
	return false
}

func segment(encoded string, into any) error {
	data, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}
