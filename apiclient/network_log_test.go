package apiclient_test

import (
	"bytes"
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

// Distinct secrets that the log of exchanges must not contain.
const (
	canaryToken    = "canary-bearer-0123456789abcdef"
	canarySecret   = "canary+secret/0123456789&abcdef"
	canaryCookie   = "canary-cookie-0123456789"
	canaryTXT      = "c4n4ry0123456789abcdef0123456789"
	canaryInHeader = "canary-header-0123456789"
	canaryNumber   = 9123456780123456
)

// logging returns a log at the lowest level, and the network that writes to it.
func logging() (*bytes.Buffer, apiclient.Network) {
	var log bytes.Buffer
	return &log,
		apiclient.Network{Exchanges: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
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
			"token":   map[string]any{"value": canaryToken}, "client_secret": canaryNumber, "jwt": canaryToken,
			"private_key":   canarySecret,
			"organizations": []any{map[string]any{"id": orgID, "metadata": map[string]any{"crm": canarySecret}}},
		})
	}
}

// TestExchangesHaveNoSecrets has servers that repeat the request in all parts of their answers.
func TestExchangesHaveNoSecrets(t *testing.T) {
	key := keyFile(t, pkcs8(ecKey()))
	for _, status := range []int{200, 302, 401, 500} {
		for _, method := range []apiclient.AuthMethod{apiclient.AuthBody, apiclient.AuthBasic, apiclient.AuthPrivateKeyJWT} {
			t.Run(fmt.Sprint(status, method), func(t *testing.T) {
				log, network := logging()
				a := serve(t, gossip(status, "application/json"))
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
					if values, err := url.ParseQuery(form.Body); err == nil && values.Get("client_assertion") != "" &&
						strings.Contains(log.String(), values.Get("client_assertion")[:40]) {
						t.Error("an assertion is shown")
					}
				}
				for _, want := range []string{`"path":"/oauth/token"`, `"method":"DELETE"`, fmt.Sprintf(`"status":%d`, status)} {
					if !strings.Contains(log.String(), want) {
						t.Errorf("no %s:\n%s", want, log)
					}
				}
			})
		}
	}
}

func noCanary(t *testing.T, log string) {
	t.Helper()
	for _, canary := range []string{canaryToken, canarySecret, canaryCookie, canaryTXT, canaryInHeader,
		fmt.Sprint(canaryNumber)} {
		quotedJSON, err := json.Marshal(canary)
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range []string{
			canary, url.QueryEscape(canary), strings.Trim(string(quotedJSON), `"`),
			base64.StdEncoding.EncodeToString([]byte(canary)),
			base64.StdEncoding.EncodeToString([]byte("the-client:" + url.QueryEscape(canary))),
		} {
			if at := strings.Index(log, form); at >= 0 {
				t.Errorf("%s is shown: …%s…", canary, log[max(0, at-200):min(len(log), at+100)])
				return
			}
		}
	}
}

// TestExchanges checks that each exchange has a line, also one without an answer.
func TestExchanges(t *testing.T) {
	log, network := logging()
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "the-request")
		answer(200, domainRecord)(w, r)
	})
	if err := get(t.Context(), a.client(t, func(cfg *apiclient.Config) { cfg.Network = network })); err != nil {
		t.Fatal(err)
	}
	err := get(t.Context(), newClient(t, closedPort, func(cfg *apiclient.Config) { cfg.Network = network }))
	wantTransport(t, err, false, false)
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines:\n%s", len(lines), log)
	}
	for i, want := range [][]string{
		{`"msg":"http exchange","method":"GET","path":"/api/v2/organizations/`, `"took":`,
			`"status":200,"request_id":"the-request"`},
		{`"msg":"http exchange","method":"GET"`, `"error":"dial tcp`},
	} {
		for _, part := range want {
			if !strings.Contains(lines[i], part) {
				t.Errorf("no %s: %s", part, lines[i])
			}
		}
	}
}
