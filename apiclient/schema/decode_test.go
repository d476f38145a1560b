package schema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/apiclient/schema"
)

const goodRequest = `{"name":"n","type":"mdl","dialect":"simplified/1.0",` +
	`"presentation":{"org.iso.18013.5.1.mDL":{"org.iso.18013.5.1":{"portrait":true,"birth_date":false}}},` +
	`"well_known_trusted_issuers":"aamva","custom_certificate_authority":"-----BEGIN\n\u00e4 \ud83e\udeaa"}`

func TestDecodeTemplateRequest(t *testing.T) {
	want := goodTemplate()
	want.Presentation.Claims = map[string]bool{"portrait": true, "birth_date": false}
	want.CustomCertificateAuthority = new("-----BEGIN\nä 🪪")
	got, err := schema.DecodeTemplateRequest([]byte(" " + goodRequest + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	encoded, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	back, err := schema.DecodeTemplateRequest(encoded)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, back); diff != "" {
		t.Errorf("through JSON (-want +got):\n%s", diff)
	}
}

// TestDecodeReportsWhatIsBroken: a fault of form is reported alone, broken rules of content all.
func TestDecodeReportsWhatIsBroken(t *testing.T) {
	const (
		document = `presentation["org.iso.18013.5.1.mDL"]`
		claims   = document + `["org.iso.18013.5.1"]`
		unknown  = ": is not a member that the specification knows"
	)
	with := func(old, other string) string {
		if !strings.Contains(goodRequest, old) {
			t.Fatalf("no %s in the request", old)
		}
		return strings.Replace(goodRequest, old, other, 1)
	}
	for _, tc := range []struct {
		name, body string
		want       []string
	}{
		{"nothing", "", []string{"template: want JSON: unexpected EOF"}},
		{
			"no JSON", "name=n", []string{
				"template: want JSON: invalid character 'a' in literal null (expecting 'u') after offset 1, got name=n",
			},
		},
		{
			"two values", `{} {}`, []string{
				"template: want JSON: invalid character '{' after top-level value after offset 3, got {} {}",
			},
		},
		{
			"cut", goodRequest[:20], []string{
				`template: want JSON: unexpected EOF within "/type" after offset 20, got {"name":"n","type":"`,
			},
		},
		{
			"a byte order mark", "\ufeff{}",
			[]string{"template: want JSON: invalid character '\\ufeff' at start of value, got \\ufeff{}"},
		},
		{
			"no UTF-8", "{\"name\":\"\xff\"}",
			[]string{`template: want JSON: invalid UTF-8 within "/name" after offset 9, got {"name":"\xff"}`},
		},
		{"an array", `[]`, []string{"template: want an object"}},
		{"null", `null`, []string{"template: must not be null"}},
		{"empty", `{}`, []string{
			`name: want 1 to 255 characters, got 0: ""`, `type: want 1 to 255 characters, got 0: ""`,
			`dialect: must match ^simplified/1.0$, got ""`,
			`well_known_trusted_issuers: want 1 to 255 characters, got 0: ""`,
			`well_known_trusted_issuers: must match ^aamva$, got ""`, claims + ": is required",
		}},
		{"a number for text", with(`"n"`, "1"), []string{"name: want a string"}},
		{"a boolean for text", with(`"mdl"`, "true"), []string{"type: want a string"}},
		{"an array for text", with(`"aamva"`, `["aamva"]`), []string{"well_known_trusted_issuers: want a string"}},
		{"null for text", with(`"simplified/1.0"`, "null"), []string{"dialect: must not be null"}},
		{"null for optional text", with(`"-----BEGIN\n\u00e4 \ud83e\udeaa"`, "null"),
			[]string{"custom_certificate_authority: must not be null"}},
		{"null for an object", with(`{"org.iso.18013.5.1":{"portrait":true,"birth_date":false}}`, "null"),
			[]string{document + ": must not be null"}},
		{"unknown at the top", with(`{"name"`, `{"Name":"x","created_at":"now","name"`), []string{"Name" + unknown}},
		{"unknown in the presentation", with(`{"org.iso.18013.5.1.mDL":`, `{"other":{"deep":1},"org.iso.18013.5.1.mDL":`),
			[]string{"presentation.other" + unknown}},
		{"unknown in the document", with(`{"org.iso.18013.5.1":`, `{"org.iso.18013.5.1.aamva":{},"org.iso.18013.5.1":`),
			[]string{document + `["org.iso.18013.5.1.aamva"]` + unknown}},
		{"unknown claims", with(`"portrait"`, `"Portrait":true,"x":false,"portrait"`), []string{
			claims + ".Portrait: is not a claim that the specification knows, got true",
			claims + ".x: is not a claim that the specification knows, got false",
		}},
		{"text for a claim", with(`"portrait":true`, `"portrait":"true"`),
			[]string{claims + ".portrait: want true or false"}},
		{"a number for a claim", with(`"portrait":true`, `"portrait":1`), []string{claims + ".portrait: want true or false"}},
		{"null for a claim", with(`"portrait":true`, `"portrait":null`), []string{claims + ".portrait: must not be null"}},
		{"no document", with(`"org.iso.18013.5.1.mDL":{"org.iso.18013.5.1":{"portrait":true,"birth_date":false}}`, ""),
			[]string{claims + ": is required"}},
		{"no namespace", with(`"org.iso.18013.5.1":{"portrait":true,"birth_date":false}`, ""),
			[]string{claims + ": is required"}},
		{"document of another type", with(`{"org.iso.18013.5.1":{"portrait":true,"birth_date":false}}`, "[]"),
			[]string{document + ": want an object"}},
		{"claims of another type", with(`{"portrait":true,"birth_date":false}`, "true"),
			[]string{claims + ": want an object"}},
		{"an escaped backslash is none", with(`"name":"n"`, `"name":"\\ud83e"`), nil},
		{"the replacement character itself is legal", with(`"name":"n"`, `"name":"\ufffd`+"\ufffd"+`"`), nil},
		{"rules of content", `{"name":"","type":"` + strings.Repeat("x", 256) +
			`","dialect":"full/2","presentation":{"org.iso.18013.5.1.mDL":{"org.iso.18013.5.1":{}}},"well_known_trusted_issuers":"other","custom_certificate_authority":""}`, []string{
			`name: want 1 to 255 characters, got 0: ""`,
			`type: want 1 to 255 characters, got 256: "` + strings.Repeat("x", 100) + `"…`,
			`dialect: must match ^simplified/1.0$, got "full/2"`,
			`well_known_trusted_issuers: must match ^aamva$, got "other"`,
			`custom_certificate_authority: want 1 to 4096 characters, got 0: ""`,
		}},
		{
			"what strangers wrote is cut and quoted",
			with(`{"name"`, `{"`+strings.Repeat("k", 200)+`":"\u202e`+"\u202e"+`","name"`),
			[]string{`["` + strings.Repeat("k", 128) + `"…]` + unknown},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := schema.DecodeTemplateRequest([]byte(tc.body))
			if diff := cmp.Diff(tc.want, broken(t, err)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestDecodeRefusesAmbiguousJSON checks that JSON which encoding/json would change silently is
// refused, with the position of its first fault.
func TestDecodeRefusesAmbiguousJSON(t *testing.T) {
	for _, tc := range []struct{ name, old, other, want string }{
		{"member twice", `{"name":"n"`, `{"name":"n","name":"m"`, `duplicate object member name "name"`},
		{"member twice, escaped", `{"name":"n"`, `{"name":"n","n\u0061me":"m"`, `duplicate object member name "name"`},
		{"claim twice", `{"portrait":true`, `{"portrait":true,"portrait":false`,
			`duplicate object member name "portrait" within "/presentation/org.iso.18013.5.1.mDL/org.iso.18013.5.1"`},
		{"half a surrogate pair", `"name":"n"`, `"name":"\ud83e"`, "invalid surrogate pair"},
		{"the other half", `"name":"n"`, `"name":"\\\udeaa"`, "invalid surrogate pair"},
		{"halves in the wrong order", `"name":"n"`, `"name":"\udeaa\ud83e"`, `within "/name"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := schema.DecodeTemplateRequest([]byte(strings.Replace(goodRequest, tc.old, tc.other, 1)))
			if got := broken(t, err); len(got) != 1 || !strings.HasPrefix(got[0], "template: want JSON: ") ||
				!strings.Contains(got[0], tc.want) {
				t.Errorf("got %q, want one fault: %s", got, tc.want)
			}
		})
	}
}

func TestDecodeDoesNotRecurse(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 1_000_000) + "1" + strings.Repeat("}", 1_000_000)
	if _, err := schema.DecodeTemplateRequest([]byte(deep)); err == nil {
		t.Error("accepted")
	}
}

func FuzzDecodeTemplateRequest(f *testing.F) {
	for _, seed := range []string{
		goodRequest, "", "{}", "null", "[]", `{"name":"\ud83e"}`, `{"name":"a","name":"b"}`,
		`{"presentation":{"org.iso.18013.5.1.mDL":{"org.iso.18013.5.1":{"portrait":1}}}}`,
		strings.Replace(goodRequest, `"n"`, `"\\\ud83e\udeaa\ud83e"`, 1),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := schema.DecodeTemplateRequest(data)
		if err != nil {
			if len(broken(t, err)) == 0 {
				t.Fatal("an error without a broken rule")
			}
			return
		}
		if err := r.Validate(); err != nil {
			t.Fatalf("accepted, and yet invalid: %v", err)
		}
		encoded, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		again, err := schema.DecodeTemplateRequest(encoded)
		if err != nil {
			t.Fatalf("what we write is refused: %v: %s", err, encoded)
		}
		if diff := cmp.Diff(r, again); diff != "" {
			t.Fatalf("changed on the way (-first +second):\n%s", diff)
		}
	})
}
