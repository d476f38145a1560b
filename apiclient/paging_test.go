package apiclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/apiclient"
)

func drain[T any](records iter.Seq2[T, error]) error {
	for _, err := range records {
		if err != nil {
			return err
		}
	}
	return nil
}

// paged serves pages by the checkpoint that asks for them.
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
	record := func(id string) string { return strings.Replace(domainRecord, domainID, id, 1) }
	for _, last := range []string{`,"next":null`, `,"next":""`, ``} {
		t.Run("ends with "+last, func(t *testing.T) {
			a := paged(t, map[string]string{
				"":          `{"domains":[` + record("ord_1") + `,` + record("ord_2") + `],"next":"a b&c=+/?"}`,
				"a b&c=+/?": `{"domains":[],"next":"2"}`, // an empty page is not the end
				"2":         `{"domains":[` + record("ord_3") + `]` + last + `}`,
			})
			var ids []string
			for d, err := range a.client(t).DiscoveryDomains(t.Context(), orgID) {
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, d.ID)
			}
			if diff := cmp.Diff([]string{"ord_1", "ord_2", "ord_3"}, ids); diff != "" {
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
			"/api/v2/organizations":                                 `{"organizations":[{"id":"org_1","name":"n","display_name":"N","more":1},{"id":"org_2"}]}`,
			"/api/v2/organizations/org_1/clients":                   `{"clients":[{"client_id":"c1"},{"client_id":"c2","x":{}}]}`,
			"/api/v2/verifiable-credentials/verification/templates": `{"templates":[{"id":"vct_1","name":"n","presentation":{"something.else":{}}}]}`,
		}[r.URL.Path])(w, r)
	})
	c := a.client(t)
	wantRecords(t, c.Organizations(t.Context()), []apiclient.Organization{{ID: "org_1", Name: "n", DisplayName: "N"}, {ID: "org_2"}})
	wantRecords(t, c.OrganizationClients(t.Context(), "org_1"), []apiclient.OrganizationClient{{ClientID: "c1"}, {ClientID: "c2"}})
	wantRecords(t, c.Templates(t.Context()), []apiclient.Template{{ID: "vct_1", Name: "n"}})
}

func wantRecords[T any](t *testing.T, records iter.Seq2[T, error], want []T) {
	t.Helper()
	for range 2 { // an iterator can be used again, and begins again
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
		{"no array", `{"next":"a"}`, `want an array "clients" in it: there is none`},
		{"null", `{"clients":null}`, `want an array "clients" in it: there is none`},
		{"another type", `{"clients":{}}`, `want an array "clients" in it`},
		{"a bare array", `[{"client_id":"c"}]`, "its body is not the JSON wanted"},
		{"a record without its id", `{"clients":[{"client_id":"c"},{"id":"x"}]}`, "clients[1]: missing or empty: client_id"},
		{"a record of another type", `{"clients":["c"]}`, `want an array "clients" in it`},
		{"next of another type", `{"clients":[],"next":5}`, `want a string or null in "next"`},
		{"a long next", `{"clients":[],"next":"` + strings.Repeat("n", 4097) + `"}`, `its "next" is longer than 4096 octets`},
		{"html", "<html>", "its body is not the JSON wanted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := serve(t, answer(200, tc.body))
			n := 0
			for _, err := range a.client(t).OrganizationClients(t.Context(), orgID) {
				n++
				wantAnswer(t, err, tc.want)
			}
			if n != 1 {
				t.Errorf("%d pairs, want the error alone", n)
			}
		})
	}
}

func TestListThatWouldNeverEnd(t *testing.T) {
	t.Run("the same checkpoint", func(t *testing.T) {
		a := serve(t, answer(200, `{"clients":[{"client_id":"c"}],"next":"n"}`))
		wantAnswer(t, drain(a.client(t).OrganizationClients(t.Context(), orgID)), `its "next" "n" was given before`)
		if n := len(a.asked()); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
	})
	t.Run("a longer circle", func(t *testing.T) {
		a := paged(t, map[string]string{
			"":  `{"clients":[{"client_id":"c"}],"next":"1"}`,
			"1": `{"clients":[{"client_id":"c"}],"next":"2"}`,
			"2": `{"clients":[{"client_id":"c"}],"next":"1"}`,
		})
		wantAnswer(t, drain(a.client(t).OrganizationClients(t.Context(), orgID)), `its "next" "1" was given before`)
	})
	t.Run("ever new checkpoints and no records", func(t *testing.T) {
		n := 0
		a := serve(t, func(w http.ResponseWriter, r *http.Request) {
			n++
			answer(200, fmt.Sprintf(`{"clients":[],"next":"%d"}`, n))(w, r)
		})
		wantAnswer(t, drain(a.client(t).OrganizationClients(t.Context(), orgID)), "101 empty pages in a row")
	})
}

func TestListStopsWhereItFails(t *testing.T) {
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("from") != "" {
			answer(503, "")(w, r)
			return
		}
		answer(200, `{"clients":[{"client_id":"c"}],"next":"n"}`)(w, r)
	})
	var got []string
	for record, err := range a.client(t).OrganizationClients(t.Context(), orgID) {
		e, _ := errors.AsType[*apiclient.Error](err)
		got = append(got, fmt.Sprint(record.ClientID, e != nil && e.Status == 503))
	}
	if diff := cmp.Diff([]string{"cfalse", "true"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestListStopsWhenTheConsumerBreaks(t *testing.T) {
	full := pageOf(100, "more")
	a := serve(t, answer(200, full))
	n := 0
	for _, err := range a.client(t).OrganizationClients(t.Context(), orgID) {
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
			for _, err := range a.client(t).OrganizationClients(ctx, orgID) {
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
		Clients []apiclient.OrganizationClient `json:"clients"`
		Next    string                         `json:"next"`
	}{Next: next}
	for i := range n {
		page.Clients = append(page.Clients, apiclient.OrganizationClient{ClientID: fmt.Sprint("c", i)})
	}
	b, err := json.Marshal(page)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestPageIsBounded(t *testing.T) {
	a := serve(t, endless(200))
	wantAnswer(t, drain(a.client(t).Templates(t.Context())), "longer than 16777216 octets")
}
