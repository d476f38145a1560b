package apiclient

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"orgops/internal/stamp"
)

// TokenSource returns the bearer token of a request. It must be safe for concurrent use.
type TokenSource interface {
	// Token returns the current token. Its errors are *TokenError.
	Token(ctx context.Context) (Secret, error)

	// Expire reports that the API answered 401 to refused. If that is still the current
	// token, the next Token returns a new one.
	Expire(refused Secret)
}

// scopesAge is the age of a token from which its scopes may be out of date: they are those
// of the time when it was granted. A blocked operation is tried after 30 s or more, each time
// with current scopes.
const scopesAge = 25 * time.Second

const (
	// maxSecretFile bounds the file of a token, a secret or a key; JWTs have
	// some KiB, and a header has no place for more.
	maxSecretFile = 64 << 10

	// fileMargin is how long before its token's exp the file is read again on each use: it
	// should be renewed by then, and reading is cheap.
	fileMargin = time.Minute
)

// StaticToken returns a source of one token, even after it was refused.
func StaticToken(token Secret) TokenSource {
	s := &givenToken{}
	s.set(token)
	return s
}

// TokenFile returns a source of the token in a file that another program renews. The file
// is read now, and again when the token (a JWT) nears its exp, was refused or lacks a
// scope. The error is a *TokenError.
func TokenFile(path string) (TokenSource, error) {
	s := &givenToken{path: path}
	if err := s.read(); err != nil {
		return nil, err
	}
	return s, nil
}

// givenToken is a token that was not fetched from an endpoint.
type givenToken struct {
	path string // of its file; empty: there is none

	mu      sync.Mutex
	token   Secret
	refused bool // the API refused the file's token
	past    TokenHealth
}

func (s *givenToken) Token(ctx context.Context) (Secret, error) {
	if err := ctx.Err(); err != nil {
		return Secret{}, &TokenError{Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ends := s.past.ExpiresAt
	due := s.path != "" && !ends.IsZero() && !time.Now().Before(ends.Add(-fileMargin))
	if due || s.refused {
		// While the file is being replaced it may be missing or empty for a moment: the
		// token is used further unless it was refused.
		if err := s.read(); err != nil && s.refused {
			return Secret{}, err
		}
	}
	return s.token, nil
}

func (s *givenToken) renewed(_ context.Context, used Secret) Secret {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.path != "" && s.token.Equal(used) {
		// If the file cannot be read, the token is still valid for other operations.
		_ = s.read()
	}
	return s.token
}

func (s *givenToken) Expire(refused Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = s.refused || (s.path != "" && s.token.Equal(refused))
}

func (s *givenToken) read() error {
	token, err := ReadSecretFile(s.path, ParseToken)
	if err != nil {
		e := &TokenError{Err: fmt.Errorf("token file: %w", err)}
		s.past.note(nil, e, time.Now())
		return e
	}
	s.set(token)
	return nil
}

// set sets the token, and resets refused: the API decides on the token again.
func (s *givenToken) set(token Secret) {
	exp, scopes := jwtClaims(token)
	s.past.note(scopes, nil, time.Now())
	s.past.ExpiresAt = exp
	s.token = token
	s.refused = false
}

func (s *givenToken) health() TokenHealth {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.past
	switch ended := h.ExpiresAt; {
	case s.refused:
		h.Err = h.LastErr
	case !ended.IsZero() && !time.Now().Before(ended):
		h.Err = &TokenError{Err: fmt.Errorf("the present one ended at %s", stamp.UTC(ended))}
		h.Since = ended
	}
	return h
}

// ReadSecretFile reads a token, a secret or a key, parsed by parse. Errors name the file, and
// never contain the secret.
func ReadSecretFile(path string, parse func(text string) (Secret, error)) (Secret, error) {
	file, err := os.Open(path)
	if err != nil {
		return Secret{}, err
	}
	// The file was only read: closing it cannot lose data.
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxSecretFile+1))
	if err != nil {
		return Secret{}, err
	}
	secret, err := parse(string(content))
	if len(content) > maxSecretFile {
		err = fmt.Errorf("longer than %d bytes: not a token, secret or key", maxSecretFile)
	}
	if err != nil {
		return Secret{}, fmt.Errorf("%s: %w", path, err)
	}
	return secret, nil
}

// jwtClaims reads exp (RFC 7519 section 4.1.4) and scope (RFC 9068 section 2.2.3) of a JWT
// without checking its signature: they only decide when to get another one, and are
// reported. It returns zero and nil for claims that are missing.
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

func usableToken(token Secret) bool {
	v := token.Reveal()
	return v != "" && httpguts.ValidHeaderFieldValue(v)
}
