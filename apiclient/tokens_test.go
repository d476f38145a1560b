package apiclient_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/apiclient"
)

func tokenError(t *testing.T, err error) *apiclient.TokenError {
	t.Helper()
	e, ok := errors.AsType[*apiclient.TokenError](err)
	if !ok {
		t.Fatalf("want a TokenError, got %T: %v", err, err)
	}
	return e
}

func wantToken(t *testing.T, s apiclient.TokenSource, want string) {
	t.Helper()
	got, err := s.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.Reveal() != want {
		t.Errorf("got the token %q, want %q", got.Reveal(), want)
	}
}

func TestStaticToken(t *testing.T) {
	s := apiclient.StaticToken(apiclient.NewSecret("t"))
	wantToken(t, s, "t")
	s.Expire(apiclient.NewSecret("t"))
	wantToken(t, s, "t")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Token(ctx); !errors.Is(tokenError(t, err), context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func jwt(subject string, exp int64) string {
	return jwtOf(fmt.Sprintf(`{"sub":%q,"exp":%d}`, subject, exp))
}

func jwtOf(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTokenFile(t *testing.T) {
	t.Run("read again near exp", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "token")
			first := jwt("first", time.Now().Add(time.Hour).Unix())
			second := jwt("second", time.Now().Add(3*time.Hour).Unix())
			writeFile(t, path, "\n"+first+"\n")
			s, err := apiclient.TokenFile(path)
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, path, second)
			time.Sleep(59*time.Minute - time.Second)
			wantToken(t, s, first)
			time.Sleep(time.Second)
			wantToken(t, s, second)
		})
	})
	t.Run("the old one while the file is away", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "token")
			first := jwt("first", time.Now().Add(time.Hour).Unix())
			writeFile(t, path, first)
			s, err := apiclient.TokenFile(path)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour - time.Second)
			writeFile(t, path, "")
			wantToken(t, s, first)
			writeFile(t, path, "next")
			wantToken(t, s, "next")
		})
	})
	t.Run("read again when refused", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "token")
		writeFile(t, path, "first")
		s, err := apiclient.TokenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, path, "second")
		s.Expire(apiclient.NewSecret("another"))
		wantToken(t, s, "first") // another token expired
		s.Expire(apiclient.NewSecret("first"))
		wantToken(t, s, "second")
		s.Expire(apiclient.NewSecret("second"))
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := s.Token(t.Context()); !errors.Is(tokenError(t, err), fs.ErrNotExist) {
				t.Errorf("got %v", err)
			}
		}
		writeFile(t, path, "third")
		wantToken(t, s, "third")
	})
	for _, tc := range []struct{ name, content, want string }{
		{"empty", " \n", "PATH: it is empty"},
		{"two words", "abc def", "PATH: it has blanks, quotes or characters that no token has: want only the token"},
		{"two lines", "abc\ndef", "PATH: it has blanks, quotes or characters that no token has: want only the token"},
		{"binary", "a\x00b", "PATH: it is UTF-16, or no text: write it in UTF-8"},
		{"65536", strings.Repeat("a", 65536), ""},
		{"65537", strings.Repeat("a", 65537), "PATH: longer than 65536 bytes: not a token, secret or key"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "token")
			writeFile(t, path, tc.content)
			_, err := apiclient.TokenFile(path)
			if tc.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if got, want := tokenError(t, err).Error(),
				"no token: token file: "+strings.Replace(tc.want, "PATH", path, 1); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
	t.Run("missing", func(t *testing.T) {
		_, err := apiclient.TokenFile(filepath.Join(t.TempDir(), "token"))
		if e := tokenError(t, err); !errors.Is(e, fs.ErrNotExist) {
			t.Errorf("got %v", e)
		}
	})
	t.Run("what is no JWT with an exp is kept", func(t *testing.T) {
		for _, content := range []string{
			"opaque", "a.b.c", "e30.e30.c2ln", "e30.~.x",
			"e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"exp":"soon"}`)) + ".x",
			"e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"exp":1e300}`)) + ".x",
			"e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"exp":-1}`)) + ".x",
		} {
			path := filepath.Join(t.TempDir(), "token")
			writeFile(t, path, content)
			s, err := apiclient.TokenFile(path)
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, path, "other")
			wantToken(t, s, content)
		}
	})
}

