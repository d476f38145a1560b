package apiclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
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
	there := d.object(requestField, "", data, func(name string, raw json.RawMessage) bool {
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
	})
	d.required(there, "", fieldName, fieldType, fieldDialect, fieldPresentation, fieldIssuers)
	return r
}

func (d *requestDecoder) presentation(raw json.RawMessage) Presentation {
	p := Presentation{Claims: map[string]bool{}}
	there := d.object(fieldPresentation, fieldPresentation, raw, func(name string, raw json.RawMessage) bool {
		if name != documentKey {
			return false
		}
		there := d.object(documentField, documentField, raw, func(name string, raw json.RawMessage) bool {
			if name != namespaceKey {
				return false
			}
			d.claims(p.Claims, raw)
			return true
		})
		d.required(there, documentField, namespaceKey)
		return true
	})
	d.required(there, fieldPresentation, documentKey)
	return p
}

func (d *requestDecoder) claims(into map[string]bool, raw json.RawMessage) {
	d.object(claimsField, claimsField, raw, func(name string, raw json.RawMessage) bool {
		field := memberPath(claimsField, name)
		if !isClaim(name) {
			d.fault(field, unknownClaim, rawValue(raw))
			return true
		}
		switch string(raw) {
		case "true":
			into[name] = true
		case "false":
			into[name] = false
		default:
			d.fault(field, wantBool, rawValue(raw))
		}
		return true
	})
}

// object hands the members of the object raw to take, in their order, which
// says whether it knows the name. field names the object in an error, and
// parent is what its members' paths begin with. It returns the names that are
// there; nil where raw is no object, so that nothing in it is missed.
func (d *requestDecoder) object(field, parent string, raw []byte, take func(name string, raw json.RawMessage) bool) map[string]bool {
	members, ok := membersOf(raw)
	if !ok {
		d.fault(field, wantObject, rawValue(raw))
		return nil
	}
	there := map[string]bool{}
	for _, m := range members {
		switch {
		case there[m.name]:
			d.fault(memberPath(parent, m.name), isRepeated, rawValue(m.raw))
		case !take(m.name, m.raw):
			d.fault(memberPath(parent, m.name), isUnknown, rawValue(m.raw))
		}
		there[m.name] = true
	}
	return there
}

func (d *requestDecoder) required(there map[string]bool, parent string, names ...string) {
	if there == nil {
		return
	}
	for _, name := range names {
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

type member struct {
	name string
	raw  json.RawMessage
}

// membersOf returns the members of a valid JSON object in their order, repeated
// ones included, which encoding/json would merge; false: it is no object.
func membersOf(raw []byte) ([]member, bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return nil, false
	}
	members := []member{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, false
		}
		m := member{name: fmt.Sprint(name)}
		if err := dec.Decode(&m.raw); err != nil {
			return nil, false
		}
		members = append(members, m)
	}
	return members, true
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

// halfSurrogate finds a \u escape of half a surrogate pair in a valid JSON
// string. Decoders replace it silently.
func halfSurrogate(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++ // the character behind the backslash; a valid string has it
		switch unit := escapedUnit(raw[i:]); {
		case unit < 0xD800 || unit > 0xDFFF:
		case unit <= 0xDBFF && i+5 < len(raw) && raw[i+5] == '\\' && isLow(escapedUnit(raw[i+6:])):
			i += 10 // up to the last digit of the second half
		default:
			return true
		}
	}
	return false
}

func isLow(unit int64) bool { return unit >= 0xDC00 && unit <= 0xDFFF }

// escapedUnit is the UTF-16 unit of "uXXXX", or -1 for anything else.
func escapedUnit(s []byte) int64 {
	if len(s) < 5 || s[0] != 'u' {
		return -1
	}
	unit, err := strconv.ParseInt(string(s[1:5]), 16, 32)
	if err != nil {
		return -1
	}
	return unit
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
