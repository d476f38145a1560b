package apiclient_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"orgops/apiclient"
)

func TestSecretCannotBePrinted(t *testing.T) {
	type inner struct{ hidden apiclient.Secret }
	s := apiclient.NewSecret("hunter2")
	var logged bytes.Buffer
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "secret", s, "in", inner{s}, "any", map[string]any{"s": s})
	outputs := map[string]string{
		"String": s.String(),
		"error":  fmt.Errorf("wrapped: %w", fmt.Errorf("%v", s)).Error(),
		"slog":   logged.String(),
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%10s"} {
		outputs[verb] = fmt.Sprintf(verb, s)
		outputs["pointer "+verb] = fmt.Sprintf(verb, &s)
		outputs["exported field "+verb] = fmt.Sprintf(verb, apiclient.ClientCredentialsConfig{ClientSecret: s})
		outputs["unexported field "+verb] = fmt.Sprintf(verb, inner{s})
		outputs["slice "+verb] = fmt.Sprintf(verb, []apiclient.Secret{s})
		outputs["map "+verb] = fmt.Sprintf(verb, map[string]any{"s": s})
	}
	for name, v := range map[string]any{"json": s, "json field": struct{ S apiclient.Secret }{s},
		"json key": map[apiclient.Secret]int{s: 1}} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		outputs[name] = string(b)
	}
	for name, out := range outputs {
		if strings.Contains(out, "hunter2") || strings.Contains(out, "68756e74657232") {
			t.Errorf("%s: %s", name, out)
		}
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d"} {
		if got := outputs[verb]; got != "[secret]" {
			t.Errorf("%s is %s, want [secret]", verb, got)
		}
	}
	if s.Reveal() != "hunter2" || s.IsZero() {
		t.Error("the content is lost")
	}
}

func TestSecretComparison(t *testing.T) {
	a, b := apiclient.NewSecret("x"), apiclient.NewSecret("x")
	if !a.Equal(b) || a.Equal(apiclient.NewSecret("y")) || a.Equal(apiclient.Secret{}) {
		t.Error("Equal does not compare contents")
	}
	if !apiclient.NewSecret("").IsZero() || !(apiclient.Secret{}).Equal(apiclient.NewSecret("")) ||
		(apiclient.Secret{}).Reveal() != "" {
		t.Error("an empty secret is not zero")
	}
}

// Characters that forms, JSON and Go encode differently.
const clientSecret = `s3cret/+ "ü<\-of-the-client`

// everyWay prints err, and every error in its chain, with every verb and method that code
// uses.
func everyWay(t *testing.T, err error) map[string]string {
	t.Helper()
	all := map[string]string{}
	var walk func(path string, err error)
	walk = func(path string, err error) {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			all[path+" "+verb] = fmt.Sprintf(verb, err)
		}
		if b, jsonErr := json.Marshal(err); jsonErr == nil {
			all[path+" json"] = string(b)
		}
		var logged bytes.Buffer
		slog.New(slog.NewJSONHandler(&logged, nil)).Error("x", "error", err)
		all[path+" slog"] = logged.String()
		switch x := err.(type) { //nolint:errorlint // walks the chain itself
		case interface{ Unwrap() error }:
			if x.Unwrap() != nil {
				walk(path+"/"+fmt.Sprintf("%T", x.Unwrap()), x.Unwrap())
			}
		case interface{ Unwrap() []error }:
			for _, e := range x.Unwrap() {
				walk(path+"/"+fmt.Sprintf("%T", e), e)
			}
		}
	}
	walk(fmt.Sprintf("%T", err), err)
	return all
}

// leaks finds the token or the client secret in any encoding, and any truncated one that has
// its beginning.
func leaks(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	goText := strconv.Quote(clientSecret)
	jsonForm, _ := json.Marshal(clientSecret)
	for way, out := range everyWay(t, err) {
		for _, form := range []string{
			testToken, testToken[:20], clientSecret, url.QueryEscape(clientSecret), goText[1 : len(goText)-1],
			string(jsonForm[1 : len(jsonForm)-1]), "of-the-client",
		} {
			if strings.Contains(out, form) {
				t.Errorf("%s: %s", way, out)
			}
		}
	}
}

// echo repeats the whole request, in the encoding of form.
func echo(status int, contentType string, form func(dump string) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		values, _ := url.ParseQuery(string(body))
		dump := r.Header.Get("Authorization") + "|" + string(body) + "|" + values.Get("client_secret") + "|"
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Location", "/?"+dump)
		w.Header().Set("X-Request-Id", strings.ReplaceAll(dump, "\n", ""))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, form(dump))
	}
}

// credentialsOf returns the credentials in a request: a token or the client secret.
func credentialsOf(r *http.Request) string {
	if authorization := r.Header.Get("Authorization"); authorization != "" {
		return authorization
	}
	return clientSecret
}