// rotating returns the tokens in turn; Expire advances to the next.
type rotating struct {
	tokens  []string
	expired []string
}

func (r *rotating) Token(context.Context) (apiclient.Secret, error) {
	if len(r.tokens) == 0 {
		return apiclient.Secret{}, &apiclient.TokenError{Status: 503}
	}
	return apiclient.NewSecret(r.tokens[0]), nil
}

func (r *rotating) Expire(s apiclient.Secret) {
	r.expired = append(r.expired, s.Reveal())
	if len(r.tokens) > 0 && r.tokens[0] == s.Reveal() {
		r.tokens = r.tokens[1:]
	}
}

func TestUnauthorized(t *testing.T) {
	expired := refuse(401, "Expired token received for JSON Web Token validation")
	for _, tc := range []struct {
		name     string
		source   apiclient.TokenSource
		refuses  http.HandlerFunc
		requests int
		status   int // of the *Error; 0: success, -1: a *TokenError
	}{
		{"a fresh token is accepted", &rotating{tokens: []string{"old", "good"}}, expired, 2, 0},
		{"the fresh one is refused too", &rotating{tokens: []string{"old", "older", "good"}}, expired, 2, 401},
		{"there is no other", apiclient.StaticToken(apiclient.NewSecret("old")), expired, 1, 401},
		{"the fresh one cannot be had", &rotating{tokens: []string{"old"}}, expired, 1, -1},
		{"accepted at once", &rotating{tokens: []string{"good"}}, expired, 1, 0},
		{"no JWT, and a fresh one is", &rotating{tokens: []string{"old", "good"}}, answer(400, noJWT), 2, 0},
		{"no JWT, nor is the fresh one", &rotating{tokens: []string{"old", "older"}}, answer(400, noJWT), 2, 400},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer good" {
					tc.refuses(w, r)
					return
				}
				answer(201, domainRecord)(w, r)
			})
			g := &gate{}
			c := a.client(t, func(cfg *apiclient.Config) { cfg.Tokens, cfg.Gate = tc.source, g })
			err := create(t.Context(), c) // a POST too, since a 401 has no effect
			e, isError := errors.AsType[*apiclient.Error](err)
			_, isToken := errors.AsType[*apiclient.TokenError](err)
			switch {
			case tc.status == 0 && err != nil,
				tc.status > 0 && (!isError || e.Status != tc.status),
				tc.status < 0 && !isToken:
				t.Errorf("got %v", err)
			}
			asked := a.asked()
			if len(asked) != tc.requests || len(g.calls) != 2*tc.requests {
				t.Errorf("%d requests, the gate saw %v; want %d", len(asked), g.calls, tc.requests)
			}
			if refused := "answered create_template Unauthorized"; tc.status > 0 && g.calls[len(g.calls)-1] != refused {
				t.Errorf("the gate saw %v, want %q at the end", g.calls, refused)
			}
			for _, r := range asked {
				if r.Body != asked[0].Body || r.Body == "" {
					t.Errorf("the repeat has another body: %q", r.Body)
				}
			}
			if r, ok := tc.source.(*rotating); ok && tc.requests == 2 && len(r.expired) != 1 {
				t.Errorf("expired %v, want the first alone", r.expired)
			}
		})
	}
}

