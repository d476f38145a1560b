package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"orgops/internal/cli"
	"orgops/internal/serving"
	"orgops/tasks"
)

// Caller is the client of a request and what it may submit. Runs belong to the
// caller of that name.
type Caller struct {
	Name    string
	kinds   []string // all: "*"
	tenants []string
}

// anybody is the caller of a server without authentication.
var anybody = Caller{Name: "anybody", kinds: []string{all}, tenants: []string{all}}

// all means every kind, or every tenant.
const all = "*"

func allows(list []string, name string) bool {
	return slices.Contains(list, name) || slices.Contains(list, all)
}

// tenant returns the tenant of requests that name none.
func (c Caller) tenant() string {
	if len(c.tenants) == 1 && c.tenants[0] != all {
		return c.tenants[0]
	}
	return tasks.DefaultTenant
}

// check returns an error for rows that the caller may not submit.
func (c Caller) check(kind, tenant string) error {
	switch {
	case !allows(c.kinds, kind):
		return newProblem(http.StatusForbidden, "not-allowed", "The token of %s does not allow runs of kind %s.", c.Name, kind)
	case !allows(c.tenants, tenant):
		return newProblem(http.StatusForbidden, "not-allowed", "The token of %s does not allow tenant %s.", c.Name, tenant)
	}
	return nil
}

// Tokens are the callers of a file, which is read again when it changes.
type Tokens struct{ list *serving.Reloaded[[]token] }

// token is an entry of the file. Entries of one name are one caller: so a token can be
// replaced by another without a gap.
type token struct {
	caller Caller
	sum    [sha256.Size]byte
}

// ReadTokens reads the file. Its tokens are hashed once, without salt: they are
// long and random, so that neither guesses nor a table find one.
func ReadTokens(file string, log *slog.Logger, now func() time.Time) (*Tokens, error) {
	list, err := serving.Read(func() ([]token, error) {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		parsed, err := parseTokens(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return parsed, nil
	}, log, now, file)
	if err != nil {
		return nil, err
	}
	return &Tokens{list}, nil
}

// tokenEntry is a token as the file has it. YAML reads JSON too.
type tokenEntry struct {
	Name    string   `yaml:"name"`
	SHA256  string   `yaml:"sha256"`
	Kinds   []string `yaml:"kinds"`
	Tenants []string `yaml:"tenants"`
}

// parseTokens reads the file's text. Errors name the line, never a hash.
func parseTokens(text []byte) ([]token, error) {
	var file struct {
		Tokens []tokenEntry `yaml:"tokens"`
	}
	lines, err := cli.ReadYAML(text, "tokens", &file)
	if err != nil {
		return nil, err
	}
	if len(file.Tokens) == 0 {
		return nil, errors.New("line 1: tokens: want at least one")
	}
	list := make([]token, 0, len(file.Tokens))
	for i, entry := range file.Tokens {
		one, err := entry.token()
		if err == nil && slices.ContainsFunc(list, func(t token) bool { return t.sum == one.sum }) {
			err = errors.New("sha256: another entry has the same hash")
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", lines[i], err)
		}
		list = append(list, one)
	}
	return list, nil
}

var callerPattern = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

func (e tokenEntry) token() (token, error) {
	t := token{caller: Caller{Name: e.Name, kinds: e.Kinds, tenants: e.Tenants}}
	if !callerPattern.MatchString(e.Name) {
		return t, fmt.Errorf("name: want 1 to 64 letters, digits, _, . or -, got %s", shown(e.Name))
	}
	sum, err := hex.DecodeString(e.SHA256)
	if err != nil || len(sum) != sha256.Size {
		return t, errors.New("sha256: want the SHA-256 of the token, 64 hexadecimal digits, as sha256sum prints them")
	}
	copy(t.sum[:], sum)
	if t.sum == sha256.Sum256(nil) || t.sum == sha256.Sum256([]byte("\n")) {
		return t, errors.New("sha256: this is the hash of an empty token: was the shell variable empty?")
	}
	return t, errors.Join(checkKinds(e.Kinds), checkTenants(e.Tenants))
}

// kindOf returns the kind of that name, if its rows can be submitted.
func kindOf(name string) (tasks.Kind, bool) {
	kind, known := tasks.KindOf(name)
	return kind, known && !kind.Found
}

func checkKinds(kinds []string) error {
	if len(kinds) == 0 {
		return errors.New(`kinds: want a list such as [domain:verify], or ["*"]`)
	}
	for _, kind := range kinds {
		if _, known := kindOf(kind); !known && kind != all {
			return fmt.Errorf("kinds: unknown kind %s; known kinds: %s", shown(kind), strings.Join(kindNames(), ", "))
		}
	}
	return nil
}

func checkTenants(tenants []string) error {
	if len(tenants) == 0 {
		return errors.New(`tenants: want a list such as [default], or ["*"]`)
	}
	for _, tenant := range tenants {
		if tenant == all {
			continue
		}
		if err := tasks.CheckTenant(tenant); err != nil {
			return fmt.Errorf("tenants: %w", err)
		}
	}
	return nil
}

func kindNames() []string {
	var names []string
	for _, kind := range tasks.Kinds() {
		names = append(names, kind.Name)
	}
	return names
}

// find returns the caller of a token. It compares all entries, so that the time it takes
// reveals nothing.
func (t *Tokens) find(secret string) (caller Caller, known bool) {
	sum := sha256.Sum256([]byte(secret))
	for _, one := range t.list.Get() {
		if subtle.ConstantTimeCompare(one.sum[:], sum[:]) == 1 {
			caller, known = one.caller, true
		}
	}
	return caller, known
}

const challenge = `Bearer realm="orgops"`

// authenticate returns the caller of a request.
func (s *Server) authenticate(r *http.Request) (Caller, error) {
	if s.cfg.Tokens == nil {
		return anybody, nil
	}
	given := r.Header.Values("Authorization")
	if len(given) == 0 {
		return Caller{}, unauthenticated(challenge, "Send your token in the header \"Authorization: Bearer TOKEN\".")
	}
	scheme, secret, _ := strings.Cut(given[0], " ")
	if len(given) > 1 || !strings.EqualFold(scheme, "Bearer") || secret == "" {
		return Caller{}, unauthenticated(challenge, "The Authorization header must have the form \"Bearer TOKEN\".")
	}
	caller, known := s.cfg.Tokens.find(strings.TrimSpace(secret))
	if !known {
		return Caller{}, unauthenticated(challenge+`, error="invalid_token"`, "The token is unknown.")
	}
	return caller, nil
}

func unauthenticated(challenge, detail string) *problem {
	p := newProblem(http.StatusUnauthorized, "unauthenticated", "%s", detail)
	p.challenge = challenge
	return p
}
