package sandbox

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"
)

// The limits of requests in sections 2, 4 and 8 of the specification.
const (
	maxClients = 100 // elements of a DELETE

	maxText        = 255 // characters of name, type, dialect and well_known_trusted_issuers
	maxCertificate = 4096

	documentType = "org.iso.18013.5.1.mDL" // 2.3: the one key of presentation
	namespace    = "org.iso.18013.5.1"     // 2.3: the one key below it
)

var (
	// dialectPattern is the specification's, with its unescaped dot.
	dialectPattern = regexp.MustCompile(`^simplified/1.0$`)
	issuersPattern = regexp.MustCompile(`^aamva$`)

	// The identifiers in a path. The specification names only a format; all observed
	// identifiers of the service have these prefixes. More characters are accepted after
	// them than were observed.
	organizationIDPattern = regexp.MustCompile(`^org_[A-Za-z0-9_|-]{1,124}$`)
	domainIDPattern       = regexp.MustCompile(`^ord_[A-Za-z0-9_|-]{1,124}$`)
	domainNamePattern     = regexp.MustCompile(`^[A-Za-z0-9._-]{3,255}$`)

	claimNames = []string{
		"family_name", "given_name", "birth_date", "issue_date", "expiry_date", "issuing_country",
		"issuing_authority", "portrait", "driving_privileges", "resident_address", "portrait_capture_date",
		"age_in_years", "age_birth_year", "issuing_jurisdiction", "nationality", "resident_city",
		"resident_state", "resident_postal_code", "resident_country", "family_name_national_character",
		"given_name_national_character",
	}
)

// checkDomainUpdate checks the body of 4.1, which may be empty.
func checkDomainUpdate(body any) (domainUpdate, error) {
	members, err := object(body, "", nil, []string{"status", "use_for_organization_discovery"})
	if err != nil {
		return domainUpdate{}, err
	}
	var u domainUpdate
	if v, ok := members["status"]; ok {
		status, err := text(v, "status")
		if err != nil {
			return domainUpdate{}, err
		}
		if status != statusPending && status != statusVerified {
			return domainUpdate{}, fmt.Errorf("'No enum match for: %s' on property status", capped(status))
		}
		u.status = status
	}
	if v, ok := members["use_for_organization_discovery"]; ok {
		use, err := truth(v, "use_for_organization_discovery")
		if err != nil {
			return domainUpdate{}, err
		}
		u.use = &use
	}
	return u, nil
}

// checkRemoval checks the body of 4.2, which may name a client twice.
func checkRemoval(body any, most int) ([]string, error) {
	members, err := object(body, "", []string{"clients"}, nil)
	if err != nil {
		return nil, err
	}
	elements, err := array(members["clients"], "clients")
	if err != nil {
		return nil, err
	}
	if len(elements) < 1 {
		return nil, fmt.Errorf("'Array is too short (%d), minimum 1' on property clients", len(elements))
	}
	if len(elements) > most {
		return nil, fmt.Errorf("'Array is too long (%d), maximum %d' on property clients", len(elements), most)
	}
	clients := make([]string, len(elements))
	for i, v := range elements {
		place := "clients[" + strconv.Itoa(i) + "]"
		if clients[i], err = text(v, place); err != nil {
			return nil, err
		}
		if clients[i] == "" {
			return nil, fmt.Errorf("'String is too short (0 chars), minimum 1' on property %s", place)
		}
	}
	return clients, nil
}

// checkTemplate checks the body of 4.3.
func checkTemplate(body any) (Template, error) {
	members, err := object(body, "",
		[]string{"name", "type", "dialect", "presentation", "well_known_trusted_issuers"},
		[]string{"custom_certificate_authority"})
	if err != nil {
		return Template{}, err
	}
	var t Template
	for _, m := range []struct {
		name      string
		into      *string
		min, most int
		pattern   *regexp.Regexp
	}{
		{"name", &t.Name, 1, maxText, nil},
		{"type", &t.Type, 1, maxText, nil},
		{"dialect", &t.Dialect, 0, maxText, dialectPattern},
		{"well_known_trusted_issuers", &t.WellKnownTrustedIssuers, 1, maxText, issuersPattern},
	} {
		if *m.into, err = boundedText(members[m.name], m.name, m.min, m.most, m.pattern); err != nil {
			return Template{}, err
		}
	}
	if v, ok := members["custom_certificate_authority"]; ok {
		ca, err := boundedText(v, "custom_certificate_authority", 1, maxCertificate, nil)
		if err != nil {
			return Template{}, err
		}
		t.CustomCertificateAuthority = &ca
	}
	t.Claims, err = checkPresentation(members["presentation"])
	return t, err
}

