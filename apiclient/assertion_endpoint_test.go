package apiclient_test

import (
	"crypto"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	josejwt "github.com/go-jose/go-jose/v4/jwt"

	"orgops/apiclient"
)

// assertions is a token endpoint that accepts a client's private_key_jwt, each once (RFC 7523
// section 3, OpenID Connect Core section 9). It shares no code with the client.
type assertions struct {
	url  string
	keys []crypto.PublicKey

	mu   sync.Mutex
	seen map[string]bool // jti
}

// acceptsAssertions returns the settings for an endpoint that knows these keys.
func acceptsAssertions(t *testing.T, keys ...crypto.PublicKey) apiclient.ClientCredentialsConfig {
	t.Helper()
	a := &assertions{keys: keys, seen: map[string]bool{}}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	a.url = server.URL
	return apiclient.ClientCredentialsConfig{
		TokenURL: apiclient.DefaultTokenURL(server.URL), Audience: "https://api.example/", ClientID: "client",
		Method: apiclient.AuthPrivateKeyJWT, AssertionAudience: apiclient.DefaultAssertionAudience(server.URL),
	}
}

func (a *assertions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	answer := map[string]any{"access_token": "token", "token_type": "Bearer", "expires_in": 86400}
	if err := a.check(r); err != nil {
		w.WriteHeader(http.StatusUnauthorized)
		answer = map[string]any{"error": "invalid_client", "error_description": err.Error()}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (a *assertions) check(r *http.Request) error {
	const kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	if r.FormValue("client_assertion_type") != kind || r.FormValue("client_id") != "client" ||
		r.FormValue("client_secret") != "" || r.Header.Get("Authorization") != "" {
		return errors.New("want an assertion of the client, and nothing else")
	}
	token, err := josejwt.ParseSigned(r.FormValue("client_assertion"),
		[]jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.PS256, jose.ES256})
	if err != nil {
		return err
	}
	if kind, ok := token.Headers[0].ExtraHeaders[jose.HeaderType].(string); ok && !strings.EqualFold(kind, "JWT") {
		return errors.New("typ is not JWT")
	}
	var c josejwt.Claims
	if !slices.ContainsFunc(a.keys, func(key crypto.PublicKey) bool { return token.Claims(key, &c) == nil }) {
		return errors.New("no key that is known has signed it")
	}
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case c.Issuer != "client" || c.Subject != "client":
		return errors.New("iss and sub must be the client's id")
	case !c.Audience.Contains(a.url + "/"):
		return errors.New("aud is not this server")
	case c.Expiry == nil || !c.Expiry.Time().After(now):
		return errors.New("it has expired, or has no exp")
	case c.Expiry.Time().After(now.Add(5 * time.Minute)): // the longest lifetime that the service accepts
		return errors.New("it lives too long")
	case c.NotBefore != nil && c.NotBefore.Time().After(now), c.IssuedAt != nil && c.IssuedAt.Time().After(now):
		return errors.New("it is from the future")
	case c.ID == "" || a.seen[c.ID]:
		return errors.New("it has no jti, or was used before")
	}
	a.seen[c.ID] = true
	return nil
}
