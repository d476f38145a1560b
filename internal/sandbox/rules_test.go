package sandbox_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"orgops/internal/sandbox"
)

// bodies is a table of bodies for one operation: each is accepted, or refused with 400 and an
// error that contains want.
type bodies []struct {
	name, contentType, body, want string
}

func (b bodies) run(t *testing.T, s *sandbox.Sandbox, method, path string, good int) {
	t.Helper()
	for _, tt := range b {
		t.Run(tt.name, func(t *testing.T) {
			contentType := tt.contentType
			if contentType == "" {
				contentType = asJSON
			}
			got := do(t, s, ask{method: method, path: path, contentType: contentType, body: tt.body})
			if tt.want == "" {
				if got.status != good {
					t.Errorf("status %d, want %d: %s", got.status, good, got.raw)
				}
				return
			}
			wantError(t, got, http.StatusBadRequest, "invalid_body", tt.want)
			if m, _ := got.json["message"].(string); !strings.HasPrefix(m, "Payload validation error: ") {
				t.Errorf("message %q", m)
			}
		})
	}
}

func TestUpdateRules(t *testing.T) {
	s := start(t, sandbox.Options{})
	d := s.AddDomain("org_a", sandbox.Domain{})
	bodies{
		{"empty object", "", `{}`, ""},
		{"pending", "", `{"status":"pending"}`, ""},
		{"verified", "", `{"status":"verified"}`, ""},
		{"other status", "", `{"status":"failed"}`, "No enum match for: failed"},
		{"other case", "", `{"status":"Verified"}`, "No enum match for: Verified"},
		{"empty status", "", `{"status":""}`, "No enum match"},
		{"null status", "", `{"status":null}`, "Expected type string but found type null"},
		{"number status", "", `{"status":1}`, "Expected type string but found type number"},
		{"list status", "", `{"status":["verified"]}`, "Expected type string but found type array"},
		{"true", "", `{"use_for_organization_discovery":true}`, ""},
		{"false", "", `{"use_for_organization_discovery":false}`, ""},
		{"word for truth", "", `{"use_for_organization_discovery":"true"}`, "Expected type boolean but found type string"},
		{"number for truth", "", `{"use_for_organization_discovery":1}`, "Expected type boolean but found type number"},
		{"null for truth", "", `{"use_for_organization_discovery":null}`, "found type null"},
		{"another member", "", `{"status":"verified","domain":"a.example"}`, "Additional properties not allowed: domain"},
		{"another member alone", "", `{"id":"x"}`, "Additional properties not allowed: id"},
		{"member twice", "", `{"status":"pending","status":"verified"}`, "given twice: status"},
		{"array", "", `[]`, "Expected type object but found type array"},
		{"null", "", `null`, "Expected type object but found type null"},
		{"string", "", `"verified"`, "Expected type object but found type string"},
		{"empty text", "", `""`, "Expected type object but found type string"},
		{"nothing", "", ``, "not valid JSON"},
		{"broken", "", `{"status":"verified"`, "not valid JSON"},
		{"two values", "", `{} {}`, "goes on"},
		{"junk behind", "", `{}x`, "goes on"},
		{"not UTF-8", "", "{\"status\":\"\xff\"}", "not UTF-8"},
		{"deep", "", strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), "not valid JSON"},

		{"empty form", asForm, ``, ""},
		{"form", asForm, `status=verified&use_for_organization_discovery=true`, ""},
		{"form, other status", asForm, `status=no`, "No enum match for: no"},
		{"form, status twice", asForm, `status=verified&status=pending`, "Expected type string but found type array"},
		{"form, status listed", asForm, `status[]=verified`, "Expected type string but found type array"},
		{"form, status with parts", asForm, `status[a]=verified`, "Expected type string but found type object"},
		{"form, truth in another case", asForm, `use_for_organization_discovery=True`, "Expected type boolean"},
		{"form, truth as number", asForm, `use_for_organization_discovery=1`, "Expected type boolean"},
		{"form, truth empty", asForm, `use_for_organization_discovery=`, "Expected type boolean"},
		{"form, another member", asForm, `state=verified`, "Additional properties not allowed: state"},
		{"form, bad escape", asForm, `status=%zz`, "percent escape"},
		{"JSON said to be a form", asForm, `{"status":"verified"}`, "Additional properties not allowed"},
		{"form said to be JSON", "", `status=verified`, "not valid JSON"},
	}.run(t, s, "PATCH", domainPath("org_a", d.ID), http.StatusOK)
}

