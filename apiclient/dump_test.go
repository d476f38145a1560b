package apiclient_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"orgops/apiclient"
)

// Distinct secrets that a dump must not contain.
const (
	canaryToken    = "canary-bearer-0123456789abcdef"
	canarySecret   = "canary+secret/0123456789&abcdef"
	canaryCookie   = "canary-cookie-0123456789"
	canaryTXT      = "c4n4ry0123456789abcdef0123456789"
	canaryInHeader = "canary-header-0123456789"
	canaryNumber   = 9123456780123456
)

// dumping returns a log at the lowest level, and the network that writes to it.
func dumping() (*bytes.Buffer, apiclient.Network) {
	var log bytes.Buffer
	return &log, apiclient.Network{Dump: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
}

// gossip repeats everything in the request in all parts of its response.
func gossip(status int, mediaType string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		form, _ := url.ParseQuery(string(body))
		_, password, _ := r.BasicAuth()
		told := fmt.Sprint(r.Header, " ", string(body), " ", form, " ", password)
		w.Header().Set("Content-Type", mediaType)
		w.Header().Set("Set-Cookie", "s="+canaryCookie)
		w.Header().Set("X-New-Api-Key", canaryInHeader)
		w.Header().Set("X-Request-Id", strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		w.Header().Set("Location", "https://other.example/?"+form.Encode())
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"message": told, "access_token": canaryToken, "token_type": "Bearer", "expires_in": 3600,
			"nested":  []any{map[string]any{"client_secret": canarySecret, "refresh_token": []string{canaryToken}}},
			"domains": []any{map[string]string{"verification_txt": canaryTXT, "verification_host": "_ss.acme.example"}},
			"token":   map[string]any{"value": canaryToken}, "client_secret": canaryNumber, "jwt": canaryToken, "private_key": canarySecret,
			"organizations": []any{map[string]any{"id": orgID, "metadata": map[string]any{"crm": canarySecret}}},
		})
	}
}

func TestDumpHasNoSecrets(t *testing.T) {
	key := keyFile(t, pkcs8(ecKey()))
	for _, mediaType := range []string{"application/json", "application/problem+json", "text/html", "application/x-www-form-urlencoded", ""} {
		for _, status := range []int{200, 302, 401, 500} {
			for _, method := range []apiclient.AuthMethod{apiclient.AuthBody, apiclient.AuthBasic, apiclient.AuthPrivateKeyJWT} {
				t.Run(fmt.Sprint(mediaType, status, method), func(t *testing.T) {
					log, network := dumping()
					a := serve(t, gossip(status, mediaType))
					tokens := apiclient.ClientCredentials(apiclient.ClientCredentialsConfig{
						TokenURL: a.URL + "/oauth/token", Audience: "a", ClientID: "the-client", Method: method, Network: network,
						ClientSecret: apiclient.NewSecret(canarySecret), KeyFile: key, AssertionAudience: a.URL + "/",
					})
					_, _ = tokens.Token(t.Context())
					for _, format := range []apiclient.BodyFormat{apiclient.BodyJSON, apiclient.BodyForm} {
						c := a.client(t, func(cfg *apiclient.Config) {
							cfg.Network, cfg.Body, cfg.Tokens = network, format, apiclient.StaticToken(apiclient.NewSecret(canaryToken))
						})
						_, _ = get(t.Context(), c), create(t.Context(), c)
						_ = c.RemoveOrganizationClients(t.Context(), orgID, []string{"a"})
					}
					noCanary(t, log.String())
					for _, form := range a.asked() {
						if values, err := url.ParseQuery(form.Body); err == nil && values.Get("client_assertion") != "" && strings.Contains(log.String(), values.Get("client_assertion")[:40]) {
							t.Error("an assertion is shown")
						}
					}
					if !strings.Contains(log.String(), "the-client") && method == apiclient.AuthBody || !strings.Contains(log.String(), "clients") {
						t.Errorf("nothing is told:\n%s", log)
					}
				})
			}
		}
	}
}

func noCanary(t *testing.T, log string) {
	t.Helper()
	for _, canary := range []string{canaryToken, canarySecret, canaryCookie, canaryTXT, canaryInHeader, fmt.Sprint(canaryNumber)} {
		quotedJSON, err := json.Marshal(canary)
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range []string{
			canary, url.QueryEscape(canary), strings.Trim(string(quotedJSON), `"`), base64.StdEncoding.EncodeToString([]byte(canary)),
			base64.StdEncoding.EncodeToString([]byte("the-client:" + url.QueryEscape(canary))),
		} {
			if at := strings.Index(log, form); at >= 0 {
				t.Errorf("%s is shown: …%s…", canary, log[max(0, at-200):min(len(log), at+100)])
				return
			}
		}
	}
}

// TestDump checks that a dump has each request and its response.
func TestDump(t *testing.T) {
	log, network := dumping()
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Ratelimit-Remaining", "7")
		answer(200, domainRecord)(w, r)
	})
	c := a.client(t, func(cfg *apiclient.Config) { cfg.Network = network })
	if err := get(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"msg":"http request","method":"POST"`, `\"dialect\":\"simplified/1.0\"`, `Authorization: [hidden]`,
		`"msg":"http answer","method":"GET"`, `X-Ratelimit-Remaining: 7`, `"status":200`, `HTTP/1.1`, domainID, `…\"`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%s is not told:\n%s", want, log)
		}
	}
	t.Run("no answer", func(t *testing.T) {
		log, network := dumping()
		err := get(t.Context(), newClient(t, closedPort, func(cfg *apiclient.Config) { cfg.Network = network }))
		wantTransport(t, err, false, false)
		if !strings.Contains(log.String(), `"msg":"http request got no answer"`) {
			t.Errorf("not told:\n%s", log)
		}
	})
	t.Run("a long one is counted", func(t *testing.T) {
		log, network := dumping()
		a := serve(t, answer(200, `{"access_token":"`+strings.Repeat(canaryTXT, 20_000)+`"}`))
		_ = get(t.Context(), a.client(t, func(cfg *apiclient.Config) { cfg.Network = network }))
		noCanary(t, log.String())
		if !strings.Contains(log.String(), "[more than 262144 bytes]") {
			t.Errorf("got %s", log)
		}
	})
}

// TestPOSTIsNeverSentAgainWithADump checks that a dump does not change the requests, in
// particular their number.
func TestPOSTIsNeverSentAgainWithADump(t *testing.T) {
	_, network := dumping()
	seen := 0
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if seen++; seen == 1 {
			answer(200, domainRecord)(w, r)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	})
	c := a.client(t, func(cfg *apiclient.Config) { cfg.Network = network })
	if err := get(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	err := create(context.WithoutCancel(t.Context()), c)
	wantTransport(t, err, true, false)
	if n := len(a.asked()); n != 2 || !strings.Contains(a.asked()[1].Body, "simplified") {
		t.Errorf("%d requests", n)
	}
}
