package apiclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/apiclient"
)

// endpoint is a token endpoint without a network, so that it works in virtual time.
type endpoint struct {
	mu      sync.Mutex
	asked   []string // URLs
	forms   []url.Values
	headers []http.Header
	answer  func(ctx context.Context, n int, r *http.Request) (reply, error) // n from 1
}

func (e *endpoint) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.asked = append(e.asked, r.URL.String())
	e.forms = append(e.forms, form)
	e.headers = append(e.headers, r.Header.Clone())
	n := len(e.asked)
	e.mu.Unlock()
	a, err := e.answer(r.Context(), n, r)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: a.status, Header: a.header, ContentLength: int64(len(a.body)),
		Body: io.NopCloser(strings.NewReader(a.body)),
	}, nil
}

func (e *endpoint) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.asked)
}

// reply is a response of the endpoint.
type reply struct {
	status int
	body   string
	header http.Header
}

func response(status int, body string, header ...string) reply {
	h := http.Header{"Content-Type": {"application/json"}}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return reply{status: status, body: body, header: h}
}

func tokenBody(n int, expiresIn int) string {
	return fmt.Sprintf(`{"access_token":"token-%d","token_type":"Bearer","expires_in":%d,"scope":"read:organizations"}`, n,
		expiresIn)
}

func giving(expiresIn int) func(context.Context, int, *http.Request) (reply, error) {
	return func(_ context.Context, n int, _ *http.Request) (reply, error) {
		return response(200, tokenBody(n, expiresIn)), nil
	}
}

func (e *endpoint) source(set ...func(*apiclient.ClientCredentialsConfig)) apiclient.TokenSource {
	cfg := apiclient.ClientCredentialsConfig{
		TokenURL: "https://tenant.example/oauth/token/", Audience: "https://tenant.example/api/v2/",
		ClientID: "the id", ClientSecret: apiclient.NewSecret(clientSecret),
		Transport: e,
	}
	for _, f := range set {
		f(&cfg)
	}
	return apiclient.ClientCredentials(cfg)
}

func TestTokenRequest(t *testing.T) {
	e := &endpoint{answer: giving(86400)}
	wantToken(t, e.source(), "token-1")
	if diff := cmp.Diff([]string{"https://tenant.example/oauth/token/"}, e.asked); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want := url.Values{
		"grant_type": {"client_credentials"}, "client_id": {"the id"}, "client_secret": {clientSecret},
		"audience": {"https://tenant.example/api/v2/"},
	}
	if diff := cmp.Diff(want, e.forms[0]); diff != "" {
		t.Errorf("form (-want +got):\n%s", diff)
	}
	if h := e.headers[0]; h.Get("Authorization") != "" || h.Get("Content-Type") != "application/x-www-form-urlencoded" {
		t.Errorf("headers %v", h)
	}
}

func TestOneFetchForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{answer: func(_ context.Context, n int, _ *http.Request) (reply, error) {
			time.Sleep(time.Second) // all other callers arrive meanwhile
			return response(200, tokenBody(n, 86400)), nil
		}}
		s := e.source()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { wantToken(t, s, "token-1") })
		}
		all.Wait()
		if n := e.count(); n != 1 {
			t.Errorf("%d fetches for 50 callers, want 1", n)
		}
		// All of them get a 401 with it.
		for range 50 {
			all.Go(func() {
				s.Expire(apiclient.NewSecret("token-1"))
				wantToken(t, s, "token-2")
				s.Expire(apiclient.NewSecret("token-1")) // from a late caller
			})
		}
		all.Wait()
		wantToken(t, s, "token-2")
		if n := e.count(); n != 2 {
			t.Errorf("%d fetches, want 2", n)
		}
	})
}

