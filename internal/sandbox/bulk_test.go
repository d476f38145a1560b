package sandbox_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"orgops/internal/sandbox"
)

func TestSeedBulk(t *testing.T) {
	options := sandbox.BulkOptions{Organizations: 400, Absent: 0.2, Servfail: 0.1}
	s := start(t, sandbox.Options{Seed: 7})
	bulk := s.SeedBulk(options)
	got := sandbox.Bulk{Organizations: len(s.Organizations())}
	sizes := map[int]bool{}
	for _, org := range s.Organizations() {
		domains := s.Domains(org)
		sizes[len(domains)] = true
		for _, d := range domains {
			got.Domains++
			if d.Status != "verified" || !*d.Use {
				t.Errorf("%+v", d)
			}
			answer := lookUp(t, s, "udp", d.Host, dns.TypeTXT)
			switch answer.Rcode {
			case dns.RcodeNameError:
				got.Absent++
			case dns.RcodeServerFailure:
				got.Servfail++
			default:
				if txt, ok := answer.Answer[0].(*dns.TXT); !ok || txt.Txt[0] != d.TXT {
					t.Errorf("%s has %v, want %s", d.Host, answer.Answer, d.TXT)
				}
			}
		}
	}
	if diff := cmp.Diff(bulk, got); diff != "" {
		t.Errorf("(-told +there):\n%s", diff)
	}
	if diff := cmp.Diff(map[int]bool{1: true, 2: true, 3: true}, sizes); diff != "" {
		t.Errorf("domains of an organization (-want +got):\n%s", diff)
	}
	for name, share := range map[string]float64{"absent": float64(bulk.Absent), "servfail": 2 * float64(bulk.Servfail)} {
		if share /= float64(bulk.Domains); share < 0.15 || share > 0.25 {
			t.Errorf("%s: %v of the domains, want about what was asked for: %+v", name, share, bulk)
		}
	}
	again := start(t, sandbox.Options{Seed: 7})
	if diff := cmp.Diff(bulk, again.SeedBulk(options)); diff != "" {
		t.Errorf("the same seed has another bulk (-want +got):\n%s", diff)
	}
	last := s.Organizations()[399]
	if diff := cmp.Diff(s.Domains(last), again.Domains(last)); diff != "" {
		t.Errorf("the same seed has other names (-want +got):\n%s", diff)
	}
}
