package sandbox_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/sandbox"
)

// credentials returns a valid token request.
func credentials(s *sandbox.Sandbox) url.Values {
	return url.Values{
		"grant_type": {"client_credentials"}, "client_id": {s.ClientID()}, "client_secret": {s.ClientSecret()},
		"audience": {s.BaseURL() + "/"},
	}
}

func TestTokenEndpoint(t *testing.T) {
	for _, path := range []string{"/oauth/token", "/oauth/token/"} {
		s := start(t, sandbox.Options{TokenLifetime: 90 * time.Second, Rate: 1})
		got := do(t, s, ask{method: "POST", path: s.AuthURL() + path, token: "none", contentType: asForm,
			body: credentials(s).Encode()})
		token, _ := got.json["access_token"].(string)
		want := map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": 90.0,
			"scope": strings.Join(sandbox.AllScopes(), " ")}
		if diff := cmp.Diff(want, got.json); got.status != 200 || strings.Count(token, ".") != 2 || diff != "" {
			t.Errorf("%s: status %d\n%s", path, got.status, diff)
		}
		if got.header.Get("Cache-Control") != "no-store" || got.header.Get("X-Ratelimit-Limit") != "" {
			t.Errorf("header %v", got.header)
		}
		if used := do(t, s, ask{method: "GET", path: "/organizations", token: token}); used.status != 200 {
			t.Errorf("its use: %d %s", used.status, used.raw)
		}
		logged := s.Requests()[0]
		if logged.Operation != sandbox.OpToken || strings.Contains(logged.Body, s.ClientSecret()) ||
			!strings.Contains(logged.Body, s.ClientID()) {
			t.Errorf("logged %+v", logged)
		}
	}
}

func TestTokenRequests(t *testing.T) {
	s := start(t, sandbox.Options{})
	set := func(name string, values ...string) func(url.Values) {
		return func(v url.Values) {
			v[name] = values
			if len(values) == 0 {
				v.Del(name)
			}
		}
	}
	basic := func(user, password string) http.Header {
		return http.Header{"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))}}
	}
	tests := []struct {
		name        string
		change      []func(url.Values)
		contentType string
		header      http.Header
		status      int
		code        string
	}{
		{"good", nil, asForm, nil, 200, ""},
		{"unknown parameter", []func(url.Values){set("tenant", "x")}, asForm, nil, 200, ""},
		{
			"audience of another name", []func(url.Values){
				set("audience", strings.Replace(s.BaseURL(), "127.0.0.1", "localhost", 1)+"/"),
			}, asForm, nil, 403, "access_denied",
		},
		{"Basic", []func(url.Values){set("client_id"), set("client_secret")}, asForm,
			basic(s.ClientID(), s.ClientSecret()), 200, ""},
		{"Basic, escaped", []func(url.Values){set("client_id"), set("client_secret")}, asForm,
			basic(escapedFirst(s.ClientID()), s.ClientSecret()), 200, ""},
		{"Basic and client_id", []func(url.Values){set("client_secret")}, asForm,
			basic(s.ClientID(), s.ClientSecret()), 200, ""},
		{"Basic and secret", nil, asForm, basic(s.ClientID(), s.ClientSecret()), 400, "invalid_request"},
		{"Basic, wrong", []func(url.Values){set("client_id"), set("client_secret")}, asForm,
			basic(s.ClientID(), "x"), 401, "invalid_client"},
		{"Basic, bad escape", []func(url.Values){set("client_id"), set("client_secret")}, asForm,
			basic(s.ClientID(), "%zz"), 401, "invalid_client"},
		{"another scheme", []func(url.Values){set("client_id"), set("client_secret")}, asForm,
			http.Header{"Authorization": {"Bearer x"}}, 401, "invalid_client"},
		{"wrong secret", []func(url.Values){set("client_secret", "x")}, asForm, nil, 401, "invalid_client"},
		{"no secret", []func(url.Values){set("client_secret")}, asForm, nil, 401, "invalid_client"},
		{"wrong client", []func(url.Values){set("client_id", "x")}, asForm, nil, 401, "invalid_client"},
		{"no audience", []func(url.Values){set("audience")}, asForm, nil, 403, "access_denied"},
		{"audience without its slash", []func(url.Values){set("audience", s.BaseURL())}, asForm, nil, 403, "access_denied"},
		{"audience a path", []func(url.Values){set("audience", "/api/v2/")}, asForm, nil, 403, "access_denied"},
		{"no grant", []func(url.Values){set("grant_type")}, asForm, nil, 400, "unsupported_grant_type"},
		{"other grant", []func(url.Values){set("grant_type", "password")}, asForm, nil, 400, "unsupported_grant_type"},
		{"parameter twice", []func(url.Values){set("audience", s.BaseURL()+"/", s.BaseURL()+"/")}, asForm, nil,
			400, "invalid_request"},
		{"JSON", nil, asJSON, nil, 400, "invalid_request"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			form := credentials(s)
			for _, change := range tt.change {
				change(form)
			}
			got := do(t, s, ask{method: "POST", path: s.AuthURL() + "/oauth/token", token: "none", header: tt.header,
				contentType: tt.contentType, body: form.Encode()})
			if got.status != tt.status {
				t.Fatalf("status %d, want %d: %s", got.status, tt.status, got.raw)
			}
			if tt.status == 200 {
				return
			}
			want := map[string]any{"error": tt.code, "error_description": got.json["error_description"]}
			if diff := cmp.Diff(want, got.json); diff != "" {
				t.Error(diff)
			}
		})
	}
	bad := do(t, s, ask{method: "POST", path: s.AuthURL() + "/oauth/token", token: "none",
		contentType: asForm, body: "%zz"})
	if bad.status != 400 || bad.json["error"] != "invalid_request" {
		t.Errorf("unreadable form: %d %s", bad.status, bad.raw)
	}
	logged, err := json.Marshal(s.Requests())
	if err != nil || strings.Contains(string(logged), s.ClientSecret()) {
		t.Errorf("the secret is in the log, or it cannot be encoded: %v", err)
	}
}

