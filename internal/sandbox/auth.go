package sandbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// AllScopes are the scopes that the API's operations ask for, those of the
// three of the specification and those of the reads.
func AllScopes() []string {
	var all []string
	for _, op := range operations {
		if !slices.Contains(all, op.scope) {
			all = append(all, op.scope)
		}
	}
	slices.Sort(all)
	return all
}

// tokens is what access tokens are made with. They are JWTs signed with HS256: whoever
// calls an API takes them as they come, so the algorithm is the sandbox's own business.
type tokens struct {
	key     []byte
	minted  atomic.Int64
	granted atomic.Pointer[[]string] // scopes
}

type claims struct {
	Issuer    string `json:"iss"`
	Subject   string `json:"sub"`
	Audience  string `json:"aud"`
	IssuedAt  int64  `json:"iat"`
	Expires   int64  `json:"exp"`
	Scope     string `json:"scope"`
	GrantType string `json:"gty"`
	ID        string `json:"jti"`
}

// tokenSeconds is the lifetime of a token in whole seconds, rounded up.
func (s *Sandbox) tokenSeconds() int64 {
	return int64((s.options.TokenLifetime + time.Second - 1) / time.Second)
}

var jwtHeader = base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`))

func (s *Sandbox) mint(audience string, scopes []string) string {
	now := s.now().Unix()
	payload, err := json.Marshal(claims{
		Issuer: s.authURL + "/", Subject: s.clientID + "@clients", Audience: audience,
		IssuedAt: now, Expires: now + s.tokenSeconds(),
		Scope: strings.Join(scopes, " "), GrantType: "client-credentials",
		// Two tokens of one second differ, as a caller who was refused expects.
		ID: strconv.FormatInt(s.tokens.minted.Add(1), 10),
	})
	if err != nil {
		return "" // strings and numbers always encode
	}
	signed := jwtHeader + "." + base64.RawURLEncoding.EncodeToString(payload)
	return signed + "." + s.tokens.sign(signed)
}

func (t *tokens) sign(signed string) string {
	mac := hmac.New(sha256.New, t.key)
	mac.Write([]byte(signed))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// Token mints a bearer token with these scopes, or with AllScopes where none
// is given. It lives as long as those of the token endpoint.
func (s *Sandbox) Token(scopes ...string) string {
	if len(scopes) == 0 {
		scopes = AllScopes()
	}
	return s.mint(s.baseURL+"/", scopes)
}

// SetScopes sets what the token endpoint grants from now on. Tokens already
// minted keep theirs.
func (s *Sandbox) SetScopes(scopes ...string) { s.tokens.granted.Store(new(slices.Clone(scopes))) }

// audiences are the API's names: its own, and the one it was called by.
func (s *Sandbox) audiences(r *http.Request) []string {
	return []string{s.baseURL + "/", "http://" + r.Host + basePath + "/"}
}

// authenticate holds a request to its token, with the words of the service's 401. A nil
// answer lets it pass.
func (s *Sandbox) authenticate(r *http.Request) (c claims, refused *answer) {
	given := r.Header.Values("Authorization")
	scheme, token, ok := strings.Cut(strings.Join(given, ""), " ")
	switch {
	case len(given) == 0:
		return c, new(unauthorized("Missing authentication"))
	case len(given) > 1 || !ok || !strings.EqualFold(scheme, "Bearer"):
		return c, new(unauthorized("Bad HTTP authentication header format"))
	}
	header, rest, _ := strings.Cut(token, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	good := header == jwtHeader && hmac.Equal([]byte(signature), []byte(s.tokens.sign(header+"."+payload)))
	switch {
	case !good || segment(payload, &c) != nil:
		return c, new(unauthorized("Invalid token"))
	case !slices.Contains(s.audiences(r), c.Audience):
		return c, new(unauthorized("Bad audience, expected one that ends in " + basePath + "/"))
	case s.now().Unix() >= c.Expires:
		return c, new(unauthorized("Expired token received for JSON Web Token validation"))
	}
	return c, nil
}

func unauthorized(refusal string) answer {
	a := refuse(http.StatusUnauthorized, refusal, "")
	a.header.Set("Www-Authenticate", `Bearer error="invalid_token"`)
	return a
}

func (c claims) may(scope string) bool { return slices.Contains(strings.Fields(c.Scope), scope) }

func insufficientScope(scope string) answer {
	return refuse(http.StatusForbidden, "Insufficient scope, expected any of: "+scope, "insufficient_scope")
}

// oauthError is an answer of the shape of RFC 6749, section 5.2.
func oauthError(status int, code, description string) answer {
	return answer{
		status: status,
		header: http.Header{"Cache-Control": {"no-store"}},
		body:   map[string]string{"error": code, "error_description": description},
	}
}

// grant is the token endpoint (specification 5, RFC 6749 section 4.4).
func (s *Sandbox) grant(c *call) answer {
	if c.mediaType != formType {
		return oauthError(http.StatusBadRequest, "invalid_request", "want a body of "+formType)
	}
	form, err := url.ParseQuery(string(c.body))
	if err != nil {
		return oauthError(http.StatusBadRequest, "invalid_request", "the form cannot be read")
	}
	for name, values := range form {
		if len(values) > 1 {
			return oauthError(http.StatusBadRequest, "invalid_request", "parameter given twice: "+capped(name))
		}
	}
	if refused := s.checkClient(c.http, form); refused != nil {
		return *refused
	}
	if g := form.Get("grant_type"); g != "client_credentials" {
		return oauthError(http.StatusBadRequest, "unsupported_grant_type", "want grant_type client_credentials, got "+capped(g))
	}
	audience := form.Get("audience")
	if audience == "" {
		return oauthError(http.StatusForbidden, "access_denied", "No audience parameter was provided, and no default audience has been configured")
	}
	if !slices.Contains(s.audiences(c.http), audience) {
		return oauthError(http.StatusForbidden, "access_denied", "Service not found: "+capped(audience))
	}
	scopes := *s.tokens.granted.Load()
	if form.Has("scope") {
		asked := strings.Fields(form.Get("scope"))
		scopes = slices.DeleteFunc(slices.Clone(scopes), func(scope string) bool { return !slices.Contains(asked, scope) })
	}
	return answer{
		status: http.StatusOK,
		header: http.Header{"Cache-Control": {"no-store"}, "Pragma": {"no-cache"}},
		body: map[string]any{
			"access_token": s.mint(audience, scopes),
			"token_type":   "Bearer",
			"expires_in":   s.tokenSeconds(),
			"scope":        strings.Join(scopes, " "),
		},
	}
}

// checkClient holds the caller to the client's credentials: its secret in the
// form or by HTTP Basic, or an assertion; one of them (RFC 6749, section 2.3).
func (s *Sandbox) checkClient(r *http.Request, form url.Values) *answer {
	asserted := form.Has("client_assertion") || form.Has("client_assertion_type")
	basic := r.Header.Get("Authorization") != ""
	if asserted && (basic || form.Has("client_secret")) || basic && form.Has("client_secret") {
		return new(oauthError(http.StatusBadRequest, "invalid_request", "credentials given twice: want a secret in the form, or by Basic, or an assertion"))
	}
	switch {
	case asserted:
		return s.checkAssertion(r, form)
	case basic:
		return s.checkBasic(r, form)
	case same(form.Get("client_id"), s.clientID) && same(form.Get("client_secret"), s.clientSecret):
		return nil
	}
	return new(invalidClient("Unauthorized"))
}

func (s *Sandbox) checkBasic(r *http.Request, form url.Values) *answer {
	user, password, ok := r.BasicAuth()
	if form.Has("client_id") && form.Get("client_id") != user {
		return new(oauthError(http.StatusBadRequest, "invalid_request", "client_id and the Authorization header name two clients"))
	}
	id, idErr := url.QueryUnescape(user) // both are form-encoded before Basic encodes them
	secret, secretErr := url.QueryUnescape(password)
	if ok && errors.Join(idErr, secretErr) == nil && same(id, s.clientID) && same(secret, s.clientSecret) {
		return nil
	}
	return new(invalidClient("Unauthorized"))
}

func (s *Sandbox) checkAssertion(r *http.Request, form url.Values) *answer {
	if t := form.Get("client_assertion_type"); t != assertionType {
		return new(oauthError(http.StatusBadRequest, "invalid_request", "want client_assertion_type "+assertionType+", got "+capped(t)))
	}
	if form.Has("client_id") && form.Get("client_id") != s.clientID {
		return new(invalidClient("Unauthorized"))
	}
	servers := []string{s.authURL + "/", "http://" + r.Host + "/"}
	if err := s.assertions.check(form.Get("client_assertion"), s.clientID, servers, s.now().Unix()); err != nil {
		return new(invalidClient(err.Error()))
	}
	return nil
}

func invalidClient(description string) answer {
	a := oauthError(http.StatusUnauthorized, "invalid_client", description)
	a.header.Set("Www-Authenticate", `Basic realm="sandbox"`)
	return a
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
