package apiclient_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/apiclient"
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

// TestTemplateIsChecked: a template that breaks rules is not sent.
func TestTemplateIsChecked(t *testing.T) {
	a := serve(t, answer(201, `{"id":"vct_1"}`))
	bad := goodTemplate()
	bad.Name, bad.WellKnownTrustedIssuers = "", "none"
	want := []string{"name: want 1 to 255 characters", "well_known_trusted_issuers: must match ^aamva$"}
	_, err := a.client(t).CreateTemplate(t.Context(), bad, nil)
	if diff := cmp.Diff(want, rules(t, err)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := len(a.asked()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestTemplateAnswer(t *testing.T) {
	const body = `{"id":"vct_0000000000000001","name":"n","type":"mdl","dialect":"simplified/1.0","later":1,
		"presentation":{"org.iso.18013.5.1.mDL":{"org.iso.18013.5.1":{"portrait":true}}},
		"well_known_trusted_issuers":"aamva","custom_certificate_authority":"PEM",
		"created_at":"2026-11-20T12:00:00.123+0200","updated_at":"2026-11-20T10:00:00Z"}`
	want := schema.Template{
		ID: "vct_0000000000000001",
		TemplateRequest: schema.TemplateRequest{
			Name: "n", Type: "mdl", Dialect: "simplified/1.0",
			Presentation:            schema.Presentation{Claims: map[string]bool{"portrait": true}},
			WellKnownTrustedIssuers: "aamva", CustomCertificateAuthority: new("PEM"),
		},
		CreatedAt: time.Date(2026, 11, 20, 10, 0, 0, 123e6, time.UTC),
	}
	for _, status := range []int{200, 201} {
		a := serve(t, answer(status, body))
		got, err := a.client(t).CreateTemplate(t.Context(), goodTemplate(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d (-want +got):\n%s", status, diff)
		}
		again, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		var back schema.Template
		if err := json.Unmarshal(again, &back); err != nil || cmp.Diff(got, back) != "" {
			t.Errorf("through JSON: %v\n%s", err, cmp.Diff(got, back))
		}
	}
	for _, tc := range []struct{ name, body, want string }{
		{"no id", `{"name":"n"}`, "missing or empty: id"},
		{"empty id", `{"id":""}`, "missing or empty: id"},
		{"id of another type", `{"id":7}`, "its body is not the expected JSON"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := serve(t, answer(201, tc.body))
			_, err := a.client(t).CreateTemplate(t.Context(), goodTemplate(), nil)
			wantAnswer(t, err, tc.want)
		})
	}
	for _, date := range []string{`"yesterday"`, `17`, `null`, `""`} {
		a := serve(t, answer(201, `{"id":"vct_1","created_at":`+date+`}`))
		got, err := a.client(t).CreateTemplate(t.Context(), goodTemplate(), nil)
		if err != nil || got.ID != "vct_1" || !got.CreatedAt.IsZero() {
			t.Errorf("created_at %s: %+v, %v; want the id and no time", date, got, err)
		}
	}
}

func TestNameTaken(t *testing.T) {
	a := serve(t,
		answer(409, `{"statusCode":409,"error":"Conflict","message":"A template with the same name already exists"}`))
	_, err := a.client(t).CreateTemplate(t.Context(), goodTemplate(), nil)
	e, ok := errors.AsType[*apiclient.Error](err)
	if !ok || e.Status != http.StatusConflict || e.Message != "A template with the same name already exists" {
		t.Errorf("got %v", err)
	}
}

// TestAnotherTemplateInTheAnswer checks that the ID of another template, as a faulty cache or
// gateway may return it, is not reported as that of the created one.
func TestAnotherTemplateInTheAnswer(t *testing.T) {
	for body, says := range map[string]string{
		`{"id":"vct_1","name":"another"}`: `the template "another", not the requested one`,
		`{"id":"vct_1"}`:                  "",
	} {
		a := serve(t, answer(201, body))
		got, err := a.client(t).CreateTemplate(t.Context(), goodTemplate(), nil)
		if says != "" {
			wantAnswer(t, err, says)
		} else if err != nil || got.ID != "vct_1" {
			t.Errorf("%s: %+v, %v", body, got, err)
		}
	}
}
