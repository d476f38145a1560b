package apiclient_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/apiclient"
	"orgops/apiclient/schema"
)

func drain[T any](records iter.Seq2[T, error]) error {
	for _, err := range records {
		if err != nil {
			return err
		}
	}
	return nil
}

// onePage returns the records of one page.
func onePage[T any](page []apiclient.Listed[T], _ string, err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, l := range page {
			if !yield(l.Record, l.Err) {
				return
			}
		}
		var none T
		if err != nil {
			yield(none, err)
		}
	}
}

// paged serves pages by the checkpoint of the request.
func paged(t *testing.T, pages map[string]string) *api {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, ok := pages[r.URL.Query().Get("from")]
		if !ok {
			t.Errorf("asked for %q", r.URL.RawQuery)
		}
		answer(200, body)(w, r)
	})
}

func TestListsFollowCheckpoints(t *testing.T) {
	for _, last := range []string{`,"next":null`, `,"next":""`, ``} {
		t.Run("ends with "+last, func(t *testing.T) {
			a := paged(t, map[string]string{
				"":          `{"templates":[{"id":"vct_1"},{"id":"vct_2"}],"next":"a b&c=+/?"}`,
				"a b&c=+/?": `{"templates":[],"next":"2"}`, // an empty page is not the end
				"2":         `{"templates":[{"id":"vct_3"}]` + last + `}`,
			})
			var ids []string
			for d, err := range a.client(t).Templates(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, d.ID)
			}
			if diff := cmp.Diff([]string{"vct_1", "vct_2", "vct_3"}, ids); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var queries []string
			for _, r := range a.asked() {
				queries = append(queries, r.Query)
			}
			want := []string{"take=100", "from=a+b%26c%3D%2B%2F%3F&take=100", "from=2&take=100"}
			if diff := cmp.Diff(want, queries); diff != "" {
				t.Errorf("queries (-want +got):\n%s", diff)
			}
		})
	}
}

func TestListsOfEverySort(t *testing.T) {
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		answer(200, map[string]string{
			"/api/v2/organizations":                                 `{"organizations":[{"id":"org_1","name":"n","more":1},{"id":"org_2"}]}`,
			"/api/v2/verifiable-credentials/verification/templates": `{"templates":[{"id":"vct_1","name":"n","presentation":{"something.else":{}}}]}`,
		}[r.URL.Path])(w, r)
	})
	c := a.client(t)
	wantRecords(t, onePage(c.OrganizationsPage(t.Context(), "")),
		[]schema.Organization{{ID: "org_1", Name: "n"}, {ID: "org_2"}})
	wantRecords(t, c.Templates(t.Context()),
		[]schema.Template{{ID: "vct_1", TemplateRequest: schema.TemplateRequest{Name: "n"}}})
}

