package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
)

// TestStrictSettings checks that the setting refuses aliases out of the domain, and no wildcard.
func TestStrictSettings(t *testing.T) {
	t.Parallel()
	for setting, refused := range map[string]string{"": "", "ORGOPS_REFUSE_ALIASES": "alias (CNAME or DNAME)"} {
		t.Run(setting, func(t *testing.T) {
			box := startBox(t, sandbox.Options{})
			plain := box.AddDomain("org_1", sandbox.Domain{ID: "ord_0"})
			box.SetTXT(plain.Host, plain.TXT)
			aliased := box.AddDomain("org_2", sandbox.Domain{ID: "ord_1"})
			box.SetCNAME(aliased.Host, "token.hosting.example.net")
			box.SetTXT("token.hosting.example.net", aliased.TXT)
			wild := box.AddDomain("org_3", sandbox.Domain{ID: "ord_2"})
			_, parent, _ := strings.Cut(wild.Host, ".")
			box.SetTXT("*."+parent, wild.TXT)

			d := newDesk(t)
			if _, _, err := intake.New(d.redis, d.ledger).BeginPending(t.Context(), "",
				ledger.NewRun{ID: "job", Tenant: "default"}); err != nil {
				t.Fatal(err)
			}
			p := begin(t, pointedAt(box, redistest.URL(t), map[string]string{setting: "true"}))
			await(t, "each row to be verified, or refused", func() bool {
				if refused == "" {
					return d.run("job").Counts["done"] == 3
				}
				open := slices.Collect(maps.Values(d.reasons("job")))
				return d.run("job").Counts["done"] == 2 && len(open) == 1 && strings.Contains(open[0], refused)
			})
			p.stop()
		})
	}
}
