package sandbox_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"orgops/internal/sandbox"
)

// signed returns a JWT signed with ES256, independently of the client under test.
func signed(t *testing.T, key *ecdsa.PrivateKey, header, claims map[string]any) string {
	t.Helper()
	part := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(data)
	}
	text := part(header) + "." + part(claims)
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	signature := append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func TestAssertions(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	s := start(t, sandbox.Options{Clock: func() time.Time { return now }})
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s.TrustKeys(crypto.PublicKey(key.Public()))
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	claims := func(with map[string]any) map[string]any {
		c := map[string]any{"iss": s.ClientID(), "sub": s.ClientID(), "aud": s.AuthURL() + "/", "jti": rand.Text(),
			"iat": at(0), "exp": at(time.Minute)}
		maps.Copy(c, with)
		maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
		return c
	}
	header := map[string]any{"alg": "ES256", "typ": "JWT"}
	used := signed(t, key, header, claims(nil))
	for _, tt := range []struct {
		name      string
		assertion string
		form      map[string]string // empty: left out
		status    int
		words     string
	}{
		{"good", used, nil, 200, ""},
		{"used again", used, nil, 401, "used before"},
		{"without client_id", signed(t, key, header, claims(nil)), map[string]string{"client_id": ""}, 200, ""},
		{"a list of audiences", signed(t, key, header, claims(map[string]any{"aud": []string{"x", s.AuthURL() + "/"}})),
			nil, 200, ""},
		{"of another client", signed(t, key, header, claims(nil)), map[string]string{"client_id": "x"}, 401, ""},
		{"by another key", signed(t, other, header, claims(nil)), nil, 401, "no key"},
		{"said to be by RS256", signed(t, key, map[string]any{"alg": "RS256"}, claims(nil)), nil, 401, "no key"},
		{"said to be by nobody", signed(t, key, map[string]any{"alg": "none"}, claims(nil)), nil, 401, "no key"},
		{"changed", strings.Replace(signed(t, key, header, claims(nil)), ".ey", ".ew", 1), nil, 401, ""},
		{"iss", signed(t, key, header, claims(map[string]any{"iss": "x"})), nil, 401, "iss and sub"},
		{"no sub", signed(t, key, header, claims(map[string]any{"sub": nil})), nil, 401, "iss and sub"},
		{"aud", signed(t, key, header, claims(map[string]any{"aud": s.AuthURL()})), nil, 401, "aud"},
		{"no aud", signed(t, key, header, claims(map[string]any{"aud": nil})), nil, 401, "aud"},
		{"no exp", signed(t, key, header, claims(map[string]any{"exp": nil})), nil, 401, "expired"},
		{"expired", signed(t, key, header, claims(map[string]any{"exp": at(0)})), nil, 401, "expired"},
		{"long", signed(t, key, header, claims(map[string]any{"exp": at(301 * time.Second)})), nil, 401, "too long"},
		{"made tomorrow", signed(t, key, header, claims(map[string]any{"iat": at(time.Second)})), nil, 401, "future"},
		{"valid tomorrow", signed(t, key, header, claims(map[string]any{"nbf": at(time.Second)})), nil, 401, "future"},
		{"no jti", signed(t, key, header, claims(map[string]any{"jti": nil})), nil, 401, "jti"},
		{"critical", signed(t, key, map[string]any{"alg": "ES256", "crit": []string{"b64"}}, claims(nil)), nil, 401,
			"header"},
		{"no JWT", "a.b", nil, 401, "no JWT"},
		{"another type", signed(t, key, header, claims(nil)), map[string]string{"client_assertion_type": "x"}, 400,
			"client_assertion_type"},
		{"with a secret", signed(t, key, header, claims(nil)),
			map[string]string{"client_secret": s.ClientSecret()}, 400, "twice"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			form := credentials(s)
			form.Del("client_secret")
			form.Set("client_assertion", tt.assertion)
			form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
			for name, value := range tt.form {
				form.Set(name, value)
				if value == "" {
					form.Del(name)
				}
			}
			got := do(t, s, ask{method: "POST", path: s.AuthURL() + "/oauth/token", token: "none",
				contentType: asForm, body: form.Encode()})
			if got.status != tt.status || !strings.Contains(got.raw, tt.words) {
				t.Errorf("status %d, want %d with %q: %s", got.status, tt.status, tt.words, got.raw)
			}
		})
	}
	for _, logged := range s.Requests() {
		if strings.Contains(logged.Body, "client_assertion=ey") {
			t.Fatalf("logged %s", logged.Body)
		}
	}
}
