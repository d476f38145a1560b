package apiclient_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/apiclient"
)

const goodRequest = `{"name":"n","type":"mdl","dialect":"simplified/1.0",` +
	`"presentation":{"org.iso.18013.5.1.mDL":{"org.iso.18013.5.1":{"portrait":true,"birth_date":false}}},` +
	`"well_known_trusted_issuers":"aamva","custom_certificate_authority":"-----BEGIN\n\u00e4 \ud83e\udeaa"}`

func TestDecodeTemplateRequest(t *testing.T) {
	want := goodTemplate()
	want.Presentation.Claims = map[string]bool{"portrait": true, "birth_date": false}
	want.CustomCertificateAuthority = new("-----BEGIN\nä 🪪")
	got, err := apiclient.DecodeTemplateRequest([]byte(" " + goodRequest + "\n"))
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
	back, err := apiclient.DecodeTemplateRequest(encoded)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, back); diff != "" {
		t.Errorf("through JSON (-want +got):\n%s", diff)
	}
}

func TestDecodeReportsEveryBrokenRule(t *testing.T) {
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
		{"nothing", "", []string{"template: want JSON: it is empty"}},
		{"no JSON", "name=n", []string{"template: want JSON: invalid character 'a' in literal null (expecting 'u') after offset 1, got name=n"}},
		{"two values", `{} {}`, []string{"template: want JSON: there is more after its value, got {} {}"}},
		{"cut", goodRequest[:20], []string{`template: want JSON: unexpected EOF within "/type" after offset 20, got {"name":"n","type":"`}},
		{"a byte order mark", "\ufeff{}", []string{"template: want JSON: invalid character '\\ufeff' at start of value, got \\ufeff{}"}},
		{"no UTF-8", "{\"name\":\"\xff\"}", []string{`template: want JSON: invalid UTF-8 within "/name" after offset 9, got {"name":"\xff"}`}},
		{"an array", `[]`, []string{"template: want an object, got []"}},
		{"null", `null`, []string{"template: want an object, got null"}},
		{"empty", `{}`, []string{
			"name: is required", "type: is required", "dialect: is required", "presentation: is required", "well_known_trusted_issuers: is required",
		}},
		{"wrong types", `{"name":1,"type":true,"dialect":null,"presentation":"p","well_known_trusted_issuers":["aamva"],"custom_certificate_authority":null}`, []string{
			"name: want a string, got 1", "type: want a string, got true", "dialect: want a string, got null",
			`presentation: want an object, got "p"`, `well_known_trusted_issuers: want a string, got ["aamva"]`,
			"custom_certificate_authority: want a string, got null",
		}},
		{"unknown at the top", with(`{"name"`, `{"Name":"x","created_at":"now","a b":1,"name"`), []string{
			`Name` + unknown + `, got "x"`, `["a b"]` + unknown + `, got 1`, `created_at` + unknown + `, got "now"`,
		}},
		{"unknown in the presentation", with(`{"org.iso.18013.5.1.mDL":`, `{"other":{"deep":1},"org.iso.18013.5.1.mDL":`),
			[]string{`presentation.other` + unknown + `, got {"deep":1}`}},
		{"unknown in the document", with(`{"org.iso.18013.5.1":`, `{"org.iso.18013.5.1.aamva":{},"org.iso.18013.5.1":`),
			[]string{document + `["org.iso.18013.5.1.aamva"]` + unknown + `, got {}`}},
		{"unknown claim", with(`"portrait"`, `"Portrait":true,"portrait"`), []string{claims + ".Portrait: is not a claim that the specification knows, got true"}},
		{"claims that are no booleans", with(`{"portrait":true,"birth_date":false}`, `{"portrait":"true","birth_date":1,"nationality":null}`), []string{
			claims + ".birth_date: want true or false, got 1", claims + ".nationality: want true or false, got null", claims + `.portrait: want true or false, got "true"`,
		}},
		{"no document", with(`"org.iso.18013.5.1.mDL":{"org.iso.18013.5.1":{"portrait":true,"birth_date":false}}`, ""), []string{document + ": is required"}},
		{"no namespace", with(`"org.iso.18013.5.1":{"portrait":true,"birth_date":false}`, ""), []string{claims + ": is required"}},
		{"document of another type", with(`{"org.iso.18013.5.1":{"portrait":true,"birth_date":false}}`, "[]"), []string{document + ": want an object, got []"}},
		{"claims of another type", with(`{"portrait":true,"birth_date":false}`, "true"), []string{claims + ": want an object, got true"}},
		{"an escaped backslash is none", with(`"name":"n"`, `"name":"\\ud83e"`), nil},
		{"the replacement character itself is legal", with(`"name":"n"`, `"name":"\ufffd`+"\ufffd"+`"`), nil},
		{"rules of content", `{"name":"","type":"` + strings.Repeat("x", 256) + `","dialect":"full/2","presentation":{"org.iso.18013.5.1.mDL":{"org.iso.18013.5.1":{}}},"well_known_trusted_issuers":"other","custom_certificate_authority":""}`, []string{
			`name: want 1 to 255 characters, got 0: ""`,
			`type: want 1 to 255 characters, got 256: "` + strings.Repeat("x", 100) + `"…`,
			`dialect: must match ^simplified/1.0$, got "full/2"`,
			`well_known_trusted_issuers: must match ^aamva$, got "other"`,
			`custom_certificate_authority: want 1 to 4096 characters, got 0: ""`,
		}},
		{"of every sort", `{"name":"","x":1,"presentation":{"y":{},"org.iso.18013.5.1.mDL":{"z":0,"org.iso.18013.5.1":{"portrait":1,"w":true}}}}`, []string{
			"x" + unknown + ", got 1",
			"type: is required", "dialect: is required", "well_known_trusted_issuers: is required",
			`name: want 1 to 255 characters, got 0: ""`,
			"presentation.y" + unknown + ", got {}",
			document + ".z" + unknown + ", got 0",
			claims + ".portrait: want true or false, got 1",
			claims + ".w: is not a claim that the specification knows, got true",
		}},
		{"what strangers wrote is cut and quoted", with(`{"name"`, `{"`+strings.Repeat("k", 200)+`":"\u202e`+"\u202e"+`","name"`), []string{
			`["` + strings.Repeat("k", 128) + `"…]` + unknown + `, got "\u202e\u202e"`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := apiclient.DecodeTemplateRequest([]byte(tc.body))
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
		{"unknown member twice", `{"name":"n"`, `{"name":"n","x":1,"x":2`, `duplicate object member name "x"`},
		{"claim twice", `{"portrait":true`, `{"portrait":true,"portrait":false`, `duplicate object member name "portrait" within "/presentation/org.iso.18013.5.1.mDL/org.iso.18013.5.1"`},
		{"half a surrogate pair", `"name":"n"`, `"name":"\ud83e"`, "invalid surrogate pair"},
		{"the other half", `"name":"n"`, `"name":"\\\udeaa"`, "invalid surrogate pair"},
		{"halves in the wrong order", `"name":"n"`, `"name":"\udeaa\ud83e"`, `within "/name"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := apiclient.DecodeTemplateRequest([]byte(strings.Replace(goodRequest, tc.old, tc.other, 1)))
			if got := broken(t, err); len(got) != 1 || !strings.HasPrefix(got[0], "template: want JSON: ") || !strings.Contains(got[0], tc.want) {
				t.Errorf("got %q, want one fault: %s", got, tc.want)
			}
		})
	}
}

func TestDecodeDoesNotRecurse(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 1_000_000) + "1" + strings.Repeat("}", 1_000_000)
	if _, err := apiclient.DecodeTemplateRequest([]byte(deep)); err == nil {
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
		r, err := apiclient.DecodeTemplateRequest(data)
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
		again, err := apiclient.DecodeTemplateRequest(encoded)
		if err != nil {
			t.Fatalf("what we write is refused: %v: %s", err, encoded)
		}
		if diff := cmp.Diff(r, again); diff != "" {
			t.Fatalf("changed on the way (-first +second):\n%s", diff)
		}
	})
}