// TestManyRequestsMeetOne401 checks the same through the whole client, over a network: the
// token expires during fifty requests.
func TestManyRequestsMeetOne401(t *testing.T) {
	const callers = 50
	var fetches atomic.Int64
	var met sync.WaitGroup // every caller has sent its request with the first token
	met.Add(callers)
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/oauth/token/":
			answer(200, tokenBody(int(fetches.Add(1)), 86400))(w, r)
		case r.Header.Get("Authorization") == "Bearer token-1":
			met.Done()
			met.Wait()
			refuse(401, "Invalid token")(w, r)
		case r.Header.Get("Authorization") == "Bearer token-2":
			answer(200, domainRecord)(w, r)
		default:
			t.Errorf("a third token: %s", r.Header.Get("Authorization"))
		}
	})
	c := a.client(t, func(cfg *apiclient.Config) {
		cfg.Tokens = apiclient.ClientCredentials(apiclient.ClientCredentialsConfig{
			TokenURL: a.URL + "/oauth/token/", Audience: "a", ClientID: "i", ClientSecret: apiclient.NewSecret("s"),
		})
	})
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			if err := get(t.Context(), c); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := fetches.Load(); n != 2 {
		t.Errorf("%d fetches, want 2", n)
	}
	if n := len(a.asked()); n != 2*callers+2 {
		t.Errorf("%d requests, want %d", n, 2*callers+2)
	}
}

func TestRenewedBeforeItEnds(t *testing.T) {
	for _, tc := range []struct {
		name   string
		body   func(n int) string
		before time.Duration // still the first token
	}{
		{"a day", func(n int) string { return tokenBody(n, 86400) }, 24*time.Hour - 2*time.Minute},
		{"ten minutes", func(n int) string { return tokenBody(n, 600) }, 9 * time.Minute},
		{"ten seconds", func(n int) string { return tokenBody(n, 10) }, 9 * time.Second},
		{"by its exp alone", func(n int) string {
			return `{"token_type":"Bearer","access_token":"` + jwt(fmt.Sprint(n), time.Now().Add(time.Hour).Unix()) + `"}`
		}, 58 * time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &endpoint{answer: func(_ context.Context, n int, _ *http.Request) (reply, error) {
					return response(200, tc.body(n)), nil
				}}
				s := e.source()
				ask := func(want int) {
					t.Helper()
					if _, err := s.Token(t.Context()); err != nil {
						t.Fatal(err)
					}
					synctest.Wait() // a renewal does not block Token
					if n := e.count(); n != want {
						t.Errorf("%d fetches, want %d", n, want)
					}
				}
				ask(1)
				time.Sleep(tc.before - time.Nanosecond)
				ask(1)
				time.Sleep(time.Nanosecond)
				ask(2)
			})
		})
	}
	t.Run("no end known", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e := &endpoint{answer: giving(0)}
			s := e.source()
			wantToken(t, s, "token-1")
			time.Sleep(1000 * time.Hour)
			wantToken(t, s, "token-1")
		})
	})
	t.Run("a clock that is behind does not fetch for every call", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e := &endpoint{answer: func(context.Context, int, *http.Request) (reply, error) {
				return response(200,
					`{"token_type":"bearer","access_token":"`+jwt("x", time.Now().Add(-time.Hour).Unix())+`"}`), nil
			}}
			s := e.source()
			for range 10 {
				if _, err := s.Token(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if n := e.count(); n != 1 {
				t.Errorf("%d fetches, want 1", n)
			}
		})
	})
}

func TestRenewalThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{}
		e.answer = func(_ context.Context, n int, _ *http.Request) (reply, error) {
			if n == 1 || n > 3 {
				return response(200, tokenBody(n, 600)), nil
			}
			return response(503, ""), nil
		}
		s := e.source()
		wantToken(t, s, "token-1")
		time.Sleep(9*time.Minute + time.Second)
		wantToken(t, s, "token-1") // fetch 2 fails; the token is valid for 59 s more
		synctest.Wait()
		wantToken(t, s, "token-1")
		if n := e.count(); n != 2 {
			t.Errorf("%d fetches, want 2: not one for each caller", n)
		}
		time.Sleep(10 * time.Second)
		wantToken(t, s, "token-1") // fetch 3 fails
		synctest.Wait()
		time.Sleep(10 * time.Second)
		wantToken(t, s, "token-1") // while it is renewed
		synctest.Wait()
		wantToken(t, s, "token-4")
		if n := e.count(); n != 4 {
			t.Errorf("%d fetches, want 4", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{answer: func(_ context.Context, n int, _ *http.Request) (reply, error) {
			if n == 1 {
				return response(200, tokenBody(n, 600)), nil
			}
			return response(503, ""), nil
		}}
		s := e.source()
		wantToken(t, s, "token-1")
		time.Sleep(10 * time.Minute)
		_, err := s.Token(t.Context())
		if got := tokenError(t, err); got.Status != 503 {
			t.Errorf("an ended token is no token: %v", err)
		}
	})
}

