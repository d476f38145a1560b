package apiclient

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

const secretText = "[secret]"

// Secret holds a token or a client secret. Printed, logged or marshalled it is "[secret]";
// only [Secret.Reveal] returns the content. The zero Secret is empty.
type Secret struct {
	// A pointer, since fmt prints unexported fields of a surrounding struct by reflection,
	// without the methods below: of a pointer it prints the address.
	value *string
}

// NewSecret wraps value; an empty value gives the zero Secret.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{value: &value}
}

// ParseText returns the secret in the text of a file or variable, which may have several lines,
// without the byte-order mark and the white space around it. Errors never contain it.
func ParseText(text string) (Secret, error) {
	text = strings.TrimSpace(strings.TrimPrefix(text, "\ufeff"))
	switch {
	case text == "":
		return Secret{}, errors.New("it is empty")
	case strings.Contains(text, "\x00"): // as between the letters of UTF-16
		return Secret{}, errors.New("it is UTF-16, or no text: write it in UTF-8")
	}
	return NewSecret(text), nil
}

// ParseSecret is ParseText of one line.
func ParseSecret(text string) (Secret, error) {
	secret, err := ParseText(text)
	if strings.ContainsFunc(secret.Reveal(), func(r rune) bool { return !unicode.IsPrint(r) }) {
		return Secret{}, errors.New("it has several lines, or characters that are not printable: want only the secret")
	}
	return secret, err
}

// bearerToken matches tokens (RFC 6750 section 2.1).
var bearerToken = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)

// ParseToken is ParseText of a bearer token.
func ParseToken(text string) (Secret, error) {
	token, err := ParseText(text)
	if scheme, _, found := strings.Cut(token.Reveal(), " "); found && strings.EqualFold(scheme, "Bearer") {
		return Secret{}, errors.New("it begins with Bearer: want only the token behind it")
	}
	if err == nil && !bearerToken.MatchString(token.Reveal()) {
		return Secret{}, errors.New("it has blanks, quotes or characters that no token has: want only the token")
	}
	return token, err
}

// Reveal returns the content. Its callers must not print, log or store it.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsZero reports whether the content is empty.
func (s Secret) IsZero() bool { return s.value == nil }

// Equal reports whether both have the same content, in time that does not
// depend on where they differ. (The == operator compares identity instead.)
func (s Secret) Equal(other Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(other.Reveal())) == 1
}

// String returns "[secret]".
func (s Secret) String() string { return secretText }

// Format writes "[secret]" for every verb and flag.
func (s Secret) Format(f fmt.State, _ rune) {
	// A Formatter cannot report a failed write.
	_, _ = io.WriteString(f, secretText)
}

// LogValue returns "[secret]".
func (s Secret) LogValue() slog.Value { return slog.StringValue(secretText) }

// MarshalText returns "[secret]", also for JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(secretText), nil }

// mask replaces secrets in texts of others: a server or a proxy may repeat the request in
// its error page.
type mask []Secret

// recognisable is the number of leading bytes by which a secret that was cut is
// recognised.
const recognisable = 16

// text returns s with every secret replaced, whether it is whole or cut after the
// recognisable beginning, and whether it is plain or encoded for a form, a path, JSON or Go.
func (m mask) text(s string) string {
	if s == "" {
		return ""
	}
	var forms []string
	for _, secret := range m {
		v := secret.Reveal()
		if v == "" {
			continue
		}
		goString := strconv.Quote(v)
		asciiString := strconv.QuoteToASCII(v)
		forms = append(forms, v, url.QueryEscape(v), url.PathEscape(v), jsonText(v),
			goString[1:len(goString)-1], asciiString[1:len(asciiString)-1])
	}
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) }) // one may be the beginning of another
	for _, form := range slices.Compact(forms) {
		s = maskOne(s, form)
	}
	return s
}

func maskOne(s, form string) string {
	beginning := form[:min(len(form), recognisable)]
	var b strings.Builder
	for {
		at := strings.Index(s, beginning)
		if at < 0 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:at])
		b.WriteString(secretText)
		s = s[at:]
		n := len(beginning)
		for n < len(s) && n < len(form) && s[n] == form[n] {
			n++
		}
		s = s[n:]
	}
}

// jsonText returns s as it is between the quotes of a JSON string.
func jsonText(s string) string {
	b, _ := json.Marshal(s) // a string always encodes
	return string(b[1 : len(b)-1])
}
