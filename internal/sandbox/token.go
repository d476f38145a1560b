package sandbox

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// tokens makes access tokens. They are JWTs signed with HS256; clients do not check the
// signature.
type tokens struct {
	key     []byte
	minted  atomic.Int64
	granted atomic.Pointer[[]string] // scopes; nil: all
	// withheld are scopes that no token has, also if it was granted before; nil: none.
	withheld atomic.Pointer[[]string]
}

func (t *tokens) withholds(scope string) bool {
	scopes := t.withheld.Load()
	return scopes != nil && slices.Contains(*scopes, scope)
}

type claims struct {
	Issuer    string `json:"iss"`
	Subject   string `json:"sub"`
	Audience  string `json:"aud"`
	IssuedAt  int64  `json:"iat"`
	Expires   int64  `json:"exp"`
	Scope     string `json:"scope"`
	GrantType string `json:"gty"`
	ID        string `json:"jti"`
}

// tokenSeconds returns the lifetime of a token in whole seconds, rounded up.
func (s *Sandbox) tokenSeconds() int64 {
	return int64((s.options.TokenLifetime + time.Second - 1) / time.Second)
}

func (s *Sandbox) mint(audience string, scopes []string) string {
	now := s.now().Unix()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: s.tokens.key},
		new(jose.SignerOptions).WithType("JWT"))
	if err != nil {
		return "" // the key fits
	}
	token, err := jwt.Signed(signer).Claims(claims{
		Issuer: s.authURL + "/", Subject: s.clientID + "@clients", Audience: audience,
		IssuedAt: now, Expires: now + s.tokenSeconds(),
		Scope: strings.Join(scopes, " "), GrantType: "client-credentials",
		// Two tokens of one second differ: a client that was refused expects another.
		ID: strconv.FormatInt(s.tokens.minted.Add(1), 10),
	}).Serialize()
	if err != nil {
		return "" // strings and numbers always encode
	}
	return token
}

func (c claims) may(scope string) bool { return slices.Contains(strings.Fields(c.Scope), scope) }
