package apiclient

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// TokenSource gives the bearer token of a request. It must be safe for
// concurrent use.
type TokenSource interface {
	// Token returns the token to send now. Its errors are *TokenError.
	Token(ctx context.Context) (Secret, error)

	// Expire says that the API answered 401 to refused. Where that is still the
	// current token, the next Token gets a fresh one.
	Expire(refused Secret)
}

// TokenError says that there is no token. No secret is in it.
type TokenError struct {
	Status      int           // of the token endpoint's answer; 0: it gave none, or was not asked
	Code        string        // OAuth's "error", such as "access_denied"; may be empty
	Description string        // OAuth's "error_description", or the quoted beginning of what came instead
	RetryAfter  time.Duration // what the endpoint asks to wait; 0: unknown
	Err         error         // which source, and why; may be nil
}

// Error says where the token was to come from, why it did not, and what to look
// at.
func (e *TokenError) Error() string {
	parts := []string{"no token"}
	if e.Err != nil {
		parts = append(parts, plain(e.Err.Error(), maxMessage))
	}
	if e.Status != 0 {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("the token endpoint answered %d %s", e.Status, http.StatusText(e.Status))))
	}
	for _, s := range []string{e.Code, e.Description} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ": ") + e.advice()
}

func (e *TokenError) advice() string {
	switch {
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden || e.Status == http.StatusBadRequest:
		return " (check the client id, its secret or key, and the audience)"
	case e.Status == http.StatusNotFound:
		return " (check the token URL)"
	case e.Status/100 == 3:
		return " (redirects are not followed: check the token URL)"
	}
	return ""
}

// Unwrap gives the reason where there is one.
func (e *TokenError) Unwrap() error { return e.Err }

// scopesAge is the age of a token from which its scopes may be out of date. A blocked
// operation is tried every 30 s, each time with the scopes of that moment: a token has
// those of the time when it was granted.
const scopesAge = 25 * time.Second

// StaticToken always gives the same token, also when it was refused.
func StaticToken(token Secret) TokenSource { return &staticToken{token: token, set: time.Now()} }

type staticToken struct {
	token Secret
	set   time.Time
}

func (s *staticToken) Token(ctx context.Context) (Secret, error) {
	if err := ctx.Err(); err != nil {
		return Secret{}, &TokenError{Err: err}
	}
	if s.token.IsZero() {
		return Secret{}, &TokenError{Err: errors.New("none was set")}
	}
	return s.token, nil
}

func (s *staticToken) Expire(Secret) {}

const (
	// maxSecretFile bounds the file of a token, a secret or a key; JWTs have
	// some KiB, and a header has no place for more.
	maxSecretFile = 64 << 10

	// fileMargin is how long before its token's exp a file is looked at again
	// on every use: whoever renews it does so in time, and reading is cheap.
	fileMargin = time.Minute
)

// TokenFile gives the token that stands in a file, which another program
// renews. It is read now, and again when the token (a JWT) nears its exp, was
// refused or lacks a scope. The error is a *TokenError.
func TokenFile(path string) (TokenSource, error) {
	f := &tokenFile{path: path}
	if err := f.read(); err != nil {
		return nil, err
	}
	return f, nil
}

type tokenFile struct {
	path string

	mu      sync.Mutex
	token   Secret
	refused bool // the API refused token
	past    TokenHealth
}

func (f *tokenFile) Token(ctx context.Context) (Secret, error) {
	if err := ctx.Err(); err != nil {
		return Secret{}, &TokenError{Err: err}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	ends := f.past.ExpiresAt
	due := !ends.IsZero() && !time.Now().Before(ends.Add(-fileMargin))
	if !due && !f.refused {
		return f.token, nil
	}
	// While the file is being replaced it may be gone or empty for a moment:
	// the token that is there still serves, unless it was refused.
	if err := f.read(); err != nil && f.refused {
		return Secret{}, err
	}
	return f.token, nil
}

// renewed returns the token other than used that the file has, or used.
func (f *tokenFile) renewed(_ context.Context, used Secret) Secret {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.token.Equal(used) {
		// If the file cannot be read, the token serves for other operations.
		_ = f.read()
	}
	return f.token
}

func (f *tokenFile) Expire(refused Secret) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.token.Equal(refused) {
		f.refused = true
	}
}

// read takes the file's token; after it, refused no longer holds: what the file
// has is what there is, and the API says again what it thinks of it.
func (f *tokenFile) read() error {
	token, err := readToken(f.path)
	if err != nil {
		e := &TokenError{Err: fmt.Errorf("token file: %w", err)}
		f.past.note(nil, e, time.Now())
		return e
	}
	exp, scopes := jwtClaims(token)
	f.past.note(scopes, nil, time.Now())
	f.past.ExpiresAt = exp
	f.token, f.refused = token, false
	return nil
}

func readToken(path string) (Secret, error) {
	content, err := readSmallFile(path)
	if err != nil {
		return Secret{}, err
	}
	if bytes.ContainsFunc(content, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return Secret{}, fmt.Errorf("%s: it has blanks or characters that no token has: want the token alone", path)
	}
	return NewSecret(string(content)), nil
}

// readSmallFile reads a token, a secret or a key, less blanks and line ends
// around it; never nothing.
func readSmallFile(path string) (content []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	// Only read from: closing it can lose nothing.
	defer func() { _ = file.Close() }()
	content, err = io.ReadAll(io.LimitReader(file, maxSecretFile+1))
	if err != nil {
		return nil, err
	}
	content = bytes.TrimSpace(content)
	switch {
	case len(content) > maxSecretFile:
		return nil, fmt.Errorf("%s: longer than %d bytes: not a token, secret or key", path, maxSecretFile)
	case len(content) == 0:
		return nil, fmt.Errorf("%s: it is empty", path)
	}
	return content, nil
}

// jwtClaims reads exp (RFC 7519 section 4.1.4) and scope (RFC 9068 section 2.2.3) of a
// JWT without checking its signature: they only tell when to get another, and what to
// report. Zero and nil: there is none.
func jwtClaims(token Secret) (exp time.Time, scopes []string) {
	var claims struct {
		Exp   any `json:"exp"`
		Scope any `json:"scope"`
	}
	parts := strings.Split(token.Reveal(), ".")
	if len(parts) != 3 {
		return time.Time{}, nil
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil || json.Unmarshal(payload, &claims) != nil {
		return time.Time{}, nil
	}
	if seconds, ok := claims.Exp.(float64); ok && seconds > 0 && seconds <= 1<<40 {
		exp = time.Unix(int64(seconds), 0)
	}
	if scope, ok := claims.Scope.(string); ok {
		scopes = strings.Fields(scope)
	}
	return exp, scopes
}