func wantRecords[T any](t *testing.T, records iter.Seq2[T, error], want []T) {
	t.Helper()
	for range 2 { // an iterator can be used again, and restarts
		var got []T
		for r, err := range records {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, r)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestListsThatCannotBeRead(t *testing.T) {
	for _, tc := range []struct{ name, body, want string }{
		{"no array", `{"next":"a"}`, `want an array "templates" in it: there is none`},
		{"null", `{"templates":null}`, `want an array "templates" in it: there is none`},
		{"another type", `{"templates":{}}`, `want an array "templates" in it`},
		{"a bare array", `[{"id":"c"}]`, "its body is not the expected JSON"},
		{"more bad records than a page has", `{"templates":[` + strings.Repeat(`{},`, 100) + `{}]}`,
			"more than 100 of its records are outside the specification, the last one templates[100], which has no valid id: missing or empty: id"},
		{"next of another type", `{"templates":[],"next":5}`, `want a string or null in "next"`},
		{"a long next", `{"templates":[],"next":"` + strings.Repeat("n", 4097) + `"}`,
			`its "next" is longer than 4096 bytes`},
		{"html", "<html>", "its body is not the expected JSON"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := serve(t, answer(200, tc.body))
			n := 0
			for _, err := range a.client(t).Templates(t.Context()) {
				n++
				wantAnswer(t, err, tc.want)
			}
			if n != 1 {
				t.Errorf("%d pairs, want the error alone", n)
			}
		})
	}
}

// badDomains are records of discovery domains outside the specification, and their errors.
var badDomains = []struct {
	name, record string
	id           string // in the error
	status       schema.DomainStatus
	want         string
}{
	{"status of another type", changedRecord("status", `true`), domainID, "", `status: want a string, got bool`},
	{"no status", changedRecord("status", ``), domainID, "", `missing or empty: status`},
	{"underscore in the domain", changedRecord("domain", `"_dmarc.example.com"`), domainID, "verified",
		`domain: must match ^((`},
	{"domain of another type", changedRecord("domain", `["example.com"]`), domainID, "verified",
		`domain: want a string, got array`},
	{"no domain", changedRecord("domain", ``), domainID, "verified", `missing or empty: domain`},
	{"empty token", changedRecord("verification_txt", `""`), domainID, "verified", `missing or empty: verification_txt`},
	{"null token", changedRecord("verification_txt", `null`), domainID, "verified", `missing or empty: verification_txt`},
	{"token of another type", changedRecord("verification_txt", `{"a":1}`), domainID, "verified",
		`verification_txt: want a string, got object`},
	{"no host", changedRecord("verification_host", ``), domainID, "verified", `missing or empty: verification_host`},
	{"flag of another type", changedRecord("use_for_organization_discovery", `"yes"`), domainID, "verified",
		`use_for_organization_discovery: want true or false, got string`},
	{"no id", changedRecord("id", ``), "", "verified", `missing or empty: id`},
	{"id of another type", changedRecord("id", `12345678901234567890`), "", "verified", `id: want a string, got number`},
	{"id that fits no path, and no status", `{"id":"../x\u001b[31m"}`, "", "",
		`missing or empty: domain, status, verification_host, verification_txt`},
	{"empty object", `{}`, "", "", `missing or empty: id, domain, status, verification_host, verification_txt`},
	{"text", `"` + domainID + `"`, "", "", `want an object, got "` + domainID + `"`},
	{"null", `null`, "", "", `want an object, got null`},
	{"number", `7`, "", "", `want an object, got 7`},
	{"array", `[{"id":"ord_1"}]`, "", "", `want an object, got [{"id":"ord_1"}]`},
}

// changedRecord returns domainRecord with another value of a member, or without the member if
// value is empty.
func changedRecord(member, value string) string {
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(domainRecord), &members); err != nil {
		panic(err)
	}
	delete(members, member)
	if value != "" {
		members[member] = json.RawMessage(value)
	}
	b, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// TestPageWithABadRecord checks that a record outside the specification does not prevent
// reading the other records of its page.
func TestPageWithABadRecord(t *testing.T) {
	for _, tc := range badDomains {
		t.Run(tc.name, func(t *testing.T) {
			var records []string
			for i := range 99 {
				records = append(records, strings.Replace(domainRecord, domainID, fmt.Sprint("ord_", i), 1))
			}
			records = slices.Insert(records, 42, tc.record)
			body := `{"domains":[` + strings.Join(records, ",") + `],"next":"n"}`
			page, next, err := serve(t, answer(200, body)).client(t).DiscoveryDomainsPage(t.Context(), orgID, "")
			if err != nil || next != "n" || len(page) != 100 {
				t.Fatalf("%d records, next %q, %v; want 100 and n", len(page), next, err)
			}
			for i, l := range page {
				if (l.Err != nil) != (i == 42) {
					t.Errorf("record %d: %v", i, l.Err)
				}
			}
			bad, ok := errors.AsType[*apiclient.RecordError](page[42].Err)
			if !ok || bad.Place != "domains[42]" || bad.ID != tc.id || !strings.HasPrefix(bad.Err.Error(), tc.want) {
				t.Errorf("error %#v: %v\nwant id %q and %s", bad, page[42].Err, tc.id, tc.want)
			}
			if text := page[42].Err.Error(); !strings.Contains(text, bad.Err.Error()) || !strings.Contains(text, bad.ID) ||
				len(text) > 800 ||
				strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) {
				t.Errorf("says %q", text)
			}
			if got := page[42].Record.Status; got != tc.status {
				t.Errorf("status %q can be read, want %q", got, tc.status)
			}
		})
	}
}