// TestMissingScope checks that a granted scope takes effect with the next token. The client
// fetches it when a request is refused for the scope, unless the token is new.
func TestMissingScope(t *testing.T) {
	const missing = `{"statusCode":403,"error":"Forbidden","message":"Insufficient scope, expected any of: create:x","errorCode":"insufficient_scope"}`
	for _, tc := range []struct {
		name     string
		refusal  string
		age      time.Duration // of the token
		granted  string        // the token with the scope
		fetch    reply         // of the second token
		fetches  int
		requests int
		then     string // the token afterwards
	}{
		{"granted", missing, 25 * time.Second, "token-2", response(200, tokenBody(2, 86400)), 2, 2, "token-2"},
		{"still missing", missing, time.Hour, "none", response(200, tokenBody(2, 86400)), 2, 2, "token-2"},
		{"the token has just come", missing, 24 * time.Second, "token-2",
			response(200, tokenBody(2, 86400)), 1, 1, "token-1"},
		{"the fetch fails", missing, time.Hour, "token-2", response(503, ""), 2, 1, "token-1"},
		{"refused for another reason", `{"statusCode":403,"error":"Forbidden","message":"not for you"}`, time.Hour, "token-2",
			response(200, tokenBody(2, 86400)), 1, 1, "token-1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &endpoint{answer: func(_ context.Context, n int, _ *http.Request) (reply, error) {
					if n == 2 {
						return tc.fetch, nil
					}
					return response(200, tokenBody(n, 86400)), nil
				}}
				source := e.source()
				wantToken(t, source, "token-1")
				time.Sleep(tc.age) // before the server is there: no time passes while it accepts connections
				a := serve(t, func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("Authorization") == "Bearer "+tc.granted {
						answer(201, domainRecord)(w, r)
						return
					}
					answer(403, tc.refusal)(w, r)
				})
				g, repeats := &gate{}, []bool{}
				g.wait = func(_ context.Context, r apiclient.Request) error {
					repeats = append(repeats, r.Again)
					return nil
				}
				c := a.client(t, func(cfg *apiclient.Config) { cfg.Tokens, cfg.Gate = source, g })
				err := create(t.Context(), c) // a POST too, since a 403 has no effect
				refusal, refused := errors.AsType[*apiclient.Error](err)
				if granted := tc.requests == 2 && tc.granted == "token-2"; granted && err != nil ||
					!granted && (!refused || refusal.Status != 403) {
					t.Errorf("got %v", err)
				}
				if n := len(a.asked()); n != tc.requests || e.count() != tc.fetches {
					t.Errorf("%d requests, %d fetches; want %d and %d", n, e.count(), tc.requests, tc.fetches)
				}
				if diff := cmp.Diff([]bool{false, true}[:tc.requests], repeats); diff != "" {
					t.Errorf("repetitions (-want +got):\n%s", diff)
				}
				wantToken(t, source, tc.then)
				if err := create(t.Context(), c); (err == nil) != (tc.then == tc.granted) || e.count() != tc.fetches {
					t.Errorf("the next request: %v after %d fetches, want still %d", err, e.count(), tc.fetches)
				}
			})
		})
	}
}

// TestMissingScopeOfATokenFile checks that the file is read again, and that the token stays in
// use if the file cannot be read.
func TestMissingScopeOfATokenFile(t *testing.T) {
	for _, tc := range []struct {
		name, content string
		requests      int
		then          string
	}{
		{"replaced", "second", 2, "second"},
		{"the same", "first", 1, "first"},
		{"empty", "", 1, "first"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "token")
			writeFile(t, path, "first")
			source, err := apiclient.TokenFile(path)
			if err != nil {
				t.Fatal(err)
			}
			a := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") == "Bearer second" {
					answer(201, domainRecord)(w, r)
					return
				}
				answer(403,
					`{"statusCode":403,"error":"Forbidden","message":"Insufficient scope","errorCode":"insufficient_scope"}`)(w, r)
			})
			c := a.client(t, func(cfg *apiclient.Config) { cfg.Tokens = source })
			writeFile(t, path, tc.content)
			if err := create(t.Context(), c); (err == nil) != (tc.then == "second") {
				t.Errorf("got %v", err)
			}
			if n := len(a.asked()); n != tc.requests {
				t.Errorf("%d requests, want %d", n, tc.requests)
			}
			wantToken(t, source, tc.then)
		})
	}
}
