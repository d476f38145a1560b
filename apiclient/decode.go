package apiclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"unicode/utf8"
)

// Rules of form, as they stand in errors.
const (
	wantObject    = "want an object"
	wantText      = "want a string"
	wantBool      = "want true or false"
	isRequired    = "is required"
	isUnknown     = "is not a member that the specification knows"
	isRepeated    = "is there twice"
	unknownClaim  = "is not a claim that the specification knows"
	wantScalars   = "want valid Unicode, not half of a surrogate pair"
	requestField  = "template" // the request as a whole
	documentField = fieldPresentation + `["` + documentKey + `"]`
	claimsField   = documentField + `["` + namespaceKey + `"]`
)

// DecodeTemplateRequest reads the body of 4.3 strictly. Unknown members at any
// depth, members that are there twice, wrong types, missing members and every
// broken rule of [TemplateRequest.Validate] come back in one *ValidationError,
// each with its full path.
func DecodeTemplateRequest(data []byte) (TemplateRequest, error) {
	var d requestDecoder
	r := d.decode(data)
	if err := invalid(d.broken); err != nil {
		return TemplateRequest{}, err
	}
	return r, nil
}

// requestDecoder collects what is wrong on its way through a request.
type requestDecoder struct {
	broken []FieldError
}

func (d *requestDecoder) fault(field, rule, value string) {
	d.broken = append(d.broken, FieldError{Field: field, Rule: rule, Value: value})
}

func (d *requestDecoder) decode(data []byte) TemplateRequest {
	var r TemplateRequest
	if !utf8.Valid(data) {
		d.fault(requestField, "want valid UTF-8", quoted(string(data), maxValue))
		return r
	}
	if err := syntax(data); err != nil {
		d.fault(requestField, "want JSON: "+err.Error(), rawValue(data))
		return r
	}
	d.object(requestField, "", data, func(name string, raw json.RawMessage) bool {
		switch name {
		case fieldName:
			r.Name = d.text(name, raw, nameRule)
		case fieldType:
			r.Type = d.text(name, raw, typeRule)
		case fieldDialect:
			r.Dialect = d.text(name, raw, dialectRule)
		case fieldPresentation:
			r.Presentation = d.presentation(raw)
		case fieldIssuers:
			r.WellKnownTrustedIssuers = d.text(name, raw, issuersRule)
		case fieldCustom:
			r.CustomCertificateAuthority = new(d.text(name, raw, customRule))
		default:
			return false
		}
		return true
	}, fieldName, fieldType, fieldDialect, fieldPresentation, fieldIssuers)
	return r
}

func (d *requestDecoder) presentation(raw json.RawMessage) Presentation {
	p := Presentation{Claims: map[string]bool{}}
	d.object(fieldPresentation, fieldPresentation, raw, func(name string, raw json.RawMessage) bool {
		if name != documentKey {
			return false
		}
		d.object(documentField, documentField, raw, func(name string, raw json.RawMessage) bool {
			if name != namespaceKey {
				return false
			}
			d.claims(p.Claims, raw)
			return true
		}, namespaceKey)
		return true
	}, documentKey)
	return p
}

func (d *requestDecoder) claims(into map[string]bool, raw json.RawMessage) {
	d.object(claimsField, claimsField, raw, func(name string, raw json.RawMessage) bool {
		field, value := memberPath(claimsField, name), string(raw)
		switch {
		case !isClaim(name):
			d.fault(field, unknownClaim, rawValue(raw))
		case value != "true" && value != "false":
			d.fault(field, wantBool, rawValue(raw))
		default:
			into[name] = value == "true"
		}
		return true
	})
}

// object passes the members of the object raw, which is valid JSON, to take in their
// order; take reports whether it knows the name. field names the object in an error, and
// parent is what its members' paths begin with. Repeated members, which encoding/json
// would merge, are faults, as are required ones that are missing.
func (d *requestDecoder) object(field, parent string, raw []byte, take func(name string, raw json.RawMessage) bool, required ...string) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if start, _ := dec.Token(); start != json.Delim('{') {
		d.fault(field, wantObject, rawValue(raw))
		return
	}
	there := map[string]bool{}
	for dec.More() {
		token, _ := dec.Token()
		name := fmt.Sprint(token)
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return // not reached: it is valid
		}
		switch {
		case there[name]:
			d.fault(memberPath(parent, name), isRepeated, rawValue(value))
		case !take(name, value):
			d.fault(memberPath(parent, name), isUnknown, rawValue(value))
		}
		there[name] = true
	}
	for _, name := range required {
		if !there[name] {
			d.fault(memberPath(parent, name), isRequired, "")
		}
	}
}

func (d *requestDecoder) text(field string, raw json.RawMessage, rule textRule) string {
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil || s == nil {
		d.fault(field, wantText, rawValue(raw))
		return ""
	}
	if halfSurrogate(raw) { // it was replaced in *s
		d.fault(field, wantScalars, rawValue(raw))
	}
	d.broken = rule.check(d.broken, field, *s)
	return *s
}

// syntax says where data stops being one JSON value.
func syntax(data []byte) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return errors.New("nothing is there")
	}
	var raw json.RawMessage
	err := json.Unmarshal(data, &raw)
	if at, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("%s at byte %d", plain(at.Error(), maxValue), at.Offset)
	}
	return err
}

// escapes are those of a JSON string, one after the other: a surrogate pair, half of one
// (which the group is), or any other.
var escapes = regexp.MustCompile(`\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\(u[dD][89a-fA-F]..)|\\.`)

// halfSurrogate finds a \u escape of half a surrogate pair in a valid JSON
// string. Decoders replace it silently.
func halfSurrogate(raw []byte) bool {
	return slices.ContainsFunc(escapes.FindAllSubmatch(raw, -1), func(m [][]byte) bool { return m[1] != nil })
}

var plainMember = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// memberPath is parent.name, or parent["name"] where the name is not a plain
// one.
func memberPath(parent, name string) string {
	switch {
	case !plainMember.MatchString(name):
		return parent + "[" + quoted(name, maxName) + "]"
	case parent == "":
		return name
	}
	return parent + "." + name
}

// rawValue is JSON as it stands, cut and on one line.
func rawValue(raw []byte) string { return plain(string(bytes.TrimSpace(raw)), maxValue) }