func clientsBody(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("client%d", i)
	}
	b, _ := json.Marshal(map[string]any{"clients": list})
	return string(b)
}

func TestRemovalRules(t *testing.T) {
	bodies{
		{"1", "", clientsBody(1), ""},
		{"100", "", clientsBody(100), ""},
		{"101", "", clientsBody(101), "too long (101), maximum 100"},
		{"0", "", `{"clients":[]}`, "too short (0), minimum 1"},
		{"missing", "", `{}`, "Missing required property: clients"},
		{"null", "", `{"clients":null}`, "Expected type array but found type null"},
		{"a text", "", `{"clients":"a"}`, "Expected type array but found type string"},
		{"an object", "", `{"clients":{"0":"a"}}`, "Expected type array but found type object"},
		{"empty client", "", `{"clients":["a",""]}`, "on property clients[1]"},
		{"number", "", `{"clients":["a",5]}`, "on property clients[1]"},
		{"objects", "", `{"clients":[{"client_id":"a"}]}`, "Expected type string but found type object"},
		{"another member", "", `{"clients":["a"],"dry_run":true}`, "Additional properties not allowed: dry_run"},

		{"form", asForm, "clients[]=a", ""},
		{"form, one", asForm, "clients=a", ""},
		{"form, 100", asForm, strings.Repeat("clients[]=a&", 100), ""},
		{"form, 101", asForm, strings.Repeat("clients[]=a&", 101), "too long (101)"},
		{"form, empty", asForm, "", "Missing required property: clients"},
		{"form, empty client", asForm, "clients[]=", "on property clients[0]"},
		{"form, number missing", asForm, "clients[0]=a&clients[2]=b", "Expected type array but found type object"},
		{"form, numbers from 1", asForm, "clients[1]=a", "Expected type array but found type object"},
		{"form, leading zero", asForm, "clients[00]=a", "Expected type array but found type object"},
		{"form, number twice", asForm, "clients[0]=a&clients[0]=b", "Expected type array but found type object"},
		{"form, word", asForm, "clients[a]=b", "Expected type array but found type object"},
		{"form, both kinds", asForm, "clients[]=a&clients[0]=b", "both"},
	}.run(t, start(t, noOrganization), "DELETE", "/organizations/org_a/clients", http.StatusNotFound)

	limited := start(t, sandbox.Options{MaxClients: 10})
	limited.AddClients("org_a", "client1")
	bodies{
		{"11 of 10", "", clientsBody(11), "too long (11), maximum 10"},
		{"10 of 10", "", clientsBody(10), ""},
	}.run(t, limited, "DELETE", "/organizations/org_a/clients", http.StatusNoContent)
}

// noOrganization has no organization: the body is validated before the organization is
// searched for, so that a valid body gets 404.
var noOrganization = sandbox.Options{}

func TestRemovalIsAllOrNothing(t *testing.T) {
	s := start(t, sandbox.Options{})
	s.AddClients("org_a", "a", "b")
	do(t, s, ask{method: "DELETE", path: "/organizations/org_a/clients", contentType: asJSON, body: `{"clients":["a",7]}`})
	if got := s.Clients("org_a"); len(got) != 2 {
		t.Errorf("left: %q", got)
	}
}