// checkPresentation checks 2.3: two objects of one key each, and in them an object of
// claims, which may be empty.
func checkPresentation(v any) (map[string]bool, error) {
	place := "presentation"
	for _, key := range []string{documentType, namespace} {
		members, err := object(v, place, []string{key}, nil)
		if err != nil {
			return nil, err
		}
		v = members[key]
		place += "." + key
	}
	members, err := object(v, place, nil, claimNames)
	if err != nil {
		return nil, err
	}
	claims := make(map[string]bool, len(members))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if claims[name], err = truth(members[name], place+"."+name); err != nil {
			return nil, err
		}
	}
	return claims, nil
}

// object checks that a value is an object with all required members and no others than
// these and the optional ones. An empty form text is the empty object, which a form cannot
// express otherwise.
func object(v any, place string, required, optional []string) (map[string]any, error) {
	members, ok := v.(map[string]any)
	if v == formText("") {
		members = map[string]any{}
		ok = true
	}
	if !ok {
		return nil, wrongType("object", v, place)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(required, name) && !slices.Contains(optional, name) {
			return nil, fmt.Errorf("'Additional properties not allowed: %s'%s", capped(name), on(place))
		}
	}
	for _, name := range required {
		if _, ok := members[name]; !ok {
			return nil, fmt.Errorf("'Missing required property: %s'%s", name, on(place))
		}
	}
	return members, nil
}

// array checks that a value is an array. In a form that is a name with [], or given once or
// several times, or with the numbers from 0 in brackets.
func array(v any, place string) ([]any, error) {
	switch v := v.(type) {
	case []any:
		return v, nil
	case formText:
		return []any{v}, nil
	case formList:
		elements := make([]any, len(v))
		for i, e := range v {
			elements[i] = e
		}
		return elements, nil
	case map[string]any:
		if elements, ok := numbered(v); ok {
			return elements, nil
		}
	}
	return nil, wrongType("array", v, place)
}

// numbered reads an object of form texts called 0, 1, 2 and so on. A JSON object, whose
// leaves are no form texts, is never an array.
func numbered(members map[string]any) ([]any, bool) {
	elements := make([]any, len(members))
	for i := range elements {
		element, ok := members[strconv.Itoa(i)].(formText)
		if !ok {
			return nil, false
		}
		elements[i] = element
	}
	return elements, len(elements) > 0
}

func boundedText(v any, place string, least, most int, pattern *regexp.Regexp) (string, error) {
	s, err := text(v, place)
	if err != nil {
		return "", err
	}
	switch n := utf8.RuneCountInString(s); {
	case n < least:
		return "", fmt.Errorf("'String is too short (%d chars), minimum %d'%s", n, least, on(place))
	case n > most:
		return "", fmt.Errorf("'String is too long (%d chars), maximum %d'%s", n, most, on(place))
	case pattern != nil && !pattern.MatchString(s):
		return "", fmt.Errorf("'String does not match pattern %s: %s'%s", pattern, capped(s), on(place))
	}
	return s, nil
}

func text(v any, place string) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case formText:
		return string(v), nil
	}
	return "", wrongType("string", v, place)
}

func truth(v any, place string) (bool, error) {
	switch v {
	case true, formText("true"):
		return true, nil
	case false, formText("false"):
		return false, nil
	}
	return false, wrongType("boolean", v, place)
}

func wrongType(want string, v any, place string) error {
	got := "number"
	switch v.(type) {
	case nil:
		got = "null"
	case string, formText:
		got = "string"
	case bool:
		got = "boolean"
	case []any, formList:
		got = "array"
	case map[string]any:
		got = "object"
	}
	return fmt.Errorf("'Expected type %s but found type %s'%s", want, got, on(place))
}

func on(place string) string {
	if place == "" {
		return ""
	}
	return " on property " + place
}

// domainUpdate is the body of a valid update (specification 4.1).
type domainUpdate struct {
	status string // empty: omitted
	use    *bool
}
