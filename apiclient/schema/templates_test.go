package schema_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/apiclient/schema"
)

func goodTemplate() schema.TemplateRequest {
	return schema.TemplateRequest{Name: "n", Type: "mdl", Dialect: "simplified/1.0", WellKnownTrustedIssuers: "aamva"}
}

// rules lists the broken rules by field, without the values.
func rules(t *testing.T, err error) []string {
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
		all = append(all, f.Field+": "+f.Rule)
	}
	return all
}

func TestTemplateRules(t *testing.T) {
	type request = schema.TemplateRequest
	ascii := func(n int) string { return strings.Repeat("x", n) }
	wide := func(n int) string { return strings.Repeat("🪪", n) } // 4 bytes, 2 UTF-16 units, 1 code point
	const (
		nameLength    = "name: want 1 to 255 characters"
		typeLength    = "type: want 1 to 255 characters"
		dialectLength = "dialect: want at most 255 characters"
		dialectMatch  = "dialect: must match ^simplified/1.0$"
		issuersLength = "well_known_trusted_issuers: want 1 to 255 characters"
		issuersMatch  = "well_known_trusted_issuers: must match ^aamva$"
		customLength  = "custom_certificate_authority: want 1 to 4096 characters"
		claim         = `presentation["org.iso.18013.5.1.mDL"]["org.iso.18013.5.1"].`
	)
	for _, tc := range []struct {
		name string
		set  func(r *request)
		want []string
	}{
		{"the minimal one", func(*request) {}, nil},
		{"name of 1", func(r *request) { r.Name = "x" }, nil},
		{"name of 0", func(r *request) { r.Name = "" }, []string{nameLength}},
		{"name of 255", func(r *request) { r.Name = ascii(255) }, nil},
		{"name of 256", func(r *request) { r.Name = ascii(256) }, []string{nameLength}},
		{"name of 255 code points", func(r *request) { r.Name = wide(255) }, nil},
		{"name of 256 code points", func(r *request) { r.Name = wide(256) }, []string{nameLength}},
		{"name that is no UTF-8", func(r *request) { r.Name = "a\xff" }, []string{"name: want valid UTF-8"}},
		{"type of 0", func(r *request) { r.Type = "" }, []string{typeLength}},
		{"type of 1", func(r *request) { r.Type = "x" }, nil},
		{"type of 255 code points", func(r *request) { r.Type = wide(255) }, nil},
		{"type of 256 code points", func(r *request) { r.Type = wide(256) }, []string{typeLength}},
		{"no dialect", func(r *request) { r.Dialect = "" }, []string{dialectMatch}},
		{"dialect of a later version", func(r *request) { r.Dialect = "simplified/1.1" }, []string{dialectMatch}},
		{"dialect with something before", func(r *request) { r.Dialect = " simplified/1.0" }, []string{dialectMatch}},
		{"dialect with something behind", func(r *request) { r.Dialect = "simplified/1.0\n" }, []string{dialectMatch}},
		{"dialect as the pattern's dot has it", func(r *request) { r.Dialect = "simplified/1x0" }, nil},
		{"dialect of 255", func(r *request) { r.Dialect = ascii(255) }, []string{dialectMatch}},
		{"dialect of 256", func(r *request) { r.Dialect = ascii(256) }, []string{dialectLength, dialectMatch}},
		{"no issuers", func(r *request) { r.WellKnownTrustedIssuers = "" }, []string{issuersLength, issuersMatch}},
		{"two issuers", func(r *request) { r.WellKnownTrustedIssuers = "aamva,aamva" }, []string{issuersMatch}},
		{"issuers in capitals", func(r *request) { r.WellKnownTrustedIssuers = "AAMVA" }, []string{issuersMatch}},
		{"issuers of 255", func(r *request) { r.WellKnownTrustedIssuers = ascii(255) }, []string{issuersMatch}},
		{"issuers of 256", func(r *request) { r.WellKnownTrustedIssuers = ascii(256) },
			[]string{issuersLength, issuersMatch}},
		{"authority of 0", func(r *request) { r.CustomCertificateAuthority = new("") }, []string{customLength}},
		{"authority of 1", func(r *request) { r.CustomCertificateAuthority = new("x") }, nil},
		{"authority of 4096 code points", func(r *request) { r.CustomCertificateAuthority = new(wide(4096)) }, nil},
		{"authority of 4097 code points", func(r *request) { r.CustomCertificateAuthority = new(wide(4097)) },
			[]string{customLength}},
		{"no claims", func(r *request) { r.Presentation.Claims = map[string]bool{} }, nil},
		{"every claim", func(r *request) {
			r.Presentation.Claims = map[string]bool{}
			for i, name := range schema.Claims {
				r.Presentation.Claims[name] = i%2 == 0
			}
		}, nil},
		{"unknown claims", func(r *request) {
			r.Presentation.Claims = map[string]bool{"portrait": true, "Portrait": true, "shoe size": false}
		}, []string{
			claim + "Portrait: is not a claim that the specification knows",
			strings.TrimSuffix(claim, ".") + `["shoe size"]: is not a claim that the specification knows`,
		}},
		{"everything", func(r *request) { *r = request{CustomCertificateAuthority: new("")} },
			[]string{nameLength, typeLength, dialectMatch, issuersLength, issuersMatch, customLength}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := goodTemplate()
			tc.set(&r)
			if diff := cmp.Diff(tc.want, rules(t, r.Validate())); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestClaimsAreTheSpecifications(t *testing.T) {
	got := schema.Claims
	if len(got) != 21 || len(slices.Compact(slices.Sorted(slices.Values(got)))) != 21 {
		t.Errorf("want 21 different claims, got %d", len(got))
	}
	for _, want := range []string{"family_name", "age_in_years", "given_name_national_character"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is missing", want)
		}
	}
}

func TestPresentationJSON(t *testing.T) {
	wrap := func(inner string) string { return `{"org.iso.18013.5.1.mDL":{"org.iso.18013.5.1":` + inner + `}}` }
	for _, tc := range []struct {
		name string
		p    schema.Presentation
		want string
	}{
		{"nil", schema.Presentation{}, wrap(`{}`)},
		{"empty", schema.Presentation{Claims: map[string]bool{}}, wrap(`{}`)},
		{"two", schema.Presentation{Claims: map[string]bool{"portrait": true, "birth_date": false}},
			wrap(`{"birth_date":false,"portrait":true}`)},
	} {
		t.Run("write "+tc.name, func(t *testing.T) {
			got, err := json.Marshal(tc.p)
			if err != nil || string(got) != tc.want {
				t.Errorf("got %s, %v, want %s", got, err, tc.want)
			}
		})
	}
	for _, tc := range []struct {
		name, body string
		want       map[string]bool
		fails      bool
	}{
		{"empty", wrap(`{}`), map[string]bool{}, false},
		{"two", wrap(`{"portrait":true,"birth_date":false}`), map[string]bool{"portrait": true, "birth_date": false}, false},
		{"an unknown claim", wrap(`{"eye_colour":true}`), map[string]bool{"eye_colour": true}, false},
		{"an unknown claim of another type", wrap(`{"eye_colour":{"retain":true}}`), map[string]bool{}, false},
		{"a claim that is null", wrap(`{"portrait":null}`), map[string]bool{}, false},
		{"unknown members beside", `{"a":1,"org.iso.18013.5.1.mDL":{"b":2,"org.iso.18013.5.1":{}}}`,
			map[string]bool{}, false},
		{"another document", `{"org.iso.23220.photoid.1":{}}`, nil, false},
		{"null", `null`, nil, false},
		{"a claim of another type", wrap(`{"portrait":"yes"}`), nil, true},
		{"claims of another type", wrap(`[]`), nil, true},
		{"a document of another type", `{"org.iso.18013.5.1.mDL":5}`, nil, true},
		{"another type", `"all"`, nil, true},
	} {
		t.Run("read "+tc.name, func(t *testing.T) {
			var p schema.Presentation
			err := json.Unmarshal([]byte(tc.body), &p)
			if (err != nil) != tc.fails {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(tc.want, p.Claims); diff != "" && err == nil {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDifferences(t *testing.T) {
	same := func() (schema.TemplateRequest, schema.Template) {
		r := goodTemplate()
		r.Presentation.Claims = map[string]bool{"portrait": true, "birth_date": false}
		r.CustomCertificateAuthority = new("PEM")
		there := schema.Template{ID: "vct_1", TemplateRequest: r}
		there.CustomCertificateAuthority = new("PEM")
		there.Presentation.Claims = maps.Clone(r.Presentation.Claims)
		return r, there
	}
	for _, tc := range []struct {
		name string
		set  func(r *schema.TemplateRequest, t *schema.Template)
		want []string
	}{
		{"none", func(*schema.TemplateRequest, *schema.Template) {}, nil},
		{"false left out", func(_ *schema.TemplateRequest, t *schema.Template) {
			t.Presentation.Claims = map[string]bool{"portrait": true}
		}, nil},
		{"false added", func(_ *schema.TemplateRequest, t *schema.Template) {
			t.Presentation.Claims["nationality"] = false
		}, nil},
		{"claims", func(_ *schema.TemplateRequest, t *schema.Template) {
			t.Presentation.Claims = map[string]bool{"birth_date": true, "nationality": true}
		}, []string{"presentation.birth_date", "presentation.nationality", "presentation.portrait"}},
		{"a presentation of another sort", func(_ *schema.TemplateRequest, t *schema.Template) {
			t.Presentation.Claims = nil
		}, []string{"presentation"}},
		{"neither has claims", func(r *schema.TemplateRequest, t *schema.Template) {
			r.Presentation.Claims, t.Presentation.Claims = nil, nil
		}, nil},
		{"both empty", func(r *schema.TemplateRequest, t *schema.Template) {
			r.Presentation.Claims, t.Presentation.Claims = nil, map[string]bool{}
		}, nil},
		{"no authority here", func(r *schema.TemplateRequest, _ *schema.Template) {
			r.CustomCertificateAuthority = nil
		}, []string{"custom_certificate_authority"}},
		{"no authority there", func(_ *schema.TemplateRequest, t *schema.Template) {
			t.CustomCertificateAuthority = nil
		}, []string{"custom_certificate_authority"}},
		{"an empty authority there", func(r *schema.TemplateRequest, t *schema.Template) {
			r.CustomCertificateAuthority, t.CustomCertificateAuthority = nil, new("")
		}, nil},
		{"every string", func(_ *schema.TemplateRequest, t *schema.Template) {
			t.Name, t.Type, t.Dialect, t.WellKnownTrustedIssuers, t.CustomCertificateAuthority = "a", "b", "c", "d", new("e")
		}, []string{"name", "type", "dialect", "well_known_trusted_issuers", "custom_certificate_authority"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, template := same()
			tc.set(&r, &template)
			if diff := cmp.Diff(tc.want, r.Differences(template)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