func TestTokenURLWithoutItsSlash(t *testing.T) {
	missing := `{"error":"Not Found"}`
	for _, tc := range []struct {
		name   string
		url    string
		answer func(n int, path string) reply
		asked  []string // by two calls, of which the first token is given up
		fails  int      // status of the TokenError; 0: a token
	}{
		{"found without", "https://t.example/oauth/token/", func(n int, path string) reply {
			if path == "/oauth/token/" {
				return response(404, missing)
			}
			return response(200, tokenBody(n, 86400))
		}, []string{"/oauth/token/", "/oauth/token", "/oauth/token"}, 0},
		{"found with", "https://t.example/oauth/token/", func(n int, _ string) reply {
			return response(200, tokenBody(n, 86400))
		}, []string{"/oauth/token/", "/oauth/token/"}, 0},
		{"found without, and refused there", "https://t.example/oauth/token/", func(_ int, path string) reply {
			if path == "/oauth/token/" {
				return response(404, missing)
			}
			return response(401, `{"error":"access_denied"}`)
		}, []string{"/oauth/token/", "/oauth/token", "/oauth/token"}, 401},
		{"not found at all", "https://t.example/oauth/token/", func(int, string) reply { return response(404, missing) },
			[]string{"/oauth/token/", "/oauth/token", "/oauth/token/", "/oauth/token"}, 404},
		{"no slash to leave out", "https://t.example/oauth/token", func(int, string) reply { return response(404, missing) },
			[]string{"/oauth/token", "/oauth/token"}, 404},
		{"another status", "https://t.example/oauth/token/", func(int, string) reply { return response(500, missing) },
			[]string{"/oauth/token/"}, 500}, // and then left alone for a while
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := &endpoint{answer: func(_ context.Context, n int, r *http.Request) (reply, error) {
				return tc.answer(n, r.URL.Path), nil
			}}
			s := e.source(func(cfg *apiclient.ClientCredentialsConfig) { cfg.TokenURL = tc.url })
			for range 2 {
				token, err := s.Token(t.Context())
				if tc.fails == 0 && err != nil || tc.fails != 0 && tokenError(t, err).Status != tc.fails {
					t.Errorf("got %v", err)
				}
				s.Expire(token)
			}
			var paths []string
			for _, u := range e.asked {
				paths = append(paths, strings.TrimPrefix(u, "https://t.example"))
			}
			if diff := cmp.Diff(tc.asked, paths); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTokenErrors(t *testing.T) {
	const at = "no token: POST https://tenant.example/oauth/token/: "
	for _, tc := range []struct {
		name   string
		answer reply
		want   apiclient.TokenError
		text   string
	}{
		{"denied", response(401, `{"error":"access_denied","error_description":"Unauthorized"}`),
			apiclient.TokenError{Status: 401, Code: "access_denied", Description: "Unauthorized"},
			at +
				"the token endpoint answered 401 Unauthorized: access_denied: Unauthorized"},
		{"audience",
			response(403, `{"error":"access_denied","error_description":"Service not enabled within domain: x\u0000"}`),
			apiclient.TokenError{Status: 403, Code: "access_denied", Description: `Service not enabled within domain: x\x00`},
			at +
				`the token endpoint answered 403 Forbidden: access_denied: Service not enabled within domain: x\x00`},
		{"quota", response(429, `{"error":"too_many_requests","error_description":"quota"}`, "Retry-After", "30"),
			apiclient.TokenError{Status: 429, Code: "too_many_requests", Description: "quota", RetryAfter: 30 * time.Second},
			at + "the token endpoint answered 429 Too Many Requests: too_many_requests: quota"},
		{"an error with a 200", response(200, `{"error":"invalid_client"}`),
			apiclient.TokenError{Status: 200, Code: "invalid_client"},
			at + "the token endpoint answered 200 OK: invalid_client"},
		{"html", response(502, "<html>"),
			apiclient.TokenError{Status: 502, Description: `a body of type "application/json"`},
			at + `the token endpoint answered 502 Bad Gateway: a body of type "application/json"`},
		{"empty", response(503, ""), apiclient.TokenError{Status: 503},
			at + "the token endpoint answered 503 Service Unavailable"},
		{"a redirect", response(307, "", "Location", "https://other.example/"),
			apiclient.TokenError{Status: 307},
			at + "the token endpoint answered 307 Temporary Redirect"},
		{"a redirect to nowhere", response(302, "", "Location", "http://[x"),
			apiclient.TokenError{Status: 302},
			at + "the token endpoint answered 302 Found"},
		{"no JSON", response(200, "<html>"), apiclient.TokenError{Status: 200},
			at +
				"oauth2: cannot parse json: invalid character '<' looking for beginning of value: the token endpoint answered 200 OK"},
		{"no token in it", response(200, "{}"), apiclient.TokenError{Status: 200},
			at + "oauth2: server response missing access_token: the token endpoint answered 200 OK"},
		{"a lifetime that is none", response(200, `{"access_token":"a","expires_in":"soon"}`),
			apiclient.TokenError{Status: 200},
			at +
				"its member expires_in is no number of seconds: the token endpoint answered 200 OK"},
		{"another type of token", response(200, `{"access_token":"a","token_type":"DPoP"}`),
			apiclient.TokenError{Status: 200},
			at + "it gave something that cannot be sent as a bearer token: the token endpoint answered 200 OK"},
		{"a token with a line end", response(200, `{"access_token":"a\nb","token_type":"Bearer"}`),
			apiclient.TokenError{Status: 200},
			at + "it gave something that cannot be sent as a bearer token: the token endpoint answered 200 OK"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := &endpoint{answer: func(context.Context, int, *http.Request) (reply, error) { return tc.answer, nil }}
			_, err := e.source().Token(t.Context())
			got := *tokenError(t, err)
			got.Err = nil
			tc.want.Asked = true
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if err.Error() != tc.text {
				t.Errorf("got  %v\nwant %s", err, tc.text)
			}
			if e.count() != 1 {
				t.Errorf("asked %v", e.asked)
			}
		})
	}
	t.Run("a stranger's words are bounded", func(t *testing.T) {
		e := &endpoint{answer: func(context.Context, int, *http.Request) (reply, error) {
			return response(400,
				`{"error":"`+strings.Repeat("e", 1000)+`","error_description":"`+strings.Repeat("d", 1000)+`"}`), nil
		}}
		_, err := e.source().Token(t.Context())
		if n := len(tokenError(t, err).Error()); n > 700 {
			t.Errorf("%d bytes", n)
		}
	})
}

func TestTokenSettings(t *testing.T) {
	for _, tc := range []struct {
		name string
		set  func(*apiclient.ClientCredentialsConfig)
		want string
	}{
		{"http elsewhere", func(c *apiclient.ClientCredentialsConfig) { c.TokenURL = "http://tenant.example/oauth/token" },
			`no token: token URL: http is for loopback addresses only, and "tenant.example" is none: want https`},
		{"no URL", func(c *apiclient.ClientCredentialsConfig) { c.TokenURL = "" },
			`no token: token URL: want https://HOST/…, got the scheme ""`},
		{"a secret's file that is not there", func(c *apiclient.ClientCredentialsConfig) {
			c.ClientSecretFile = "nowhere/at-all"
		},
			"no token: client secret: open nowhere/at-all: no such file or directory"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := &endpoint{answer: giving(1)}
			_, err := e.source(tc.set).Token(t.Context())
			if got := tokenError(t, err).Error(); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if e.count() != 0 {
				t.Error("asked")
			}
		})
	}
}

