package schema

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"orgops/internal/untrusted"
)

// MaxClientsPerRequest is the most clients that one removal may name
// (specification 4.2).
const MaxClientsPerRequest = 100

// maxID bounds the identifiers that go into a path.
const maxID = 128

// maxFieldsShown bounds the text of one ValidationError: a hundred clients can each be
// wrong, and a hostile file may have a hundred thousand unknown members.
const maxFieldsShown = 100

// Rules of form, as errors state them.
const (
	WantObject   = "want an object"
	WantText     = "want a string"
	WantBool     = "want true or false"
	isUnknown    = "is not a member that the specification knows"
	unknownClaim = "is not a claim that the specification knows"
)

// ValidationError says that a request breaks rules of the specification.
// Nothing was sent.
type ValidationError struct {
	Fields []FieldError // every broken rule, at least one
}

// FieldError is one broken rule.
type FieldError struct {
	Field string // the member with its path, such as "clients[3]" or "presentation.portrait"
	Rule  string // the rule, such as "want true or false"
	Value string // the beginning of the value as JSON, at most 100 characters; empty: none is shown
}

func (e *ValidationError) Error() string {
	parts := make([]string, 0, min(len(e.Fields), maxFieldsShown)+1)
	for i, f := range e.Fields {
		if i == maxFieldsShown {
			parts = append(parts, fmt.Sprintf("and %d more", len(e.Fields)-i))
			break
		}
		parts = append(parts, f.String())
	}
	return strings.Join(parts, "; ")
}

// Unknown reports whether all faults are members or claims that this version does not
// know: a newer one may.
func (e *ValidationError) Unknown() bool {
	for _, f := range e.Fields {
		if f.Rule != isUnknown && f.Rule != unknownClaim {
			return false
		}
	}
	return true
}

// String returns "field: rule, got value".
func (f FieldError) String() string {
	if f.Value == "" {
		return f.Field + ": " + f.Rule
	}
	return f.Field + ": " + f.Rule + ", got " + f.Value
}

// Invalid returns a *ValidationError of broken rules, nil if there are none. (A nil
// *ValidationError in an error would not be nil.)
func Invalid(fields []FieldError) error {
	if len(fields) == 0 {
		return nil
	}
	return &ValidationError{Fields: fields}
}

// CheckID checks an identifier of an organization, a discovery domain or a client before it
// is put into a path: 1 to 128 letters, digits, "_", "|", "-". field names it in the
// *ValidationError.
func CheckID(field, id string) error {
	return Invalid(AppendID(nil, field, id))
}

// AppendID appends the rule that an identifier breaks, as [CheckID] checks it.
func AppendID(broken []FieldError, field, id string) []FieldError {
	mistaken := mistakes[field]
	rule := ""
	switch {
	case mistaken.prefix != "" && strings.HasPrefix(id, mistaken.prefix):
		rule = mistaken.rule
	case IsID(id):
		return broken
	case mistaken.prefix != "" && strings.Contains(strings.Trim(id, "."), "."):
		rule = fmt.Sprintf("want an identifier, such as %s, not a name", mistaken.example)
	default:
		rule = fmt.Sprintf("want 1 to %d letters, digits, _, | or -", maxID)
	}
	return append(broken, FieldError{Field: field, Rule: rule, Value: untrusted.Value(id)})
}

// mistakes are the identifiers that are easily confused with another kind, by the member's
// name.
var mistakes = map[string]struct {
	prefix  string // of the other kind
	rule    string
	example string
}{
	"organization_id": {"ord_", "want an organization's identifier, not a discovery domain's (are the two swapped?)",
		"org_2iEQW5K6I4KggeE5"},
	"discovery_domain_id": {"org_", "want a discovery domain's identifier, not an organization's (are the two swapped?)",
		"ord_NTC6ExXjNUM91N94wxGrPQ"},
}

// IsID reports whether the text is an identifier, as [CheckID] wants it. It uses a loop: a pattern
// takes a fifth of the time of reading a row.
func IsID(id string) bool {
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '|', c == '-':
		default:
			return false
		}
	}
	return id != "" && len(id) <= maxID
}

// AppendClients appends the rules that the clients of one removal break (specification 4.2), of
// every invalid element.
func AppendClients(broken []FieldError, clients []string) []FieldError {
	if len(clients) < 1 || len(clients) > MaxClientsPerRequest {
		broken = append(broken, FieldError{
			Field: "clients",
			Rule:  fmt.Sprintf("want 1 to %d elements", MaxClientsPerRequest),
			Value: strconv.Itoa(len(clients)) + " elements",
		})
	}
	for i, id := range clients[:min(len(clients), MaxClientsPerRequest)] {
		broken = AppendID(broken, fmt.Sprintf("clients[%d]", i), id)
	}
	return broken
}

// textRule is the specification's rule of one string: its length in code points, and a
// pattern.
type textRule struct {
	least, most int
	pattern     *regexp.Regexp // nil: none
}

func (r textRule) check(broken []FieldError, field, value string) []FieldError {
	if n := utf8.RuneCountInString(value); n < r.least || n > r.most {
		broken = append(broken, FieldError{
			Field: field,
			Rule:  r.lengthRule(),
			Value: fmt.Sprintf("%d: %s", n, untrusted.Value(value)),
		})
	}
	if r.pattern != nil && !r.pattern.MatchString(value) {
		broken = append(broken, FieldError{
			Field: field,
			Rule:  "must match " + r.pattern.String(),
			Value: untrusted.Value(value),
		})
	}
	// JSON cannot express it: encoding/json would replace it silently.
	if !utf8.ValidString(value) {
		broken = append(broken, FieldError{Field: field, Rule: "want valid UTF-8", Value: untrusted.Value(value)})
	}
	return broken
}

func (r textRule) lengthRule() string {
	if r.least == 0 {
		return fmt.Sprintf("want at most %d characters", r.most)
	}
	return fmt.Sprintf("want %d to %d characters", r.least, r.most)
}

var plainMember = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// memberPath returns parent.name, or parent["name"] if the name has other characters.
func memberPath(parent, name string) string {
	switch {
	case !plainMember.MatchString(name):
		return parent + "[" + untrusted.Quote(name, untrusted.MaxName) + "]"
	case parent == "":
		return name
	}
	return parent + "." + name
}
