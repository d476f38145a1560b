package apiclient_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"orgops/apiclient"
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

func TestDiscoveryDomainUpdateRules(t *testing.T) {
	status := func(s string) *schema.DomainStatus { return new(schema.DomainStatus(s)) }
	for _, tc := range []struct {
		name   string
		update schema.DiscoveryDomainUpdate
		want   string
	}{
		{"pending", schema.DiscoveryDomainUpdate{Status: status("pending")}, ""},
		{"verified", schema.DiscoveryDomainUpdate{Status: status("verified")}, ""},
		{"the flag alone", schema.DiscoveryDomainUpdate{UseForOrganizationDiscovery: new(false)}, ""},
		{
			"nothing", schema.DiscoveryDomainUpdate{},
			"update: want at least one of status, use_for_organization_discovery, got {}",
		},
		{"empty status", schema.DiscoveryDomainUpdate{Status: status("")}, `status: want pending or verified, got ""`},
		{"another case", schema.DiscoveryDomainUpdate{Status: status("Verified")},
			`status: want pending or verified, got "Verified"`},
		{"unknown", schema.DiscoveryDomainUpdate{Status: status("failed\n"), UseForOrganizationDiscovery: new(true)},
			`status: want pending or verified, got "failed\n"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := serve(t, answer(200, domainRecord))
			_, err := a.client(t).UpdateDiscoveryDomain(t.Context(), orgID, domainID, tc.update, nil)
			if got := strings.Join(broken(t, err), "; "); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if sent := len(a.asked()) > 0; sent != (tc.want == "") {
				t.Errorf("sent: %v", sent)
			}
		})
	}
}

func TestDiscoveryDomainRecord(t *testing.T) {
	with := func(old, other string) string {
		if !strings.Contains(domainRecord, old) {
			t.Fatalf("no %s in the record", old)
		}
		return strings.Replace(domainRecord, old, other, 1)
	}
	domain := func(d string) string { return with(`"example.com"`, `"`+d+`"`) }
	for _, tc := range []struct{ name, body, want string }{
		{"as specified", domainRecord, ""},
		{"additional members", with(`{"id"`, `{"later":{"a":[1]},"id"`), ""},
		{"flag left out", with(`"use_for_organization_discovery":false,`, ""), ""},
		{"flag null", with(`_discovery":false`, `_discovery":null`), ""},
		{"no id", with(`"id":`, `"_":`), "missing or empty: id"},
		{"no domain", with(`"domain":`, `"_":`), "missing or empty: domain"},
		{"no status", with(`"status":`, `"_":`), "missing or empty: status"},
		{"no host", with(`"verification_host":`, `"_":`), "missing or empty: verification_host"},
		{"no token", with(`"verification_txt":`, `"_":`), "missing or empty: verification_txt"},
		{"empty token", with(`"0123456789abcdef0123456789abcdef"`, `""`), "missing or empty: verification_txt"},
		{"null host", with(`"_ss-verification.org_0123456789abcdef.example.com"`, `null`),
			"missing or empty: verification_host"},
		{"another id", with(domainID, "ord_other"), `it is the record of "ord_other", not of the requested one`},
		{"unknown status", with(`"verified"`, `"failed"`), ""},
		{"status without end", with(`"verified"`, `"`+strings.Repeat("s", 65)+`"`), `status: want pending or verified, got "sss`},
		{"domain of 3", domain("a.b"), ""},
		{"domain of 2", domain("ab"), `domain: want 3 to 255 characters, got 2: "ab"`},
		{"domain of 255", domain(strings.Repeat("a", 255)), ""},
		{"domain of 256", domain(strings.Repeat("a", 256)), "domain: want 3 to 255 characters, got 256: "},
		{"domain with an inner hyphen", domain("a-b.c-d"), ""},
		{"domain with a hyphen at the end", domain("ab-.com"), "domain: must match "},
		{"domain with an underscore", domain("a_b.com"), "domain: must match "},
		{"domain with a last dot", domain("ab.com."), "domain: must match "},
		{"domain with two dots", domain("ab..com"), "domain: must match "},
		{"domain beyond ASCII", domain("bücher.example"), "domain: must match "},
		{"flag of another type", with(`_discovery":false`, `_discovery":"false"`), "its body is not the expected JSON"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := serve(t, answer(200, tc.body))
			c := a.client(t)
			_, read := c.DiscoveryDomain(t.Context(), orgID, domainID)
			_, wrote := c.UpdateDiscoveryDomain(t.Context(), orgID, domainID,
				schema.DiscoveryDomainUpdate{UseForOrganizationDiscovery: new(true)}, nil)
			for _, err := range []error{read, wrote} {
				if tc.want != "" {
					wantAnswer(t, err, tc.want)
				} else if err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestUnknownStatus checks that a status of a newer service is kept as it is, and logged once.
func TestUnknownStatus(t *testing.T) {
	record := strings.Replace(domainRecord, `"verified"`, `"failed\u001b"`, 1)
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, domainID) {
			answer(200, record)(w, r)
			return
		}
		answer(200, `{"domains":[`+record+`]}`)(w, r)
	})
	var logged bytes.Buffer
	c := a.client(t, func(cfg *apiclient.Config) { cfg.Logger = slog.New(slog.NewTextHandler(&logged, nil)) })
	for range 2 {
		page, _, err := c.DiscoveryDomainsPage(t.Context(), orgID, "")
		if err != nil || len(page) != 1 || page[0].Err != nil || page[0].Record.Status != "failed\x1b" {
			t.Errorf("listed %+v, %v", page, err)
		}
		d, err := c.DiscoveryDomain(t.Context(), orgID, domainID)
		if err != nil || d.Status != "failed\x1b" {
			t.Errorf("read %+v, %v", d, err)
		}
	}
	if log := logged.String(); strings.Count(log, "counts as pending") != 1 || strings.Contains(log, "\x1b") {
		t.Errorf("logged %q", log)
	}
}

func TestOmittedFlagIsNil(t *testing.T) {
	a := serve(t, answer(200, strings.Replace(domainRecord, `"use_for_organization_discovery":false,`, "", 1)))
	d, err := a.client(t).DiscoveryDomain(t.Context(), orgID, domainID)
	if err != nil || d.UseForOrganizationDiscovery != nil {
		t.Errorf("got %v, %v; absent is neither true nor false", d.UseForOrganizationDiscovery, err)
	}
}
