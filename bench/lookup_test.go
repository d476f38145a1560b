package main

import (
	"bytes"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/cli"
)

func TestLookups(t *testing.T) {
	for _, program := range []string{"nsd", "dnsperf"} {
		if _, err := installed(program); err != nil {
			t.Skip(err)
		}
	}
	status, out, errs := typed(t, "lookups", "--names", "50", "--seconds", "1", "--concurrency", "5", "--rounds", "1", "--json")
	if status != cli.StatusOK {
		t.Fatalf("status %d: %s", status, errs)
	}
	var order []string
	for _, m := range lines(t, out) {
		if m.Benchmark == "lookups_summary" {
			order = append(order, m.Transport)
			if m.Ratio <= 0 {
				t.Errorf("got %+v", m)
			}
			continue
		}
		order = append(order, m.Variant)
		if m.Benchmark != "lookups" || m.Lookups < 1 || m.Errors != 0 {
			t.Errorf("got %+v", m)
		}
	}
	want := []string{variantOurs, variantDnsperf, "udp"}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A token that is not the one in the zone is an error of each look-up, and told.
func TestLookupsThatFindNothingAreErrors(t *testing.T) {
	if _, err := installed("nsd"); err != nil {
		t.Skip(err)
	}
	server, err := startNSD(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.stop(); err != nil {
			t.Error(err)
		}
	}()
	twoNames := lookupLoad{Concurrency: 1, Names: 2, Seconds: 1} // of which the zone has one
	r, err := checkerLoad{server: server, load: twoNames}.look(t.Context(), "tcp")
	if err != nil || r.Good < 1 || r.Bad < 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestLookupsWithoutPrograms(t *testing.T) {
	if _, err := exec.LookPath("/usr/sbin/nsd"); err != nil {
		t.Setenv("PATH", t.TempDir())
		if _, err := startNSD(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "apt-get install nsd") {
			t.Error(err)
		}
	}
	t.Setenv("PATH", t.TempDir())
	status, _, errs := typed(t, "lookups")
	if status != cli.StatusFailed || !strings.Contains(errs, "dnsperf is not installed: install it (apt-get install dnsperf") {
		t.Errorf("status %d, %q", status, errs)
	}
}

func TestProofs(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs all of 127.0.0.0/8")
	}
	status, out, errs := typed(t, "proofs", "--names", "20", "--rounds", "2", "--json")
	if status != cli.StatusOK {
		t.Fatalf("status %d: %s", status, errs)
	}
	var order []string
	for _, m := range lines(t, out) {
		order = append(order, m.Variant)
		if m.Benchmark != "proofs" || m.Errors != 0 || m.P50 <= 0 {
			t.Errorf("got %+v", m)
		}
	}
	if diff := cmp.Diff([]string{variantWarm, variantCold, variantCold, variantWarm}, order); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReadDnsperf(t *testing.T) {
	const report = `Statistics:

  Queries sent:         300000
  Queries completed:    299990 (100.00%)
  Queries lost:         10 (0.00%)

  Response codes:       SERVFAIL 40 (0.01%), NOERROR 299950 (99.99%)
  Average packet size:  request 54, response 126
  Run time (s):         2.500000
  Queries per second:   119996.000000
`
	r, err := readDnsperf([]byte(report))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(lookupResult{Good: 299_950, Bad: 50, Seconds: 2.5, PerSecond: 119_980}, r, cmp.AllowUnexported(lookupResult{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := readDnsperf([]byte("Error: unable to connect")); err == nil {
		t.Error("a report without figures was read")
	}
}

func TestLookupTables(t *testing.T) {
	var out bytes.Buffer
	r := &report{out: &out}
	steps := []error{
		r.lookupRound(lookupResult{Variant: variantOurs, Transport: "udp", Round: 1, Good: 200_000, Seconds: 5, PerSecond: 40_000, CPU: 6}),
		r.lookupRound(lookupResult{Variant: variantDnsperf, Transport: "udp", Round: 1, Good: 800_000, Bad: 1, Seconds: 5, PerSecond: 160_000, CPU: 4}),
		r.lookupSummary(lookupSummary{Transport: "udp", Concurrency: 200, Dnsperf: "-m udp -q 200", Ours: 40_000, Theirs: 160_000, Ratio: 0.25}),
	}
	for _, err := range steps {
		if err != nil {
			t.Fatal(err)
		}
	}
	const want = `
lookups over udp: TXT records at an NSD on this machine; processor time in µs a row
ROUND    LOOKUPS   SECONDS  ERRORS  LOOKUPS/S     CPU   VARIANT
    1     200000      5.00       0      40000      30   orgops
    1     800000      5.00       1     160000       5   dnsperf
medians, lookups/s: orgops 40000 (200 at a time, 0 errors); dnsperf 160000 (-m udp -q 200)
orgops to dnsperf over udp: 0.25 (aimed at: 0.26)
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
