package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"orgops/internal/untrusted"
)

// TemplateRequest is the body that creates a verifiable credential template
// (specification 4.3).
type TemplateRequest struct {
	Name                    string       `json:"name"`                       // 1 to 255 characters
	Type                    string       `json:"type"`                       // 1 to 255 characters
	Dialect                 string       `json:"dialect"`                    // ^simplified/1.0$
	Presentation            Presentation `json:"presentation"`               // known claims, or none
	WellKnownTrustedIssuers string       `json:"well_known_trusted_issuers"` // ^aamva$
	// 1 to 4096 characters; nil: omitted
	CustomCertificateAuthority *string `json:"custom_certificate_authority,omitempty"`
}

// Template is a template of the API (specification 2.2). Only its ID is always present.
type Template struct {
	ID string `json:"id"`
	TemplateRequest
	CreatedAt time.Time `json:"created_at,omitzero"` // zero: missing or invalid
}

// The rules of the request's strings (specification 2.2, 4.3 and 8). The patterns are those
// of the specification: the dot in the dialect's matches any character.
var (
	nameRule    = textRule{least: 1, most: 255}
	typeRule    = textRule{least: 1, most: 255}
	dialectRule = textRule{most: 255, pattern: regexp.MustCompile(`^simplified/1.0$`)}
	issuersRule = textRule{least: 1, most: 255, pattern: regexp.MustCompile(`^aamva$`)}
	customRule  = textRule{least: 1, most: 4096}
)

// The members of the request, with fieldPresentation.
const (
	fieldName    = "name"
	fieldType    = "type"
	fieldDialect = "dialect"
	fieldIssuers = "well_known_trusted_issuers"
	fieldCustom  = "custom_certificate_authority"
)

// Validate checks every rule of the specification; the *ValidationError has all broken
// ones. Lengths are in code points.
func (r TemplateRequest) Validate() error { return Invalid(r.broken()) }

func (r TemplateRequest) broken() []FieldError {
	broken := nameRule.check(nil, fieldName, r.Name)
	broken = typeRule.check(broken, fieldType, r.Type)
	broken = dialectRule.check(broken, fieldDialect, r.Dialect)
	broken = r.Presentation.check(broken)
	broken = issuersRule.check(broken, fieldIssuers, r.WellKnownTrustedIssuers)
	if r.CustomCertificateAuthority != nil {
		broken = customRule.check(broken, fieldCustom, *r.CustomCertificateAuthority)
	}
	return broken
}

// Differences returns the members in which t differs from the request, claims as
// "presentation.portrait"; none: the request would create t. A claim that is false equals
// one that is omitted. A t without a claims object, such as a presentation of another
// kind, differs in "presentation".
func (r TemplateRequest) Differences(t Template) []string {
	var names []string
	for _, m := range []struct {
		name string
		same bool
	}{
		{fieldName, r.Name == t.Name},
		{fieldType, r.Type == t.Type},
		{fieldDialect, r.Dialect == t.Dialect},
		{fieldIssuers, r.WellKnownTrustedIssuers == t.WellKnownTrustedIssuers},
		{fieldCustom, r.authority() == t.authority()},
	} {
		if !m.same {
			names = append(names, m.name)
		}
	}
	if t.Presentation.Claims == nil && r.Presentation.Claims != nil {
		return append(names, fieldPresentation)
	}
	for _, claim := range r.Presentation.differences(t.Presentation) {
		names = append(names, memberPath(fieldPresentation, claim))
	}
	return names
}

// authority returns the custom authority, or "" if there is none: an empty one cannot be
// requested.
func (r TemplateRequest) authority() string {
	if r.CustomCertificateAuthority == nil {
		return ""
	}
	return *r.CustomCertificateAuthority
}

// UnmarshalJSON reads a template of the API. It ignores additional members, and leaves an
// invalid time zero: a created template must not be considered lost because of its date.
// After an error, the members that could be read are set: they may identify the template.
func (t *Template) UnmarshalJSON(data []byte) error {
	type plainTemplate Template // without this method
	read := struct {
		*plainTemplate

		CreatedAt any `json:"created_at"`
	}{plainTemplate: &plainTemplate{}}
	err := json.Unmarshal(data, &read)
	*t = Template(*read.plainTemplate)
	t.CreatedAt = readTime(read.CreatedAt)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		for _, embedded := range []string{"plainTemplate.", "TemplateRequest."} { // no members of the JSON
			wrong.Field = strings.TrimPrefix(wrong.Field, embedded)
		}
	}
	return err
}

func readTime(v any) time.Time {
	s, ok := v.(string)
	if !ok {
		return time.Time{}
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05Z0700"} { // both read fractions too
		if at, err := time.Parse(layout, s); err == nil {
			return at
		}
	}
	return time.Time{}
}

// Identifier returns the id of the template, unchecked.
func (t Template) Identifier() string { return t.ID }

// Check returns an error unless the template has an id.
func (t Template) Check() error { return wantID(t.ID) }

// CheckIs checks the template, and that it is the requested one, whose id it would be
// taken for. One without a name may be any.
func (t Template) CheckIs(name string) error {
	if err := t.Check(); err != nil {
		return err
	}
	if t.Name != "" && t.Name != name {
		return fmt.Errorf("it is the template %s, not the requested one", untrusted.Quote(t.Name, untrusted.MaxName))
	}
	return nil
}
