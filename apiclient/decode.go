package apiclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"orgops/internal/foreign"
)

// requestField names the request as a whole in errors.
const requestField = "template"

// DecodeTemplateRequest reads the body of 4.3 strictly. The *ValidationError has every
// unknown member at any depth, wrong type, missing member and broken rule of
// [TemplateRequest.Validate], each with its full path. Of JSON that is malformed, has a
// member twice or is not valid Unicode, it has the first fault only.
func DecodeTemplateRequest(data []byte) (TemplateRequest, error) {
	var d requestDecoder
	r := d.decode(data)
	if err := invalid(d.broken); err != nil {
		return TemplateRequest{}, err
	}
	return r, nil
}

// requestDecoder collects the faults of a request.
type requestDecoder struct {
	broken []FieldError
}

func (d *requestDecoder) decode(data []byte) (r TemplateRequest) {
	if err := checkJSON(data); err != nil {
		d.fault(requestField, "want JSON: "+foreign.Plain(strings.TrimPrefix(err.Error(), "jsontext: "), maxMessage), rawValue(data))
		return r
	}
	members := d.object(requestField, "", data, []string{fieldName, fieldType, fieldDialect, fieldPresentation, fieldIssuers}, fieldCustom)
	r.Name = d.text(members, fieldName, nameRule)
	r.Type = d.text(members, fieldType, typeRule)
	r.Dialect = d.text(members, fieldDialect, dialectRule)
	r.Presentation.Claims = d.claims(members[fieldPresentation])
	r.WellKnownTrustedIssuers = d.text(members, fieldIssuers, issuersRule)
	if members[fieldCustom] != nil {
		r.CustomCertificateAuthority = new(d.text(members, fieldCustom, customRule))
	}
	return r
}

// checkJSON checks that data is one JSON value of valid UTF-8, without duplicate members
// or half surrogate pairs, all of which encoding/json would replace or merge silently.
func checkJSON(data []byte) error {
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	_, err := dec.ReadValue()
	if errors.Is(err, io.EOF) {
		return errors.New("it is empty")
	}
	if err != nil {
		return err
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after its value")
	}
	return nil
}

func (d *requestDecoder) claims(presentation json.RawMessage) map[string]bool {
	documents := d.object(fieldPresentation, fieldPresentation, presentation, []string{documentKey})
	namespaces := d.object(documentField, documentField, documents[documentKey], []string{namespaceKey})
	claims := map[string]bool{}
	members := d.members(claimsField, namespaces[namespaceKey])
	for _, name := range slices.Sorted(maps.Keys(members)) {
		switch field, value := memberPath(claimsField, name), string(members[name]); {
		case !isClaim(name):
			d.fault(field, unknownClaim, rawValue(members[name]))
		case value != "true" && value != "false":
			d.fault(field, wantBool, rawValue(members[name]))
		default:
			claims[name] = value == "true"
		}
	}
	return claims
}

// object returns the members of the object raw, of which the required ones must be there
// and others than these and the optional ones must not. field names the object in an
// error, and parent begins the paths of its members.
func (d *requestDecoder) object(field, parent string, raw json.RawMessage, required []string, optional ...string) map[string]json.RawMessage {
	members := d.members(field, raw)
	if members == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(required, name) && !slices.Contains(optional, name) {
			d.fault(memberPath(parent, name), isUnknown, rawValue(members[name]))
		}
	}
	for _, name := range required {
		if members[name] == nil {
			d.fault(memberPath(parent, name), isRequired, "")
		}
	}
	return members
}

// members returns the members of the object raw; nil: it is missing or no object.
func (d *requestDecoder) members(field string, raw json.RawMessage) (members map[string]json.RawMessage) {
	if raw == nil {
		return nil
	}
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		d.fault(field, wantObject, rawValue(raw))
	}
	return members
}

func (d *requestDecoder) text(members map[string]json.RawMessage, field string, rule textRule) string {
	raw := members[field]
	if raw == nil {
		return ""
	}
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil || s == nil {
		d.fault(field, wantText, rawValue(raw))
		return ""
	}
	d.broken = rule.check(d.broken, field, *s)
	return *s
}

func (d *requestDecoder) fault(field, rule, value string) {
	d.broken = append(d.broken, FieldError{Field: field, Rule: rule, Value: value})
}