// TestBadRecordWithoutSecrets checks that a record's error, which quotes the record, contains
// no secret.
func TestBadRecordWithoutSecrets(t *testing.T) {
	a := serve(t, answer(200, `{"domains":[`+changedRecord("status", `"`+testToken+`"`)+`]}`))
	page, _, err := a.client(t).DiscoveryDomainsPage(t.Context(), orgID, "")
	if err != nil || len(page) != 1 || page[0].Err == nil || strings.Contains(page[0].Err.Error(), testToken) {
		t.Errorf("page %+v, %v", page, err)
	}
}

// TestListsGoOnPastBadRecords checks that every list yields a bad record with its error and
// its valid members, and continues.
func TestListsGoOnPastBadRecords(t *testing.T) {
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		answer(200, map[string]string{
			"/api/v2/organizations": `{"organizations":[{"id":"org_1"},{"name":"n"},7,{"id":"org_2","name":{}},{"id":"org_3"}]}`,
			"/api/v2/organizations/org_1/discovery-domains": `{"domains":[` + changedRecord("status", `7`) + `,` +
				domainRecord + `]}`,
			"/api/v2/verifiable-credentials/verification/templates": `{"templates":[{"name":"n"},{"id":5,"name":"m"},{"id":"vct_1","type":[],"name":"o","created_at":"2026-11-20T10:00:00Z"},{"id":"vct_2","name":"p"}]}`,
		}[r.URL.Path])(w, r)
	})
	c := a.client(t)
	wantListed(t, onePage(c.OrganizationsPage(t.Context(), "")),
		func(o schema.Organization) string { return o.ID + " " + o.Name },
		"org_1 ", " n: organizations[1], which has no valid id: missing or empty: id",
		" : organizations[2], which has no valid id: want an object, got 7",
		"org_2 : organizations[3], id org_2: name: want a string, got object", "org_3 ")
	wantListed(t, onePage(c.DiscoveryDomainsPage(t.Context(), "org_1", "")),
		func(d schema.DiscoveryDomain) string { return d.ID },
		domainID+": domains[0], id "+domainID+`: status: want a string, got number`, domainID)
	wantListed(t, c.Templates(t.Context()), func(t schema.Template) string { return t.ID + " " + t.Name },
		" n: templates[0], which has no valid id: missing or empty: id",
		" m: templates[1], which has no valid id: id: want a string, got number",
		"vct_1 o: templates[2], id vct_1: type: want a string, got array", "vct_2 p")
}

// TestOrganizationsOfAClient: an organization has the client if the member is an object, whatever
// is in it; a member of another type is no answer.
func TestOrganizationsOfAClient(t *testing.T) {
	a := serve(t, answer(200, `{"organizations":[{"id":"org_1","client":{"use_for_member_access":true}},`+
		`{"id":"org_2","client":{},"is_app_entitlement_active":true},{"id":"org_3"},{"id":"org_4","client":null},`+
		`{"id":"org_5","client":"yes"},{"id":"org_6","client":true},{"id":"org_7","client":{"use_for_member_access":"no"}}]}`))
	c := a.client(t)
	wantListed(t, onePage(c.OrganizationsPageFor(t.Context(), "client_1", "c2")), func(o schema.OrganizationOf) string {
		if o.Client == nil {
			return o.ID + " -"
		}
		access := "?"
		if o.Client.UseForMemberAccess != nil {
			access = fmt.Sprint(*o.Client.UseForMemberAccess)
		}
		return fmt.Sprint(o.ID, " ", access, " ", o.AppEntitlement)
	}, "org_1 true false", "org_2 ? true", "org_3 -", "org_4 -",
		"org_5 ? false: organizations[4], id org_5: client: want an object, got string",
		"org_6 ? false: organizations[5], id org_6: client: want an object, got bool",
		"org_7 false false: organizations[6], id org_7: client.use_for_member_access: want true or false, got string")
	if got, want := a.asked()[0].Query, "from=c2&include_client_association_for=client_1&take=100"; got != want {
		t.Errorf("query %s, want %s", got, want)
	}
}