func TestNoSecretInAnyError(t *testing.T) {
	forms := map[string]func(string) string{
		"plain": func(dump string) string { return dump },
		"json": func(dump string) string {
			b, _ := json.Marshal(map[string]string{"error": dump, "message": dump, "errorCode": dump,
				"error_description": dump, "id": dump})
			return string(b)
		},
		"quoted": strconv.Quote,
		"broken": func(dump string) string { return `{"id":"` + dump },
	}
	credentials := func(tokenURL string) apiclient.TokenSource {
		return apiclient.ClientCredentials(apiclient.ClientCredentialsConfig{
			TokenURL: tokenURL, Audience: "a", ClientID: "id", ClientSecret: apiclient.NewSecret(clientSecret),
		})
	}
	for form, write := range forms {
		for _, contentType := range []string{"application/json", "text/html", "text/plain",
			"application/x-www-form-urlencoded", "a/b;c=" + testToken} {
			for _, status := range []int{200, 201, 302, 400, 401, 403, 404, 429, 500} {
				t.Run(fmt.Sprintf("api %s %s %d", form, strings.Split(contentType, ";")[0], status), func(t *testing.T) {
					a := serve(t, echo(status, contentType, write))
					c := a.client(t)
					leaks(t, get(t.Context(), c))
					leaks(t, drain(c.Templates(t.Context())))
					if err := create(t.Context(), c); err != nil {
						leaks(t, err)
					}
				})
				t.Run(fmt.Sprintf("token %s %s %d", form, strings.Split(contentType, ";")[0], status), func(t *testing.T) {
					s := httptest.NewServer(echo(status, contentType, write))
					defer s.Close()
					_, err := credentials(s.URL + "/oauth/token/").Token(t.Context())
					leaks(t, err)
				})
			}
		}
	}
	t.Run("an API that repeats the client secret", func(t *testing.T) {
		a := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/oauth") {
				answer(200, `{"access_token":"`+testToken+`","token_type":"Bearer","expires_in":86400}`)(w, r)
				return
			}
			answer(500, `{"message":`+strconv.Quote(clientSecret)+`}`)(w, r)
		})
		c := a.client(t, func(cfg *apiclient.Config) { cfg.Tokens = credentials(a.URL + "/oauth/token/") })
		leaks(t, get(t.Context(), c))
	})
	t.Run("an answer that is not HTTP", func(t *testing.T) {
		origin := wire(t, func(_ int, conn *net.TCPConn) {
			if req, err := readRequest(conn); err == nil {
				_, _ = io.WriteString(conn, credentialsOf(req)+"\r\n\r\n")
			}
		})
		leaks(t, get(t.Context(), newClient(t, origin)))
		_, err := credentials(origin).Token(t.Context())
		leaks(t, err)
	})
	t.Run("a header that is none", func(t *testing.T) {
		origin := wire(t, func(_ int, conn *net.TCPConn) {
			if req, err := readRequest(conn); err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n"+credentialsOf(req)+"\r\n\r\n")
			}
		})
		leaks(t, get(t.Context(), newClient(t, origin)))
		_, err := credentials(origin).Token(t.Context())
		leaks(t, err)
	})
	t.Run("a piece from the middle of the token for a status", func(t *testing.T) {
		piece := testToken[30:60]
		origin := wire(t, func(_ int, conn *net.TCPConn) {
			if _, err := readRequest(conn); err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 "+piece+"\r\n\r\n")
			}
		})
		err := get(t.Context(), newClient(t, origin))
		wantTransport(t, err, true, false)
		for way, out := range everyWay(t, err) {
			if strings.Contains(out, piece) {
				t.Errorf("%s: %s", way, out)
			}
		}
	})
	t.Run("no answer", func(t *testing.T) {
		origin := closedPort
		leaks(t, get(t.Context(), newClient(t, origin)))
		_, err := credentials(origin).Token(t.Context())
		leaks(t, err)
		c := newClient(t, origin, func(cfg *apiclient.Config) { cfg.Tokens = credentials(origin) })
		leaks(t, get(t.Context(), c))
	})
	t.Run("a token that a header cannot carry", func(t *testing.T) {
		a := serve(t, answer(200, domainRecord))
		c := a.client(t, func(cfg *apiclient.Config) {
			cfg.Tokens = apiclient.StaticToken(apiclient.NewSecret(testToken + "\nX: y"))
		})
		err := get(t.Context(), c)
		leaks(t, err)
		if _, ok := errors.AsType[*apiclient.TokenError](err); !ok || len(a.asked()) != 0 {
			t.Errorf("want a TokenError and nothing sent, got %v", err)
		}
	})
	t.Run("settings", func(t *testing.T) {
		cfg := apiclient.Config{BaseURL: "x", Tokens: apiclient.StaticToken(apiclient.NewSecret(testToken))}
		_, err := apiclient.New(cfg)
		leaks(t, err)
		leaks(t, fmt.Errorf("%v %+v %#v", cfg, cfg, cfg))
		leaks(t, fmt.Errorf("%+v %#v", credentials("https://t.example/"), credentials("https://t.example/")))
		_, err = credentials("https://u:" + url.QueryEscape(clientSecret) + "@t.example/").Token(t.Context())
		leaks(t, err)
	})
}
