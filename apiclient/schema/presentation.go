package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// The two keys above a presentation's claims (specification 2.3, named after ISO/IEC
// 18013-5).
const (
	documentKey  = "org.iso.18013.5.1.mDL"
	namespaceKey = "org.iso.18013.5.1"
)

// The paths of a presentation's members, as errors name them.
const (
	fieldPresentation = "presentation"
	documentField     = fieldPresentation + `["` + documentKey + `"]`
	claimsField       = documentField + `["` + namespaceKey + `"]`
)

// The 21 claims of specification 2.3, in its order.
var claims = []string{
	"family_name", "given_name", "birth_date", "issue_date", "expiry_date",
	"issuing_country", "issuing_authority", "portrait", "driving_privileges",
	"resident_address", "portrait_capture_date", "age_in_years",
	"age_birth_year", "issuing_jurisdiction", "nationality", "resident_city",
	"resident_state", "resident_postal_code", "resident_country",
	"family_name_national_character", "given_name_national_character",
}

func isClaim(name string) bool { return slices.Contains(claims, name) }

// Presentation is the simplified presentation request (specification 2.3): the claims that
// a verifier requests. In JSON they are below two nested keys.
type Presentation struct {
	// Claims by name: true requests the claim, false is equivalent to omitting it. An empty
	// map is legal.
	Claims map[string]bool
}

// MarshalJSON writes the claims below their two keys; without any, an empty object.
func (p Presentation) MarshalJSON() ([]byte, error) {
	inner := p.Claims
	if inner == nil {
		inner = map[string]bool{}
	}
	return json.Marshal(map[string]map[string]map[string]bool{documentKey: {namespaceKey: inner}})
}

// UnmarshalJSON reads a presentation of the API. It ignores unknown members, except
// boolean claims. Claims is nil if the two keys are missing: it is a presentation
// of another kind. (A request is read strictly, by [DecodeTemplateRequest].)
func (p *Presentation) UnmarshalJSON(data []byte) error {
	var read struct {
		Document struct {
			Claims map[string]json.RawMessage `json:"org.iso.18013.5.1"`
		} `json:"org.iso.18013.5.1.mDL"`
	}
	if err := json.Unmarshal(data, &read); err != nil {
		return fmt.Errorf("presentation: %w", err)
	}
	p.Claims = nil
	if read.Document.Claims == nil {
		return nil
	}
	p.Claims = make(map[string]bool, len(read.Document.Claims))
	for name, raw := range read.Document.Claims {
		var requested *bool
		err := json.Unmarshal(raw, &requested)
		if err != nil && isClaim(name) {
			return fmt.Errorf("presentation: claim %s: %w", name, err)
		}
		if err == nil && requested != nil {
			p.Claims[name] = *requested
		}
	}
	return nil
}

func (p Presentation) check(broken []FieldError) []FieldError {
	for _, name := range slices.Sorted(maps.Keys(p.Claims)) {
		if !isClaim(name) {
			broken = append(broken, FieldError{
				Field: memberPath(claimsField, name),
				Rule:  unknownClaim,
				Value: fmt.Sprint(p.Claims[name]),
			})
		}
	}
	return broken
}

// differences returns the claims that only one of the two requests.
func (p Presentation) differences(other Presentation) []string {
	all := map[string]bool{}
	maps.Copy(all, p.Claims)
	maps.Copy(all, other.Claims)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)),
		func(name string) bool { return p.Claims[name] == other.Claims[name] })
}
