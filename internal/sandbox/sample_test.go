package sandbox_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"orgops/internal/sandbox"
)

// seen queries the domain's host, following aliases and joining strings. It reports whether
// the token is published, and the response code.
func seen(t *testing.T, s *sandbox.Sandbox, d sandbox.Domain) (found bool, code string) {
	t.Helper()
	m := lookUp(t, s, "udp", d.Host, dns.TypeTXT)
	for _, rr := range m.Answer {
		if txt, ok := rr.(*dns.TXT); ok && strings.ReplaceAll(strings.Join(txt.Txt, ""), `\"`, `"`) == d.TXT {
			found = true
		}
	}
	return found, dns.RcodeToString[m.Rcode]
}

func TestSample(t *testing.T) {
	now := newClock()
	s := start(t, sandbox.Options{Clock: now.Now})
	sample := s.Seed()
	rows, err := csv.NewReader(bytes.NewReader(sample.Domains)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"organization_id", "discovery_domain_id", "verification_host", "verification_txt"},
		rows[0]); diff != "" {
		t.Error(diff)
	}
	rows = rows[1:]
	organizations, full := map[string]bool{}, 0
	counts, outcomes := map[string]int{}, map[string]int{}
	before := map[string]bool{}
	for i, row := range rows {
		story := sample.DomainRows[i]
		d, ok := s.Domain(row[0], row[1])
		if !ok || story.Organization != row[0] || story.Domain != row[1] {
			t.Fatalf("row %d %q is the story of %+v", i, row, story)
		}
		if row[2] != "" {
			full++
			if diff := cmp.Diff([]string{d.Host, d.TXT}, row[2:]); diff != "" {
				t.Error(diff)
			}
		}
		organizations[row[0]] = true
		counts[story.Case]++
		outcomes[story.Outcome]++
		found, code := seen(t, s, d)
		if code == "SERVFAIL" != (story.Case == "servfail_first") {
			t.Errorf("%s answers %s", story.Case, code)
		}
		before[row[1]] = found
		if (d.Status == "verified") != (story.Case == "verified_before") {
			t.Errorf("%s is %s", story.Case, d.Status)
		}
		flag := "true"
		if d.Use == nil {
			flag = "absent"
		} else if !*d.Use {
			flag = "false"
		}
		if want := map[string]string{"flag_false": "false", "flag_absent": "absent"}[story.Case]; want != flag &&
			(want != "" || flag != "true") {
			t.Errorf("%s has its flag %s", story.Case, flag)
		}
	}
	wantCounts := map[string]int{
		"at_once": 122, "late": 10, "servfail_first": 6, "never": 6, "other_value": 6, "quoted": 4, "doubled_host": 4,
		"verified_before": 10, "flag_false": 8, "flag_absent": 8, "split": 8, "alias": 8,
	}
	if diff := cmp.Diff(wantCounts, counts); diff != "" {
		t.Error(diff)
	}
	if len(rows) != 200 || len(organizations) != 40 || full != 25 {
		t.Errorf("%d rows in %d organizations, %d with all columns", len(rows), len(organizations), full)
	}
	if diff := cmp.Diff(map[string]int{"done": 170, "unchanged": 10, "expired": 20}, outcomes); diff != "" {
		t.Error(diff)
	}

	// In the end exactly the rows to be done can be proven.
	now.Add(4 * time.Second)
	for _, story := range sample.DomainRows {
		d, _ := s.Domain(story.Organization, story.Domain)
		found, code := seen(t, s, d)
		if code == "SERVFAIL" {
			found, _ = seen(t, s, d)
		}
		if found != (story.Outcome != "expired") {
			t.Errorf("%s: token there %v, to be %s", story.Case, found, story.Outcome)
		}
		if late := slices.Contains([]string{"late", "servfail_first"}, story.Case); story.Outcome != "expired" &&
			before[story.Domain] == late {
			t.Errorf("%s was there at once: %v", story.Case, before[story.Domain])
		}
		if story.Case == "doubled_host" {
			d.Host += "." + d.Domain
			if found, _ := seen(t, s, d); !found {
				t.Error("nothing at the doubled host", d.Host)
			}
		}
		if story.Case == "quoted" {
			d.TXT = `"` + d.TXT + `"`
			if found, _ := seen(t, s, d); !found {
				t.Error("no quotes around the value of", d.Host)
			}
		}
	}
}

func TestSampleClientsAndTemplates(t *testing.T) {
	s := start(t, sandbox.Options{})
	sample := s.Seed()
	rows, err := csv.NewReader(bytes.NewReader(sample.Clients)).ReadAll()
	if err != nil || len(rows) != 231 {
		t.Fatal(len(rows), err)
	}
	if got := s.Clients(rows[1][0]); len(got) != 230 || got[229] != rows[230][1] {
		t.Errorf("%d clients", len(got))
	}

	existing := map[string]sandbox.Template{}
	for _, made := range s.Templates() {
		existing[made.Name] = made
	}
	statuses := map[int]int{}
	got := map[string]int{}
	for line := range bytes.Lines(sample.Templates) {
		answered := do(t, s, ask{method: "POST", path: templatesPath, contentType: asJSON, body: string(line)})
		statuses[answered.status]++
		var asked struct {
			Name         string
			Presentation map[string]map[string]map[string]bool
		}
		if err := json.Unmarshal(line, &asked); err != nil {
			t.Fatal(err)
		}
		switch there, taken := existing[asked.Name]; {
		case !taken:
			got["done"]++
		case cmp.Equal(there.Claims, asked.Presentation["org.iso.18013.5.1.mDL"]["org.iso.18013.5.1"]):
			got["unchanged"]++
		default:
			got["refused"]++
		}
	}
	if diff := cmp.Diff(map[int]int{201: 23, 409: 2}, statuses); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int{"done": 23, "unchanged": 1, "refused": 1}, got); diff != "" {
		t.Error(diff)
	}
}

func TestSampleToSweep(t *testing.T) {
	s := start(t, sandbox.Options{})
	var got []string
	for _, one := range s.Seed().Swept {
		d, ok := s.Domain(one.Organization, one.Domain)
		if !ok || d.Status != "verified" {
			t.Errorf("%+v is there: %v, %s", one, ok, d.Status)
		}
		state := "absent"
		for range 3 { // repeated queries give the same answer
			found, code := seen(t, s, d)
			switch {
			case code == "SERVFAIL":
				state = "unknown"
			case found:
				state = "present"
			}
		}
		if state != one.State {
			t.Errorf("%s answers as %s, want %s", d.Host, state, one.State)
		}
		got = append(got, state)
	}
	if diff := cmp.Diff([]string{"present", "absent", "unknown", "present"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestSampleRepeats(t *testing.T) {
	s := start(t, sandbox.Options{})
	first, second := s.Seed(), s.Seed()
	hosts := map[string]bool{}
	for _, row := range slices.Concat(first.DomainRows, second.DomainRows) {
		d, _ := s.Domain(row.Organization, row.Domain)
		hosts[d.Domain] = true
	}
	if len(hosts) != 400 {
		t.Errorf("%d different domains in two samples", len(hosts))
	}
	if strings.Contains(string(second.Templates), "Licence check 1\"") {
		t.Error("a template's name comes twice")
	}
}
