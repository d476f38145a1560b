package apiclient_test

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/apiclient"
)

func clientOf(t *testing.T, s apiclient.TokenSource) *apiclient.Client {
	t.Helper()
	c, err := apiclient.New(apiclient.Config{BaseURL: "https://tenant.example/api/v2", Tokens: s})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// wantHealth compares all members except LastErr, which is set while a renewal fails.
func wantHealth(t *testing.T, step string, c *apiclient.Client, problem string, want apiclient.TokenHealth) {
	t.Helper()
	got := c.TokenHealth()
	switch {
	case problem == "" && got.Err != nil:
		t.Errorf("%s: err %v, want none", step, got.Err)
	case problem != "" && (got.Err == nil || !strings.Contains(got.Err.Error(), problem)):
		t.Errorf("%s: err %v, want %q", step, got.Err, problem)
	}
	if strings.Contains(step, "renewal") != (got.LastErr != nil && got.Err == nil) {
		t.Errorf("%s: last error %v", step, got.LastErr)
	}
	got.Err, got.LastErr = nil, nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", step, diff)
	}
}

func TestTokenHealthOfClientCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := http.StatusServiceUnavailable
		e := &endpoint{answer: func(_ context.Context, n int, _ *http.Request) (reply, error) {
			if status != http.StatusOK {
				return response(status, `{"error":"access_denied"}`), nil
			}
			return response(status, tokenBody(n, 3600)), nil
		}}
		s := e.source()
		c := clientOf(t, s)
		fetch := func() { _, _ = s.Token(t.Context()); synctest.Wait() }
		wantHealth(t, "nobody has asked", c, "", apiclient.TokenHealth{})
		fetch()
		wantHealth(t, "it is down", c, "503 Service Unavailable", apiclient.TokenHealth{Failures: 1, Since: time.Now()})
		time.Sleep(10 * time.Second)
		status = http.StatusOK
		fetch()
		got := time.Now()
		good := apiclient.TokenHealth{Failures: 1, GotAt: got, ExpiresAt: got.Add(time.Hour),
			Scopes: []string{"read:organizations"}}
		wantHealth(t, "there is one", c, "", good)
		time.Sleep(59 * time.Minute)
		status = http.StatusUnauthorized
		fetch()
		good.Failures = 2
		good.Since = time.Now()
		wantHealth(t, "a renewal does not succeed", c, "", good)
		time.Sleep(time.Minute)
		good.Since = got.Add(time.Hour)
		fetch()
		good.Failures = 3
		wantHealth(t, "it has ended", c, "401 Unauthorized: access_denied", good)
		if e.count() != 4 {
			t.Errorf("%d requests, want 4: health asks nobody", e.count())
		}
	})
}

func TestTokenHealthOfATokenFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "token")
		start := time.Now()
		writeFile(t, path, jwt("it", start.Add(time.Hour).Unix()))
		s, err := apiclient.TokenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		c := clientOf(t, s)
		wantHealth(t, "the token is there", c, "", apiclient.TokenHealth{GotAt: start, ExpiresAt: start.Add(time.Hour)})
		time.Sleep(time.Hour)
		wantHealth(t, "it has ended", c, "the present one ended at 2000-01-01T01:00:00Z",
			apiclient.TokenHealth{GotAt: start, ExpiresAt: start.Add(time.Hour), Since: start.Add(time.Hour)})
		writeFile(t, path, "opaque")
		wantToken(t, s, "opaque")
		wantHealth(t, "another", c, "", apiclient.TokenHealth{GotAt: time.Now()})
		s.Expire(apiclient.NewSecret("opaque"))
		writeFile(t, path, "")
		if _, err := s.Token(t.Context()); err == nil {
			t.Error("a token from an empty file")
		}
		wantHealth(t, "refused, and no other", c, "it is empty",
			apiclient.TokenHealth{GotAt: time.Now(), Failures: 1, Since: time.Now()})
	})
}

func TestTokenHealthOfAStaticToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		past := time.Now().Add(-time.Hour).Truncate(time.Second)
		c := clientOf(t, apiclient.StaticToken(apiclient.NewSecret(jwt("it", past.Unix()))))
		wantHealth(t, "it has ended", c, "the present one ended at",
			apiclient.TokenHealth{GotAt: time.Now(), ExpiresAt: past, Since: past})
	})
}

// TestTokenHealthByTheAPI checks that responses of the API change the token's health too.
func TestTokenHealthByTheAPI(t *testing.T) {
	var respond http.HandlerFunc
	a := serve(t, func(w http.ResponseWriter, r *http.Request) { respond(w, r) })
	c := a.client(t, func(cfg *apiclient.Config) { cfg.Tokens = apiclient.StaticToken(apiclient.NewSecret("t")) })
	for _, step := range []struct {
		name     string
		respond  http.HandlerFunc
		failures uint64
		refused  bool
	}{
		{"401", refuse(401, "Invalid token"), 1, true},
		{"401 again", refuse(401, "Invalid token"), 2, true},
		{"503", answer(503, ""), 2, true},
		{"403 of a firewall", answer(403, ""), 2, true},
		{"403", refuse(403, "no"), 2, false},
		{"401 of a portal", answer(401, "<html>Log in"), 2, false},
		{"400 for a token that is no JWT", answer(400, noJWT), 3, true},
		{"400", refuse(400, "no"), 3, false},
	} {
		respond = step.respond
		if err := create(t.Context(), c); err == nil {
			t.Fatal("no error")
		}
		h := c.TokenHealth()
		if h.Failures != step.failures || (h.Err != nil) != step.refused || h.Since.IsZero() == step.refused {
			t.Errorf("after %s: %+v, want %d failures, refused %t", step.name, h, step.failures, step.refused)
		}
	}
}

// TestRefusalPasses checks that a client without calls after a 401 does not report its token
// as refused for ever, since the API may accept it from other processes meanwhile.
func TestRefusalPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clientOf(t, apiclient.StaticToken(apiclient.NewSecret("t")))
		start := time.Now()
		for range 3 {
			c.Answered(http.StatusUnauthorized)
			time.Sleep(time.Minute)
			h := c.TokenHealth()
			if h.Err == nil || !h.Since.Equal(start) {
				t.Errorf("a minute after a refusal: %v since %v, want one since the first, %v", h.Err, h.Since, start)
			}
		}
		time.Sleep(time.Minute)
		if err := c.TokenHealth().Err; err != nil {
			t.Errorf("two minutes after the last call: %v", err)
		}
		c.Answered(http.StatusUnauthorized)
		if h := c.TokenHealth(); !h.Since.Equal(time.Now()) {
			t.Errorf("refused again: since %v, want now, %v", h.Since, time.Now())
		}
	})
}

func TestScopesOfAToken(t *testing.T) {
	for claims, want := range map[string][]string{
		`{"scope":"a b:c"}`: {"a", "b:c"}, `{"scope":""}`: {}, `{}`: nil, `{"scope":["a"]}`: nil,
	} {
		token := jwtOf(claims)
		got := clientOf(t, apiclient.StaticToken(apiclient.NewSecret(token))).TokenHealth().Scopes
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", claims, diff)
		}
	}
}
