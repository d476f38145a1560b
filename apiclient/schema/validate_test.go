package schema_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"orgops/apiclient/schema"
)

// broken returns the rules that err names as "field: rule, got value"; nil for
// no error.
func broken(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*schema.ValidationError](err)
	if !ok {
		t.Fatalf("want a ValidationError, got %T: %v", err, err)
	}
	var all []string
	for _, f := range e.Fields {
		all = append(all, f.String())
	}
	return all
}

func TestIDRules(t *testing.T) {
	const rule = "want 1 to 128 letters, digits, _, | or -"
	for _, tc := range []struct{ name, id, want string }{
		{"one character", "a", ""},
		{"every sort", "Az09_|-", ""},
		{"128", strings.Repeat("a", 128), ""},
		{"129", strings.Repeat("a", 129), rule + `, got "` + strings.Repeat("a", 100) + `"…`},
		{"empty", "", rule + `, got ""`},
		{"a slash", "a/b", rule + `, got "a/b"`},
		{"dots", "..", rule + `, got ".."`},
		{"escaped", "a%2Fb", rule + `, got "a%2Fb"`},
		{"a question mark", "a?b", rule + `, got "a?b"`},
		{"a last newline", "a\n", rule + `, got "a\n"`},
		{"NUL", "a\x00", rule + `, got "a\x00"`},
		{"beyond ASCII", "ä", rule + `, got "ä"`},
		{"invisible", "a\u202eb", rule + `, got "a\u202eb"`},
		{"no UTF-8", "a\xff", rule + `, got "a\xff"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := tc.want
			if want != "" {
				want = "organization_id: " + want
			}
			got := strings.Join(broken(t, schema.CheckID("organization_id", tc.id)), "; ")
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestMistakenIDs(t *testing.T) {
	const swapped = " (are the two swapped?)"
	for _, tc := range []struct{ field, id, want string }{
		{
			"organization_id", "ord_NTC6ExXjNUM91N94wxGrPQ",
			"want an organization's identifier, not a discovery domain's" + swapped,
		},
		{
			"discovery_domain_id", "org_2iEQW5K6I4KggeE5",
			"want a discovery domain's identifier, not an organization's" + swapped,
		},
		{"discovery_domain_id", "example.com", "want an identifier, such as ord_NTC6ExXjNUM91N94wxGrPQ, not a name"},
		{"organization_id", "acme.example", "want an identifier, such as org_2iEQW5K6I4KggeE5, not a name"},
		{"clients[0]", "a.b", "want 1 to 128 letters, digits, _, | or -"},
		{"clients[0]", "org_a", ""},
	} {
		want := tc.want
		if want != "" {
			want = tc.field + ": " + want + `, got "` + tc.id + `"`
		}
		if got := strings.Join(broken(t, schema.CheckID(tc.field, tc.id)), "; "); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestValidationErrorIsBounded(t *testing.T) {
	e := &schema.ValidationError{}
	for range 1000 {
		e.Fields = append(e.Fields, schema.FieldError{Field: "f", Rule: "r", Value: "v"})
	}
	if got := e.Error(); len(got) > 2000 || !strings.HasSuffix(got, "; and 900 more") {
		t.Errorf("%d bytes, ending in %q", len(got), got[len(got)-20:])
	}
	if _, ok := errors.AsType[*schema.ValidationError](fmt.Errorf("wrapped: %w", e)); !ok {
		t.Error("not reached through a wrap")
	}
}

// TestUnknown has requests of a newer version, and invalid ones.
func TestUnknown(t *testing.T) {
	const good = `{"name":"n","type":"t","dialect":"simplified/1.0","presentation":{"org.iso.18013.5.1.mDL":{"org.iso.18013.5.1":{}}},"well_known_trusted_issuers":"aamva"}`
	for body, want := range map[string]bool{
		strings.Replace(good, `"type"`, `"colour":"red","type"`, 1):                true,
		strings.Replace(good, `{}`, `{"shoe_size":true}`, 1):                       true,
		strings.NewReplacer(`"t"`, `""`, `{}`, `{"shoe_size":true}`).Replace(good): false,
		strings.Replace(good, `"n"`, `""`, 1):                                      false,
		`[]`:                                                                       false,
	} {
		_, err := schema.DecodeTemplateRequest([]byte(body))
		invalid, ok := errors.AsType[*schema.ValidationError](err)
		if !ok || invalid.Unknown() != want {
			t.Errorf("%s: %v, unknown: want %t", body, err, want)
		}
	}
}
