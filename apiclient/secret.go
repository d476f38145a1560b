package apiclient

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
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
