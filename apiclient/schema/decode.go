package schema

import (
	"cmp"
	"errors"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"orgops/internal/untrusted"
)

// requestField names the request as a whole in errors.
const requestField = "template"

// errNull is why a null is refused, which decoding takes for a missing member.
var errNull = errors.New("must not be null")

// strictly refuses members that are unknown at any depth, or null. Without any option, decoding
// refuses members that occur twice, and invalid Unicode.
var strictly = json.JoinOptions(json.RejectUnknownMembers(true),
	json.WithUnmarshalers(json.UnmarshalFromFunc(func(d *jsontext.Decoder, _ any) error {
		if d.PeekKind() != 'n' {
			return json.SkipFunc
		}
		if _, err := d.ReadToken(); err != nil { // another word that begins with n
			return err
		}
		return errNull
	})))

// DecodeTemplateRequest reads the body of 4.3 strictly. If it is malformed, or has an unknown
// member or one of a wrong type, the *ValidationError has the first of these faults, with its full
// path. Otherwise it has every broken rule of [TemplateRequest.Validate]; a missing string is
// an empty one.
func DecodeTemplateRequest(data []byte) (TemplateRequest, error) {
	var read struct {
		Name         string `json:"name"`
		Type         string `json:"type"`
		Dialect      string `json:"dialect"`
		Presentation struct {
			Document struct {
				Claims map[string]bool `json:"org.iso.18013.5.1"`
			} `json:"org.iso.18013.5.1.mDL"`
		} `json:"presentation"`
		Issuers string  `json:"well_known_trusted_issuers"`
		Custom  *string `json:"custom_certificate_authority"`
	}
	if err := json.Unmarshal(data, &read, strictly); err != nil {
		return TemplateRequest{}, Invalid([]FieldError{faultOf(err, data)})
	}
	r := TemplateRequest{
		Name: read.Name, Type: read.Type, Dialect: read.Dialect,
		Presentation:            Presentation{read.Presentation.Document.Claims},
		WellKnownTrustedIssuers: read.Issuers, CustomCertificateAuthority: read.Custom,
	}
	broken := r.broken()
	if r.Presentation.Claims == nil {
		broken = append(broken, FieldError{Field: claimsField, Rule: "is required"})
	}
	if broken != nil {
		return TemplateRequest{}, Invalid(broken)
	}
	return r, nil
}

// faultOf returns the fault of data for which decoding it ended with err.
func faultOf(err error, data []byte) FieldError {
	wrong, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return FieldError{
			Field: requestField, Rule: "want JSON: " + untrusted.Plain(strings.TrimPrefix(err.Error(), "jsontext: "),
				untrusted.MaxMessage), Value: untrusted.JSON(data),
		}
	}
	field := ""
	rule := WantObject
	for name := range wrong.JSONPointer.Tokens() {
		field = memberPath(field, name)
	}
	switch {
	case errors.Is(err, json.ErrUnknownName):
		rule = isUnknown
	case errors.Is(err, errNull):
		rule = errNull.Error()
	case wrong.GoType.Kind() == reflect.String:
		rule = WantText
	case wrong.GoType.Kind() == reflect.Bool:
		rule = WantBool
	}
	return FieldError{Field: cmp.Or(field, requestField), Rule: rule}
}