// wantListed compares a list with its records, each as text, those outside the specification
// with their errors.
func wantListed[T any](t *testing.T, records iter.Seq2[T, error], text func(T) string, want ...string) {
	t.Helper()
	var got []string
	for r, err := range records {
		s := text(r)
		if err != nil {
			s += ": " + err.Error()
		}
		got = append(got, s)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestListThatWouldNeverEnd(t *testing.T) {
	t.Run("the same checkpoint", func(t *testing.T) {
		a := serve(t, answer(200, `{"templates":[{"id":"c"}],"next":"n"}`))
		wantAnswer(t, drain(a.client(t).Templates(t.Context())), `its "next" "n" was given before`)
		if n := len(a.asked()); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
	})
	t.Run("a longer circle", func(t *testing.T) {
		a := paged(t, map[string]string{
			"":  `{"templates":[{"id":"c"}],"next":"1"}`,
			"1": `{"templates":[{"id":"c"}],"next":"2"}`,
			"2": `{"templates":[{"id":"c"}],"next":"1"}`,
		})
		wantAnswer(t, drain(a.client(t).Templates(t.Context())), `its "next" "1" was given before`)
	})
	t.Run("ever new checkpoints and no records", func(t *testing.T) {
		n := 0
		a := serve(t, func(w http.ResponseWriter, r *http.Request) {
			n++
			answer(200, fmt.Sprintf(`{"templates":[],"next":"%d"}`, n))(w, r)
		})
		wantAnswer(t, drain(a.client(t).Templates(t.Context())), "more than 2000 pages")
	})
}

func TestListStopsWhereItFails(t *testing.T) {
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("from") != "" {
			answer(503, "")(w, r)
			return
		}
		answer(200, `{"templates":[{"id":"c"}],"next":"n"}`)(w, r)
	})
	var got []string
	for record, err := range a.client(t).Templates(t.Context()) {
		e, _ := errors.AsType[*apiclient.Error](err)
		got = append(got, fmt.Sprint(record.ID, e != nil && e.Status == 503))
	}
	if diff := cmp.Diff([]string{"cfalse", "true"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestListStopsWhenTheConsumerBreaks(t *testing.T) {
	full := pageOf(100, "more")
	a := serve(t, answer(200, full))
	n := 0
	for _, err := range a.client(t).Templates(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 100 {
			break
		}
	}
	if got := len(a.asked()); n != 100 || got != 1 {
		t.Errorf("%d records with %d requests, want 100 with 1", n, got)
	}
}

func TestListStopsWhenTheContextEnds(t *testing.T) {
	for _, at := range []int{1, 100} { // in the middle of a page, and at its end
		t.Run(fmt.Sprint("after ", at), func(t *testing.T) {
			a := serve(t, answer(200, pageOf(100, "more")))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			n, failures := 0, 0
			for _, err := range a.client(t).Templates(ctx) {
				if err != nil {
					failures++
					if !errors.Is(err, context.Canceled) {
						t.Errorf("want context.Canceled, got %v", err)
					}
					continue
				}
				if n++; n == at {
					cancel()
				}
			}
			if got := len(a.asked()); n != at || failures != 1 || got != 1 {
				t.Errorf("%d records, %d errors, %d requests; want %d, 1 and 1", n, failures, got, at)
			}
		})
	}
}

func pageOf(n int, next string) string {
	page := struct {
		Templates []schema.Template `json:"templates"`
		Next      string            `json:"next"`
	}{Next: next}
	for i := range n {
		page.Templates = append(page.Templates, schema.Template{ID: fmt.Sprint("vct_", i)})
	}
	b, err := json.Marshal(page)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestPageIsBounded(t *testing.T) {
	a := serve(t, endless(200))
	wantAnswer(t, drain(a.client(t).Templates(t.Context())), "longer than 16777216 bytes")
}

// FuzzListedDomain checks that every record of a page is as specified, or has a short error on
// one line.
func FuzzListedDomain(f *testing.F) {
	f.Add([]byte(domainRecord))
	for _, bad := range badDomains {
		f.Add([]byte(bad.record))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) || len(bytes.TrimSpace(text)) != len(text) {
			return // then its page is none, or has it without the blanks
		}
		l := apiclient.ReadDomain(text)
		if l.Err == nil {
			if d := l.Record; d.ID == "" || d.VerificationTXT == "" || d.VerificationHost == "" ||
				d.Status == "" || len(d.Status) > 64 {
				t.Errorf("taken: %+v", d)
			}
			return
		}
		bad, ok := errors.AsType[*apiclient.RecordError](l.Err)
		if !ok || bad.ID != "" && schema.CheckID("id", bad.ID) != nil {
			t.Errorf("error %#v", l.Err)
		}
		if s := l.Err.Error(); len(s) > 2000 || strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
			t.Errorf("says %q", s)
		}
	})
}