func TestCheckTokenURL(t *testing.T) {
	for _, tc := range []struct{ name, url, want string }{
		{"https", "https://tenant.example/oauth/token/", ""},
		{"http on loopback", "http://127.0.0.1:8080/oauth/token", ""},
		{"http elsewhere", "http://tenant.example/oauth/token",
			`token URL: http is for loopback addresses only, and "tenant.example" is none: want https`},
		{"credentials", "https://u:hunter2@tenant.example/", "token URL: must not contain a user or password"},
		{"a query", "https://tenant.example/?audience=a", "token URL: must not contain a query"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := ""
			if err := apiclient.CheckTokenURL(tc.url); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestTokenIsNotRequestedBeforeRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{answer: func(_ context.Context, n int, _ *http.Request) (reply, error) {
			if n == 1 {
				return response(429, `{"error":"too_many_requests"}`, "Retry-After", "30"), nil
			}
			return response(200, tokenBody(n, 86400)), nil
		}}
		s := e.source()
		if _, err := s.Token(t.Context()); tokenError(t, err).RetryAfter != 30*time.Second {
			t.Errorf("got %v", err)
		}
		time.Sleep(10 * time.Second)
		_, err := s.Token(t.Context())
		if got := tokenError(t, err); got.Status != 429 || got.RetryAfter != 20*time.Second {
			t.Errorf("got %v, to wait %v, want 20s", got, got.RetryAfter)
		}
		if n := e.count(); n != 1 {
			t.Errorf("%d requests while the quota is spent, want 1", n)
		}
		time.Sleep(20 * time.Second)
		wantToken(t, s, "token-2")
	})
}

func TestWaitingForATokenEndsWithTheContext(t *testing.T) {
	hanging := func(ctx context.Context, n int, _ *http.Request) (reply, error) {
		if n > 1 {
			return response(200, tokenBody(n, 86400)), nil
		}
		select {
		case <-ctx.Done():
			return reply{}, ctx.Err()
		case <-time.After(20 * time.Second):
			return response(200, tokenBody(n, 86400)), nil
		}
	}
	t.Run("the fetch goes on for the next one", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e := &endpoint{answer: hanging}
			s := e.source()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := s.Token(ctx)
			if !errors.Is(tokenError(t, err), context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			wantToken(t, s, "token-1")
		})
	})
	t.Run("the others go on waiting", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e := &endpoint{answer: hanging}
			s := e.source()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var all sync.WaitGroup
			all.Go(func() {
				if _, err := s.Token(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
			})
			all.Go(func() { wantToken(t, s, "token-1") })
			all.Wait()
			if n := e.count(); n != 1 {
				t.Errorf("%d fetches, want 1", n)
			}
		})
	})
	t.Run("ended before", func(t *testing.T) {
		e := &endpoint{answer: giving(1)}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := e.source().Token(ctx); !errors.Is(tokenError(t, err), context.Canceled) || e.count() != 0 {
			t.Errorf("got %v, asked %d times", err, e.count())
		}
	})
}

func TestTokenEndpointThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{answer: func(ctx context.Context, _ int, _ *http.Request) (reply, error) {
			<-ctx.Done()
			return reply{}, ctx.Err()
		}}
		started := time.Now()
		_, err := e.source().Token(t.Context())
		if got := tokenError(t, err); got.Status != 0 || got.Err == nil || errors.Is(got, context.DeadlineExceeded) {
			t.Errorf("got %v, want an error that is not the end of the caller's context", got)
		}
		if took := time.Since(started); took != 30*time.Second {
			t.Errorf("gave up after %v, want 30s", took)
		}
	})
}

// TestTokenEndpointOnTheNetwork checks that redirects are not followed and requests are not
// retried, since either could disclose the secret.
func TestTokenEndpointOnTheNetwork(t *testing.T) {
	stranger := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("reached by %s", r.Method)
	}))
	defer stranger.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := httptest.NewServer(http.RedirectHandler(stranger.URL, status))
		source := apiclient.ClientCredentials(apiclient.ClientCredentialsConfig{
			TokenURL: s.URL + "/oauth/token/", Audience: "a", ClientID: "i", ClientSecret: apiclient.NewSecret(clientSecret),
		})
		if _, err := source.Token(t.Context()); tokenError(t, err).Status != status {
			t.Errorf("%d: got %v", status, err)
		}
		s.Close()
	}
	for name, handler := range map[string]http.HandlerFunc{"endless": endless(200), "cut": cutShort(200),
		"endless error": endless(500)} {
		s := httptest.NewServer(handler)
		source := apiclient.ClientCredentials(apiclient.ClientCredentialsConfig{
			TokenURL: s.URL, Audience: "a", ClientID: "i", ClientSecret: apiclient.NewSecret(clientSecret),
		})
		if _, err := source.Token(t.Context()); !slices.Contains([]int{200, 500}, tokenError(t, err).Status) {
			t.Errorf("%s: got %v", name, err)
		}
		s.Close()
	}
}

// TestTokenAnswersByOtherTypes checks that an answer is read as JSON, whatever its type, and
// that a token in another answer is in no error.
func TestTokenAnswersByOtherTypes(t *testing.T) {
	for _, media := range []string{"", "text/plain", "application/x-www-form-urlencoded"} {
		e := &endpoint{answer: func(_ context.Context, n int, _ *http.Request) (reply, error) {
			if n == 2 {
				return response(200, "access_token=token-2&token_type=bearer", "Content-Type", media), nil
			}
			return response(200, tokenBody(n, 86400), "Content-Type", media), nil
		}}
		s := e.source()
		wantToken(t, s, "token-1")
		s.Expire(apiclient.NewSecret("token-1"))
		if _, err := s.Token(t.Context()); strings.Contains(tokenError(t, err).Error(), "token-2") {
			t.Errorf("the token is in the error: %v", err)
		}
	}
}

// TestLifetimes gets a token for each form in which servers write its lifetime.
func TestLifetimes(t *testing.T) {
	for lifetime, want := range map[string]time.Duration{
		"86400": 24 * time.Hour, "86400.0": 24 * time.Hour, "3599.5": 3599 * time.Second, "3.6e3": time.Hour,
		`"3600"`: time.Hour, `"3599.5"`: 3599 * time.Second, "1e300": math.MaxInt32 * time.Second,
	} {
		t.Run(lifetime, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &endpoint{answer: func(context.Context, int, *http.Request) (reply, error) {
					return response(200, `{"access_token":"token-1","token_type":"Bearer","expires_in":`+lifetime+`}`), nil
				}}
				s := e.source()
				c := clientOf(t, s)
				token, err := s.Token(t.Context())
				if err != nil || token.Reveal() != "token-1" {
					t.Fatalf("no token: %v", err)
				}
				if got := time.Until(c.TokenHealth().ExpiresAt); got != want {
					t.Errorf("it expires in %s, want %s", got, want)
				}
			})
		})
	}
}