// escapedFirst writes a text with its first byte escaped.
func escapedFirst(s string) string {
	const hex = "0123456789ABCDEF"
	return "%" + string([]byte{hex[s[0]>>4], hex[s[0]&15]}) + s[1:]
}

func TestAudienceByTheNameItIsCalledBy(t *testing.T) {
	s := start(t, sandbox.Options{})
	form := credentials(s)
	form.Set("audience", "http://sandbox.internal:81/api/v2/")
	got := do(t, s, ask{method: "POST", path: s.AuthURL() + "/oauth/token", host: "sandbox.internal:81", token: "none",
		contentType: asForm, body: form.Encode()})
	token, _ := got.json["access_token"].(string)
	if used := do(t, s, ask{method: "GET", path: "/organizations", host: "sandbox.internal:81",
		token: token}); used.status != 200 {
		t.Errorf("under that name: %d %s", used.status, used.raw)
	}
	wantError(t, do(t, s, ask{method: "GET", path: "/organizations", token: token}), 401, "", "Bad audience")
}

func TestScopesGranted(t *testing.T) {
	s := start(t, sandbox.Options{})
	s.SetScopes("read:organizations", "update:organization_discovery_domains")
	granted := func(asked string) string {
		form := credentials(s)
		if asked != "" {
			form.Set("scope", asked)
		}
		got := do(t, s, ask{method: "POST", path: s.AuthURL() + "/oauth/token/", token: "none",
			contentType: asForm, body: form.Encode()})
		return got.json["scope"].(string)
	}
	if got := granted(""); got != "read:organizations update:organization_discovery_domains" {
		t.Error(got)
	}
	if got := granted("read:organizations create:vdcs_templates"); got != "read:organizations" {
		t.Error(got)
	}
	s.SetScopes("create:vdcs_templates")
	if got := granted(""); got != "create:vdcs_templates" {
		t.Error(got)
	}
}

