package sandbox_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"orgops/internal/sandbox"
)

// TestCounts checks that all requests are counted, by operation, although only one is
// remembered.
func TestCounts(t *testing.T) {
	s := start(t, sandbox.Options{Remember: 1})
	for range 3 {
		s.AddDomain("org_a", sandbox.Domain{})
	}
	for _, path := range []string{
		"/organizations", "/organizations?take=1", "/organizations",
		domainPath("org_a", "ord_gone"), "/nowhere",
	} {
		do(t, s, ask{method: "GET", path: path})
	}
	s.AddFault(sandbox.Fault{Operation: sandbox.OpListDiscoveryDomains, DropAfter: true, Count: 1})
	if _, err := try(t, s, ask{method: "GET", path: "/organizations/org_a/discovery-domains"}); err == nil {
		t.Error("answered")
	}
	do(t, s, ask{method: "GET", path: "/organizations/org_a/discovery-domains"})
	for _, host := range []string{"a.example", "A.example", "b.example"} {
		lookUp(t, s, "udp", host, dns.TypeTXT)
	}
	lookUp(t, s, "tcp", "a.example", dns.TypeA)

	var got sandbox.Counts
	if err := json.Unmarshal([]byte(control(t, s, http.MethodGet, "counts", "").raw), &got); err != nil {
		t.Fatal(err)
	}
	delete(got.Requests, sandbox.OpToken)
	want := sandbox.Counts{
		Requests: map[string]sandbox.Tally{
			"":                             {All: 1, Answers: map[string]int64{"404": 1}, Times: map[int64]int64{1: 1}},
			sandbox.OpListOrganizations:    {All: 3, Answers: map[string]int64{"200": 3}, Times: map[int64]int64{1: 1, 2: 1}},
			sandbox.OpGetDiscoveryDomain:   {All: 1, Answers: map[string]int64{"404": 1}, Times: map[int64]int64{1: 1}},
			sandbox.OpListDiscoveryDomains: {All: 2, Answers: map[string]int64{"200": 2}, Times: map[int64]int64{2: 1}},
		},
		Queries: sandbox.Tally{All: 4, Answers: map[string]int64{"NXDOMAIN": 4}, Times: map[int64]int64{1: 2, 2: 1}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := len(s.Requests()); n != 1 {
		t.Errorf("%d requests are remembered, want 1", n)
	}
}