// with returns the valid template with a member set to a JSON value, or omitted.
func with(member, value string) string {
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(goodTemplate), &m); err != nil {
		panic(err)
	}
	m[member] = json.RawMessage(value)
	if value == "" {
		delete(m, member)
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func quoted(n int) string { return `"` + strings.Repeat("ä", n) + `"` }

func mdl(claims string) string {
	return `{"org.iso.18013.5.1.mDL":{"org.iso.18013.5.1":` + claims + `}}`
}

func TestTemplateRules(t *testing.T) {
	const form = "name=n&type=t&dialect=simplified/1.0&well_known_trusted_issuers=aamva"
	const claims = "&presentation[org.iso.18013.5.1.mDL][org.iso.18013.5.1]"
	table := bodies{
		{"good", "", goodTemplate, ""},
		{"name 1", "", with("name", quoted(1)), ""},
		{"name 255", "", with("name", quoted(255)), ""},
		{"name 256", "", with("name", quoted(256)), "too long (256 chars), maximum 255' on property name"},
		{"name empty", "", with("name", `""`), "too short (0 chars), minimum 1' on property name"},
		{"name null", "", with("name", `null`), "found type null' on property name"},
		{"type 255", "", with("type", quoted(255)), ""},
		{"type 256", "", with("type", quoted(256)), "on property type"},
		{"type empty", "", with("type", `""`), "on property type"},
		{"dialect as its pattern has it", "", with("dialect", `"simplified/1x0"`), ""},
		{"dialect other", "", with("dialect", `"simplified/2.0"`),
			"does not match pattern ^simplified/1.0$: simplified/2.0' on property dialect"},
		{"dialect longer", "", with("dialect", `"simplified/1.0 "`), "on property dialect"},
		{"dialect with a line behind", "", with("dialect", `"simplified/1.0\n"`), "on property dialect"},
		{"dialect empty", "", with("dialect", `""`), "on property dialect"},
		{"dialect too long", "", with("dialect", quoted(256)), "too long (256 chars), maximum 255' on property dialect"},
		{"issuers other", "", with("well_known_trusted_issuers", `"aamva,other"`), "does not match pattern ^aamva$"},
		{"issuers empty", "", with("well_known_trusted_issuers", `""`), "too short"},
		{"issuers too long", "", with("well_known_trusted_issuers", quoted(256)), "too long"},
		{"issuers a list", "", with("well_known_trusted_issuers", `["aamva"]`), "found type array"},
		{"authority 1", "", with("custom_certificate_authority", quoted(1)), ""},
		{"authority 4096", "", with("custom_certificate_authority", quoted(4096)), ""},
		{"authority 4097", "", with("custom_certificate_authority", quoted(4097)), "too long (4097 chars), maximum 4096"},
		{"authority empty", "", with("custom_certificate_authority", `""`), "too short"},
		{"authority null", "", with("custom_certificate_authority", `null`), "found type null"},
		{"another member", "", with("id", `"vct_1"`), "Additional properties not allowed: id"},
		{"presentation null", "", with("presentation", `null`),
			"Expected type object but found type null' on property presentation"},
		{"presentation empty", "", with("presentation", `{}`), "Missing required property: org.iso.18013.5.1.mDL"},
		{"presentation other", "", with("presentation", `{"org.iso.18013.5.1.mDL":{"org.iso.18013.5.1":{}},"other":{}}`),
			"Additional properties not allowed: other"},
		{"document empty", "", with("presentation", `{"org.iso.18013.5.1.mDL":{}}`),
			"Missing required property: org.iso.18013.5.1'"},
		{"document other", "", with("presentation", `{"org.iso.18013.5.1.mDL":{"org.iso.18013.5.1":{},"x":{}}}`),
			"Additional properties not allowed: x"},
		{"document a list", "", with("presentation", `{"org.iso.18013.5.1.mDL":[]}`), "found type array"},
		{"claims empty", "", with("presentation", mdl(`{}`)), ""},
		{"claims null", "", with("presentation", mdl(`null`)), "found type null"},
		{"claim unknown", "", with("presentation", mdl(`{"sex":true}`)), "Additional properties not allowed: sex"},
		{"claim a word", "", with("presentation", mdl(`{"portrait":"true"}`)),
			"Expected type boolean but found type string' on property presentation.org.iso.18013.5.1.mDL.org.iso.18013.5.1.portrait"},
		{"claim twice", "", strings.Replace(goodTemplate, `"portrait":false`, `"portrait":false,"portrait":true`, 1),
			"given twice"},

		{"form, no claims", asForm, form + claims + "=", ""},
		{"form, claims", asForm, form + claims + "[portrait]=true" + claims + "[family_name]=false", ""},
		{"form, claim empty", asForm, form + claims + "[portrait]=", "Expected type boolean"},
		{"form, claim unknown", asForm, form + claims + "[sex]=true", "Additional properties not allowed: sex"},
		{"form, presentation empty", asForm, form + "&presentation=", "Missing required property: org.iso.18013.5.1.mDL"},
		{"form, presentation a text", asForm, form + "&presentation=x", "Expected type object but found type string"},
		{"form, presentation as JSON", asForm, form + "&presentation={}", "Expected type object"},
		{"form, presentation missing", asForm, form, "Missing required property: presentation"},
		{"form, name empty", asForm, strings.Replace(form, "name=n", "name=", 1) + claims + "=", "too short"},
	}
	for _, member := range []string{"name", "type", "dialect", "presentation", "well_known_trusted_issuers"} {
		table = append(table, bodies{{"without " + member, "", with(member, ""), "Missing required property: " + member}}...)
	}
	if len(sandbox.ClaimNames) != 21 {
		t.Errorf("%d claims, want 21", len(sandbox.ClaimNames))
	}
	for _, claim := range sandbox.ClaimNames {
		table = append(table, bodies{
			{"claim " + claim, "", with("presentation", mdl(`{"`+claim+`":true}`)), ""},
			{"form, claim " + claim, asForm, form + claims + "[" + claim + "]=false", ""},
		}...)
	}
	table.run(t, start(t, sandbox.Options{RepeatTemplateNames: true}), "POST", templatesPath, http.StatusCreated)
}

func TestBodyTypes(t *testing.T) {
	s := start(t, sandbox.Options{})
	d := s.AddDomain("org_a", sandbox.Domain{})
	tests := []struct {
		name, contentType string
		status            int
	}{
		{"JSON", "application/json", 200},
		{"JSON in another case", "Application/JSON", 200},
		{"JSON with charset", "application/json; charset=utf-8", 200},
		{"JSON in another charset", "application/json; charset=latin1", 415},
		{"none", "", 415},
		{"text", "text/plain", 415},
		{"JSON of another kind", "application/merge-patch+json", 415},
		{"multipart", "multipart/form-data; boundary=x", 415},
		{"broken", "application/json; charset", 415},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := do(t, s, ask{method: "PATCH", path: domainPath("org_a", d.ID), contentType: tt.contentType, body: `{}`})
			if got.status != tt.status {
				t.Errorf("status %d, want %d: %s", got.status, tt.status, got.raw)
			}
			if tt.status != 200 {
				wantError(t, got, tt.status, "", "")
			}
		})
	}
	huge := do(t, s, ask{method: "PATCH", path: domainPath("org_a", d.ID), contentType: asJSON,
		body: strings.Repeat(" ", 1<<20) + "{}"})
	wantError(t, huge, http.StatusRequestEntityTooLarge, "", "")
	most := do(t, s, ask{method: "PATCH", path: domainPath("org_a", d.ID), contentType: asJSON,
		body: strings.Repeat(" ", 1<<20-2) + "{}"})
	if most.status != 200 {
		t.Error(most.status, most.raw)
	}
}