// operations returns valid requests, one for each scope's operation.
func operations(s *sandbox.Sandbox) map[string]ask {
	d := s.AddDomain("org_a", sandbox.Domain{})
	return map[string]ask{
		"update:organization_discovery_domains": {method: "PATCH", path: domainPath("org_a", d.ID),
			contentType: asJSON, body: `{}`},
		"read:organization_discovery_domains":  {method: "GET", path: domainPath("org_a", d.ID)},
		"read:organization_discovery_domains ": {method: "GET", path: "/organizations/org_a/discovery-domains"},
		"read:organizations":                   {method: "GET", path: "/organizations"},
		"delete:organization_clients": {method: "DELETE", path: "/organizations/org_a/clients", contentType: asJSON,
			body: `{"clients":["a"]}`},
		"read:organization_clients": {method: "GET", path: "/organizations/org_a/clients"},
		"create:vdcs_templates": {method: "POST", path: templatesPath,
			contentType: asJSON, body: goodTemplate},
		"read:vdcs_templates": {method: "GET", path: templatesPath},
	}
}

func TestScopes(t *testing.T) {
	s := start(t, sandbox.Options{})
	for scope, a := range operations(s) {
		t.Run(a.method+" "+a.path, func(t *testing.T) {
			scope := strings.TrimSpace(scope)
			var others []string
			for _, other := range sandbox.AllScopes() {
				if other != scope {
					others = append(others, other)
				}
			}
			if len(others) != len(sandbox.AllScopes())-1 {
				t.Errorf("%s is not among %q", scope, sandbox.AllScopes())
			}
			a.token = s.Token(others...)
			wantError(t, do(t, s, a), http.StatusForbidden, "insufficient_scope", "Insufficient scope, expected any of: "+scope)
			a.token = s.Token(scope)
			if got := do(t, s, a); got.status >= 300 {
				t.Errorf("with its scope alone: %d %s", got.status, got.raw)
			}
		})
	}
}

func TestUnauthorized(t *testing.T) {
	now := newClock()
	s := start(t, sandbox.Options{Clock: now.Now, TokenLifetime: time.Minute})
	other := start(t, sandbox.Options{Clock: now.Now, APIAddr: "127.0.0.1:0"})
	good := s.Token()
	parts := strings.Split(good, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`))
	const noJWT = "Bad HTTP authentication header format"
	tests := []struct {
		name, header, message string
	}{
		{"none", "", "Missing authentication"},
		{"Basic", "Basic YTpi", "Missing authentication"},
		{"scheme alone", "Bearer", noJWT},
		{"junk", "Bearer x", noJWT},
		{"two parts", "Bearer a.b", noJWT},
		{"four parts", "Bearer a.b.c.d", noJWT},
		{"two words", "Bearer " + good + " x", noJWT},
		{"the scheme twice", "Bearer Bearer " + good, noJWT},
		{"junk in parts", "Bearer a.b.c", "Invalid token"},
		{"without signature", "Bearer " + parts[0] + "." + parts[1] + ".", "Invalid token"},
		{"algorithm none", "Bearer " + none + "." + parts[1] + ".", "Invalid token"},
		{"changed", "Bearer " + parts[0] + "." + parts[1] + "x." + parts[2], "Invalid token"},
		{"of another tenant", "Bearer " + other.Token(), "Invalid token"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			header := http.Header{}
			if tt.header != "" {
				header.Set("Authorization", tt.header)
			}
			got := do(t, s, ask{method: "GET", path: "/organizations", token: "none", header: header})
			if tt.message == noJWT {
				wantError(t, got, http.StatusBadRequest, "Bearer", noJWT)
				return
			}
			wantError(t, got, http.StatusUnauthorized, "", tt.message)
			if got.header.Get("Www-Authenticate") == "" {
				t.Error("no WWW-Authenticate")
			}
		})
	}
	twice := http.Header{"Authorization": {"Bearer " + good, "Bearer " + good}}
	wantError(t, do(t, s, ask{method: "GET", path: "/organizations", token: "none", header: twice}),
		http.StatusBadRequest, "Bearer", noJWT)

	now.Add(time.Minute - time.Second)
	lower := http.Header{"Authorization": {"bearer " + good}}
	if got := do(t, s, ask{method: "GET", path: "/organizations", token: "none", header: lower}); got.status != 200 {
		t.Errorf("a second before its end: %d %s", got.status, got.raw)
	}
	now.Add(time.Second)
	wantError(t, do(t, s, ask{method: "GET", path: "/organizations", token: good}), 401, "", "Expired token")
	if first, second := s.Token(), s.Token(); first == second {
		t.Error("two tokens of one second are the same")
	}
}
