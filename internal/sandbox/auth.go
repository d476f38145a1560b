package sandbox

import (
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// AllScopes returns the scopes of the API's operations, including the reads.
func AllScopes() []string {
	var all []string
	for _, op := range operations {
		all = append(all, op.scope)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// audiences returns the API's names: its own, and the one in the request.
func (s *Sandbox) audiences(r *http.Request) []string {
	scheme, _, _ := strings.Cut(s.baseURL, "://")
	return []string{s.baseURL + "/", scheme + "://" + r.Host + basePath + "/"}
}

// authenticate checks the request's token. It returns the service's refusal, or nil: 400
// for a bearer token that is no JWT, otherwise 401.
func (s *Sandbox) authenticate(r *http.Request) (c claims, refused *answer) {
	scheme, token, _ := strings.Cut(strings.Join(r.Header.Values("Authorization"), ", "), " ")
	switch {
	case !strings.EqualFold(scheme, "Bearer"):
		return c, new(unauthorized("Missing authentication"))
	case strings.Contains(token, " ") || strings.Count(token, ".") != 2:
		return c, new(refuse(http.StatusBadRequest, "Bad HTTP authentication header format", "Bearer"))
	}
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.HS256})
	switch {
	case err != nil || parsed.Claims(s.tokens.key, &c) != nil:
		return c, new(unauthorized("Invalid token"))
	case !slices.Contains(s.audiences(r), c.Audience):
		return c, new(unauthorized("Bad audience, expected one that ends in " + basePath + "/"))
	case s.now().Unix() >= c.Expires:
		return c, new(unauthorized("Expired token received for JSON Web Token validation"))
	}
	return c, nil
}

// grant is the token endpoint (specification 5, RFC 6749 section 4.4).
func (s *Sandbox) grant(c *call) answer {
	if c.mediaType != formType {
		return oauthError(http.StatusBadRequest, "invalid_request", "want a body of "+formType)
	}

	// The form: each parameter once (RFC 6749 section 3.2).
	form, err := url.ParseQuery(string(c.body))
	if err != nil {
		return oauthError(http.StatusBadRequest, "invalid_request", "the form cannot be read")
	}
	for name, values := range form {
		if len(values) > 1 {
			return oauthError(http.StatusBadRequest, "invalid_request", "parameter given twice: "+capped(name))
		}
	}

	// The client, the grant type and the audience.
	if refused := s.checkClient(c.http, form); refused != nil {
		return *refused
	}
	if g := form.Get("grant_type"); g != "client_credentials" {
		return oauthError(http.StatusBadRequest, "unsupported_grant_type",
			"want grant_type client_credentials, got "+capped(g))
	}
	audience := form.Get("audience")
	if audience == "" {
		return oauthError(http.StatusForbidden, "access_denied",
			"No audience parameter was provided, and no default audience has been configured")
	}
	if !slices.Contains(s.audiences(c.http), audience) {
		return oauthError(http.StatusForbidden, "access_denied", "Service not found: "+capped(audience))
	}

	// The scopes that were granted to it, or those of them that it requests.
	scopes := AllScopes()
	if set := s.tokens.granted.Load(); set != nil {
		scopes = *set
	}
	scopes = slices.DeleteFunc(slices.Clone(scopes), s.tokens.withholds)
	if form.Has("scope") {
		requested := strings.Fields(form.Get("scope"))
		scopes = slices.DeleteFunc(scopes, func(scope string) bool {
			return !slices.Contains(requested, scope)
		})
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

// checkClient checks the client's secret, in the form or by HTTP Basic; only one of them (RFC 6749
// section 2.3).
func (s *Sandbox) checkClient(r *http.Request, form url.Values) *answer {
	basic := r.Header.Get("Authorization") != ""
	switch {
	case basic && form.Has("client_secret"):
		return new(oauthError(http.StatusBadRequest, "invalid_request",
			"credentials given twice: want a secret in the form, or by Basic"))
	case basic:
		return s.checkBasic(r, form)
	case same(form.Get("client_id"), s.clientID) && same(form.Get("client_secret"), s.clientSecret):
		return nil
	}
	return new(invalidClient())
}

func (s *Sandbox) checkBasic(r *http.Request, form url.Values) *answer {
	user, password, ok := r.BasicAuth()
	if form.Has("client_id") && form.Get("client_id") != user {
		return new(oauthError(http.StatusBadRequest, "invalid_request",
			"client_id and the Authorization header name two clients"))
	}
	id, idErr := url.QueryUnescape(user) // both are form-encoded before Basic encodes them
	secret, secretErr := url.QueryUnescape(password)
	if ok && errors.Join(idErr, secretErr) == nil && same(id, s.clientID) && same(secret, s.clientSecret) {
		return nil
	}
	return new(invalidClient())
}

func invalidClient() answer {
	a := oauthError(http.StatusUnauthorized, "invalid_client", "Unauthorized")
	a.header.Set("Www-Authenticate", `Basic realm="sandbox"`)
	return a
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// Token returns a new bearer token with these scopes, or with AllScopes if there are none.
// Its lifetime is that of the token endpoint's tokens.
func (s *Sandbox) Token(scopes ...string) string {
	if len(scopes) == 0 {
		scopes = AllScopes()
	}
	return s.mint(s.baseURL+"/", scopes)
}

// SetScopes sets the scopes that the token endpoint grants from now on. It does not change
// earlier tokens.
func (s *Sandbox) SetScopes(scopes ...string) { s.tokens.granted.Store(new(slices.Clone(scopes))) }

func unauthorized(refusal string) answer {
	a := refuse(http.StatusUnauthorized, refusal, "")
	a.header.Set("Www-Authenticate", `Bearer error="invalid_token"`)
	return a
}

func insufficientScope(scope string) answer {
	return refuse(http.StatusForbidden, "Insufficient scope, expected any of: "+scope, "insufficient_scope")
}

// oauthError returns an error of RFC 6749 section 5.2.
func oauthError(status int, code, description string) answer {
	return answer{
		status: status,
		header: http.Header{"Cache-Control": {"no-store"}},
		body:   map[string]string{"error": code, "error_description": description},
	}
}
