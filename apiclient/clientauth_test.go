package apiclient_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"orgops/apiclient"
	"orgops/internal/sandbox"
)

var (
	rsaKey   = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	otherRSA = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	ecKey    = sync.OnceValue(func() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) })
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func pemOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func pkcs8(key any) string { return pemOf("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(key))) }

func jwk(key any, id, algorithm string) string {
	return string(must(jose.JSONWebKey{Key: key, KeyID: id, Algorithm: algorithm}.MarshalJSON()))
}

// keyFile writes a key to a file for the client.
func keyFile(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	writeFile(t, file, content)
	return file
}

func startSandbox(t *testing.T) *sandbox.Sandbox {
	t.Helper()
	box, err := sandbox.Start(sandbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	})
	return box
}

// of returns the settings for the sandbox, which implements the specification and shares no
// code with the client.
func of(box *sandbox.Sandbox) apiclient.ClientCredentialsConfig {
	return apiclient.ClientCredentialsConfig{
		TokenURL: apiclient.DefaultTokenURL(box.AuthURL()), Audience: box.BaseURL() + "/", ClientID: box.ClientID(),
		ClientSecret: apiclient.NewSecret(box.ClientSecret()),
	}
}

func TestAuthMethods(t *testing.T) {
	bySecret, byKey := of(startSandbox(t)), acceptsAssertions(t, rsaKey().Public(), ecKey().Public())
	// as openssl writes before the key
	params := pemOf("EC PARAMETERS", []byte{6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7})
	sec1 := pemOf("EC PRIVATE KEY", must(x509.MarshalECPrivateKey(ecKey())))
	for _, tc := range []struct {
		name      string
		method    apiclient.AuthMethod
		key       string
		algorithm string
	}{
		{"body", apiclient.AuthBody, "", ""},
		{"nothing said", "", "", ""},
		{"basic", apiclient.AuthBasic, "", ""},
		{"PKCS#8", apiclient.AuthPrivateKeyJWT, pkcs8(rsaKey()), ""},
		{"PKCS#8, RS384", apiclient.AuthPrivateKeyJWT, pkcs8(rsaKey()), "RS384"},
		{"PKCS#8, PS256", apiclient.AuthPrivateKeyJWT, pkcs8(rsaKey()), "PS256"},
		{"PKCS#8, P-256", apiclient.AuthPrivateKeyJWT, pkcs8(ecKey()), ""},
		{"PKCS#1", apiclient.AuthPrivateKeyJWT, pemOf("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey())), "RS256"},
		{"SEC1", apiclient.AuthPrivateKeyJWT, params + sec1, "ES256"},
		{"JWK", apiclient.AuthPrivateKeyJWT, jwk(rsaKey(), "k1", "PS256"), ""},
		{"JWK, P-256", apiclient.AuthPrivateKeyJWT, jwk(ecKey(), "", ""), ""},
		{"after its certificate", apiclient.AuthPrivateKeyJWT, pemOf("CERTIFICATE", []byte("x")) + sec1, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := bySecret
			cfg.Method = tc.method
			if tc.key != "" {
				cfg = byKey
				cfg.KeyAlgorithm, cfg.KeyFile = tc.algorithm, keyFile(t, tc.key)
			}
			source := apiclient.ClientCredentials(cfg)
			for range 2 { // an assertion is for one use
				token, err := source.Token(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				source.Expire(token)
			}
		})
	}
	t.Run("a key that nobody knows", func(t *testing.T) {
		cfg := byKey
		cfg.KeyFile = keyFile(t, pkcs8(otherRSA()))
		_, err := apiclient.ClientCredentials(cfg).Token(t.Context())
		if got := tokenError(t, err); got.Status != 401 || got.Code != "invalid_client" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("an audience that is not the server", func(t *testing.T) {
		cfg := byKey
		cfg.KeyFile, cfg.AssertionAudience = keyFile(t, pkcs8(rsaKey())), "https://other.example/"
		_, err := apiclient.ClientCredentials(cfg).Token(t.Context())
		if got := tokenError(t, err); got.Status != 401 || !strings.Contains(got.Description, "aud") {
			t.Errorf("got %v", err)
		}
	})
}

func TestBasic(t *testing.T) {
	e := &endpoint{answer: giving(86400)}
	s := e.source(func(cfg *apiclient.ClientCredentialsConfig) {
		cfg.Method, cfg.ClientSecret = apiclient.AuthBasic, apiclient.NewSecret("a:b c%")
	})
	wantToken(t, s, "token-1")
	if e.forms[0].Has("client_secret") {
		t.Errorf("the secret is in the form too: %v", e.forms[0])
	}
	// Both are form-encoded first (RFC 6749 section 2.3.1).
	if want := "Basic " + base64.StdEncoding.EncodeToString([]byte("the+id:a%3Ab+c%25")); e.headers[0].Get(
		"Authorization") != want {
		t.Errorf("got %q, want %q", e.headers[0].Get("Authorization"), want)
	}
}

func TestKeysThatCannotBeUsed(t *testing.T) {
	small := must(rsa.GenerateKey(rand.Reader, 1024))
	p384 := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	locked := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY",
		Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-256-CBC,00"}, Bytes: []byte("x")}))
	const encrypted = "its key is encrypted, and the worker has no passphrase for it: store it unencrypted, in a file that only the worker can read"
	const none = "it has no private key: want PEM (PKCS#8, PKCS#1 or SEC1) or a JWK"
	for _, tc := range []struct{ name, key, algorithm, want string }{
		{"small", pkcs8(small), "", "an RSA key of 1024 bits is too small: want 2048 or more"},
		{"small JWK", jwk(small, "", ""), "", "an RSA key of 1024 bits is too small: want 2048 or more"},
		{"another curve", pkcs8(p384), "", "a key on the curve P-384 cannot be used: want P-256"},
		{"another kind", pkcs8(ed), "", "a key of this kind cannot be used: want RSA or P-256"},
		{"a shared secret as JWK", jwk([]byte(clientSecret), "", ""), "",
			"a key of this kind cannot be used: want RSA or P-256"},
		{"RSA for ES256", pkcs8(rsaKey()), "ES256", `an RSA key signs with RS256, RS384 or PS256, not with "ES256"`},
		{"RSA for none", pkcs8(rsaKey()), "none", `an RSA key signs with RS256, RS384 or PS256, not with "none"`},
		{"P-256 for RS256", pkcs8(ecKey()), "RS256", `a P-256 key signs with ES256, not with "RS256"`},
		{"JWK for RS512", jwk(rsaKey(), "", "RS512"), "", `an RSA key signs with RS256, RS384 or PS256, not with "RS512"`},
		{"encrypted", pemOf("ENCRYPTED PRIVATE KEY", []byte("x")), "", encrypted},
		{"encrypted the old way", locked, "", encrypted},
		{"public", pemOf("PUBLIC KEY", must(x509.MarshalPKIXPublicKey(rsaKey().Public()))), "", none},
		{"public JWK", jwk(rsaKey().Public(), "", ""), "", "it is the public key: want the private one"},
		{"a set", `{"keys":[` + jwk(ecKey(), "", "") + `]}`, "", "it is a set of keys: want one private key"},
		{"empty", " \n", "", "it is empty"},
		{"something else", "password: " + clientSecret, "", none},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := keyFile(t, tc.key)
			err := apiclient.CheckKeyFile(file, tc.algorithm)
			if want := file + ": " + tc.want; err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
	for _, broken := range []string{pemOf("PRIVATE KEY", []byte(clientSecret)),
		`{"kty":"RSA","n":"` + clientSecret + `"`} {
		if err := apiclient.CheckKeyFile(keyFile(t, broken), ""); err == nil || strings.Contains(err.Error(), clientSecret) ||
			!strings.Contains(err.Error(), "cannot be read") {
			t.Errorf("got %v", err)
		}
	}
}

// part returns a segment of a JWT.
func part(t *testing.T, jwt string, n int) (members map[string]any) {
	t.Helper()
	data, err := base64.RawURLEncoding.DecodeString(strings.Split(jwt, ".")[n])
	if err == nil {
		err = json.Unmarshal(data, &members)
	}
	if err != nil {
		t.Fatal(err)
	}
	return members
}

func TestAssertion(t *testing.T) {
	e := &endpoint{answer: giving(86400)}
	s := e.source(func(cfg *apiclient.ClientCredentialsConfig) {
		cfg.Method, cfg.AssertionAudience = apiclient.AuthPrivateKeyJWT, "https://tenant.example/"
		cfg.KeyFile = keyFile(t, jwk(ecKey(), "key-7", ""))
	})
	var ids []string
	for range 2 {
		token, err := s.Token(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.Expire(token)
	}
	for i, form := range e.forms {
		if form.Has("client_secret") || e.headers[i].Get("Authorization") != "" {
			t.Errorf("a secret is sent as well: %v", form)
		}
		if form.Get("client_id") != "the id" || form.Get("audience") != "https://tenant.example/api/v2/" ||
			form.Get("grant_type") != "client_credentials" {
			t.Errorf("form %v", form)
		}
		if got := form.Get("client_assertion_type"); got != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" {
			t.Errorf("type %s", got)
		}
		header, claims := part(t, form.Get("client_assertion"), 0), part(t, form.Get("client_assertion"), 1)
		if header["kid"] != "key-7" || header["alg"] != "ES256" || header["typ"] != "JWT" || len(header) != 3 {
			t.Errorf("header %v", header)
		}
		if claims["iss"] != "the id" || claims["sub"] != "the id" || claims["aud"] != "https://tenant.example/" {
			t.Errorf("claims %v", claims)
		}
		ids = append(ids, claims["jti"].(string))
	}
	if slices.Contains(ids[1:], ids[0]) || len(ids[0]) < 20 {
		t.Errorf("ids %v", ids)
	}
}

// TestClocksThatDiffer fetches tokens from a server whose clock differs by up to ten minutes.
// The server validates the times of assertions strictly, and sends Date.
func TestClocksThatDiffer(t *testing.T) {
	for _, ahead := range []time.Duration{-10 * time.Minute, -20 * time.Second, 0, 20 * time.Second, 10 * time.Minute} {
		t.Run(ahead.String(), func(t *testing.T) {
			file := keyFile(t, pkcs8(ecKey()))
			synctest.Test(t, func(t *testing.T) {
				var refused int
				e := &endpoint{}
				e.answer = func(_ context.Context, n int, _ *http.Request) (reply, error) {
					there := time.Now().Add(ahead)
					now, claims := float64(there.Unix()), part(t, e.forms[n-1].Get("client_assertion"), 1)
					date := there.UTC().Format(http.TimeFormat)
					if claims["nbf"].(float64) > now || claims["iat"].(float64) > now || claims["exp"].(float64) <= now ||
						claims["exp"].(float64) > now+300 {
						refused++
						return response(401, `{"error":"invalid_client"}`, "Date", date), nil
					}
					token := jwt("x"+strings.Repeat("y", n), there.Add(time.Hour).Unix())
					return response(200, `{"token_type":"Bearer","access_token":"`+token+`"}`, "Date", date), nil
				}
				s := e.source(func(cfg *apiclient.ClientCredentialsConfig) {
					cfg.Method, cfg.AssertionAudience, cfg.KeyFile = apiclient.AuthPrivateKeyJWT, "https://tenant.example/", file
				})
				good := func() {
					t.Helper()
					if _, err := s.Token(t.Context()); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				good()
				before := e.count()
				time.Sleep(57 * time.Minute)
				good() // an hour has not passed
				if e.count() != before {
					t.Error("a token is given up long before its end")
				}
				time.Sleep(time.Minute)
				good()
				if e.count() != before+1 {
					t.Errorf("%d fetches more, want 1: renewed two minutes before its end, at the first try", e.count()-before)
				}
				if most := 1; refused > most || ahead.Abs() < time.Minute && refused > 0 {
					t.Errorf("refused %d times", refused)
				}
			})
		})
	}
	t.Run("a wrong key is not tried twice for its clock", func(t *testing.T) {
		file := keyFile(t, pkcs8(ecKey()))
		synctest.Test(t, func(t *testing.T) {
			e := &endpoint{answer: func(context.Context, int, *http.Request) (reply, error) {
				return response(401, `{"error":"invalid_client"}`, "Date",
					time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)), nil
			}}
			s := e.source(func(cfg *apiclient.ClientCredentialsConfig) {
				cfg.Method, cfg.AssertionAudience, cfg.KeyFile = apiclient.AuthPrivateKeyJWT, "https://tenant.example/", file
			})
			for i, want := range []int{2, 3} { // once to learn the clock
				if _, err := s.Token(t.Context()); tokenError(t, err).Status != 401 || e.count() != want {
					t.Errorf("%d: asked %d times, want %d: %v", i, e.count(), want, err)
				}
			}
		})
	})
}

// TestReplacedFiles checks that the files of credentials are read for each fetch of a token,
// so that a replaced secret or key needs no restart.
func TestReplacedFiles(t *testing.T) {
	t.Run("secret", func(t *testing.T) {
		box := startSandbox(t)
		file := filepath.Join(t.TempDir(), "secret")
		writeFile(t, file, "the old one\n")
		cfg := of(box)
		cfg.ClientSecret, cfg.ClientSecretFile = apiclient.Secret{}, file
		replaced(t, cfg, func() { writeFile(t, file, box.ClientSecret()+"\n") })
	})
	t.Run("key", func(t *testing.T) {
		file := keyFile(t, pkcs8(rsaKey()))
		cfg := acceptsAssertions(t, ecKey().Public())
		cfg.KeyFile = file
		replaced(t, cfg, func() { writeFile(t, file, pkcs8(ecKey())) })
	})
}

func replaced(t *testing.T, cfg apiclient.ClientCredentialsConfig, replace func()) {
	t.Helper()
	source := apiclient.ClientCredentials(cfg)
	if _, err := source.Token(t.Context()); tokenError(t, err).Status != 401 {
		t.Fatalf("got %v", err)
	}
	replace()
	if _, err := source.Token(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestEndpointInTrouble checks that no caller requests a token from a failing endpoint for a
// growing delay, and that no caller waits.
func TestEndpointInTrouble(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer reply
	}{
		{"503", response(503, "")},
		{"429 that says nothing", response(429, `{"error":"too_many_requests"}`)},
		{"an answer that is none", response(200, "<html>")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &endpoint{answer: func(_ context.Context, n int, _ *http.Request) (reply, error) {
					if n < 5 {
						return tc.answer, nil
					}
					return response(200, tokenBody(n, 86400)), nil
				}}
				s := e.source()
				fails := func(asked int) {
					t.Helper()
					for range 10 {
						_, err := s.Token(t.Context())
						if got := tokenError(t, err); got.Status != tc.answer.status {
							t.Errorf("got %v", err)
						}
					}
					if e.count() != asked {
						t.Errorf("asked %d times, want %d", e.count(), asked)
					}
				}
				for i, pause := range []time.Duration{1, 2, 4, 8} {
					fails(i + 1)
					time.Sleep(pause*time.Second - time.Nanosecond)
					fails(i + 1)
					time.Sleep(time.Nanosecond)
				}
				wantToken(t, s, "token-5")
			})
		})
	}
}

// TestRenewalDelaysNoCaller checks that callers do not wait for a renewal while the token is
// valid, even if the endpoint hangs.
func TestRenewalDelaysNoCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{answer: func(ctx context.Context, n int, _ *http.Request) (reply, error) {
			if n == 2 {
				<-ctx.Done()
				return reply{}, ctx.Err()
			}
			return response(200, tokenBody(n, 86400)), nil
		}}
		s := e.source()
		wantToken(t, s, "token-1")
		time.Sleep(24*time.Hour - 2*time.Minute)
		for range 59 {
			before := time.Now()
			wantToken(t, s, "token-1")
			if time.Since(before) != 0 {
				t.Error("waited")
			}
			time.Sleep(500 * time.Millisecond)
		}
		time.Sleep(11 * time.Second) // the fetch has timed out, and the pause after it is over
		wantToken(t, s, "token-1")
		synctest.Wait()
		wantToken(t, s, "token-3")
	})
}
