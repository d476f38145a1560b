package scan_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"orgops/internal/sandbox"
	"orgops/internal/scan/progress"
)

// badRecord is a record outside the specification, with the reason in its row. Package apiclient
// tests the reasons.
type badRecord struct {
	name   string
	change func(members map[string]any) // from that of a good pending record with the id ord_bad
	id     string                       // of the row
	why    string                       // its reason; organization, place and id come before it
	status string                       // that the record reads as, if that is one; it may be any otherwise
}

func badRecords() []badRecord {
	set := func(member string, value any) func(map[string]any) {
		return func(members map[string]any) { members[member] = value }
	}
	without := func(member string) func(map[string]any) {
		return func(members map[string]any) { delete(members, member) }
	}
	const id, none = "id ord_bad: ", "which has no valid id: "
	return []badRecord{
		{name: "no status", change: without("status"), id: "ord_bad", why: id + "missing or empty: status"},
		{name: "status without end", change: set("status", strings.Repeat("s", 1<<20)), id: "ord_bad",
			why: id + "status: want pending or verified, got "},
		{name: "underscore in the domain", change: set("domain", "_x.example.org"), id: "ord_bad",
			why: id + "domain: must match ", status: "pending"},
		{name: "no id", change: without("id"), why: none + "missing or empty: id", status: "pending"},
		{name: "nothing in it", change: func(members map[string]any) { clear(members) },
			why: none + "missing or empty: id, domain, status, verification_host, verification_txt"},
		{name: "id that fits no path", change: set("id", "../x\x1b[31m"), id: "../x\x1b[31m",
			why: `discovery_domain_id: want 1 to 128 letters, digits, _, | or -, got "../x\x1b[31m"`, status: "pending"},
	}
}

// record returns the record, with that status unless the status is its bad member.
func (b badRecord) record(status string) json.RawMessage {
	members := map[string]any{
		"id": "ord_bad", "domain": "bad.example.org", "status": status,
		"verification_txt":  "0123456789abcdef0123456789abcdef",
		"verification_host": "_ss-verification.org_1.bad.example.org",
	}
	b.change(members)
	text, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	return text
}

// servePage has org_1 list these records among its own, the first of them at place at.
func (w *world) servePage(at int, records ...json.RawMessage) {
	w.t.Helper()
	var page []json.RawMessage
	for _, d := range w.sandbox.Domains("org_1") {
		text, err := json.Marshal(d)
		if err != nil {
			w.t.Fatal(err)
		}
		page = append(page, text)
	}
	body, err := json.Marshal(map[string]any{"domains": slices.Insert(page, at, records...)})
	if err != nil {
		w.t.Fatal(err)
	}
	w.sandbox.AddFault(sandbox.Fault{Body: string(body), Match: func(r sandbox.Request) bool {
		return r.Operation == sandbox.OpListDiscoveryDomains && strings.Contains(r.Path, "/org_1/")
	}})
}

// TestScanOfAPageWithABadRecord: the record is one refused row, and the other 99 records of
// its page are found, whatever the scan searches for.
func TestScanOfAPageWithABadRecord(t *testing.T) {
	for _, of := range []struct {
		name, status string
		begin        func(w *world)
	}{
		{"pending", "pending", func(w *world) { w.pending("org_1") }},
		{"sweep", "verified", func(w *world) { w.sweep(progress.Scan{Organization: "org_1", Tick: start.Unix()}) }},
	} {
		for _, bad := range badRecords() {
			t.Run(of.name+"/"+bad.name, func(t *testing.T) {
				w := newWorld(t)
				var want []string
				for i := range 99 {
					d := w.sandbox.AddDomain("org_1", sandbox.Domain{ID: fmt.Sprintf("ord_%d", i),
						Domain: fmt.Sprintf("d%d.example.org", i), Status: of.status})
					want = append(want, "org_1/"+d.ID)
				}
				w.servePage(42, bad.record(of.status))
				of.begin(w)
				w.scanned()
				w.wantFound(append(want, "org_1/"+bad.id)...)
				ids, reasons := w.read(run0).refused(t)
				if len(ids) != 1 || ids[0] != bad.id || !strings.HasPrefix(reasons[0], "organization org_1: ") ||
					!strings.Contains(reasons[0], strings.ReplaceAll(bad.why, "\x1b", `\x1b`)) {
					t.Errorf("refused are %q with %q; want one, %q with %q", ids, reasons, bad.id, bad.why)
				}
				if p := w.progress(); p.Read != 1 || !p.Complete() || !p.Ended {
					t.Errorf("progress %+v", p)
				}
				size := 0
				for _, row := range w.read(run0).rows {
					size += len(row.Content) + len(row.Result.Detail)
				}
				if size > 100*1024 {
					t.Errorf("the rows have %d bytes", size)
				}
			})
		}
	}
}

// TestScanLeavesBadRecordsOut that read as domains which the scan does not search for.
func TestScanLeavesBadRecordsOut(t *testing.T) {
	for _, bad := range badRecords() {
		if bad.status == "" {
			continue
		}
		t.Run("pending/"+bad.name, func(t *testing.T) {
			w := newWorld(t)
			w.sandbox.AddDomain("org_1", sandbox.Domain{ID: "ord_1"})
			w.servePage(0, bad.record("verified"))
			w.pending("org_1")
			w.scanned()
			w.wantFound("org_1/ord_1")
		})
		for _, proves := range []bool{false, true} {
			t.Run(fmt.Sprintf("sweep that proves %t/%s", proves, bad.name), func(t *testing.T) {
				w := newWorld(t)
				w.sandbox.AddDomain("org_1", sandbox.Domain{ID: "ord_1", Status: "verified"})
				w.servePage(0, bad.record("pending"))
				w.sweep(progress.Scan{Organization: "org_1", Tick: 1, Pending: proves})
				w.scanned()
				want := []string{"org_1/ord_1"}
				if proves {
					want = append(want, "org_1/"+bad.id)
				}
				w.wantFound(want...)
			})
		}
	}
}

// badScans are scans of a page with a good record and three bad ones, two of which have no
// id.
func badScans() (all []scenario) {
	for _, of := range []struct {
		status string
		begin  func(w *world)
	}{
		{"pending", func(w *world) { w.pending("") }},
		{"verified", func(w *world) { w.sweep(progress.Scan{Tick: start.Unix()}) }},
	} {
		rows := []string{"org_1/ord_1", "org_1/ord_bad", "org_1/", "org_1/"}
		all = append(all, scenario{
			name: "bad records of a scan for " + of.status, rows: rows,
			begin: func(w *world) {
				w.sandbox.AddDomain("org_1", sandbox.Domain{ID: "ord_1", Status: of.status, Use: new(false)})
				bad := badRecords()
				none := slices.IndexFunc(bad, func(b badRecord) bool { return b.name == "no id" })
				w.servePage(1, bad[0].record(of.status), bad[none].record(of.status), bad[none].record(of.status))
				of.begin(w)
			},
			more: func(w *world) string { return w.oneMore(of.status) },
			end: func(w *world) {
				w.wantFound(slices.Clone(rows)...)
				if _, reasons := w.read(run0).refused(w.t); len(slices.Compact(slices.Sorted(slices.Values(reasons)))) != 3 {
					w.t.Errorf("reasons %q; want three, each with its place", reasons)
				}
			},
		})
	}
	return all
}

// TestScanOfBadOrganizations: one that has no id is missed, and the others are read; one
// whose name is bad is read.
func TestScanOfBadOrganizations(t *testing.T) {
	w := newWorld(t)
	w.sandbox.AddDomain("org_1", sandbox.Domain{ID: "ord_1"})
	w.sandbox.AddDomain("org_2", sandbox.Domain{ID: "ord_2"})
	w.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpListOrganizations,
		Body: `{"organizations":[{"name":"x"},{"id":"org_1","name":"n"},{"id":"org_2","name":7}]}`})
	w.pending("")
	w.scanned()
	w.wantFound("org_1/ord_1", "org_2/ord_2")
	w.wantProgress(progress.Scan{
		Read: 2, Missed: 1, Why: "an organization: organizations[0], which has no valid id: missing or empty: id",
		Ended: true,
	})
}

// TestScanOfAnInvalidPage: an answer that is no page of records keeps the organization
// from being read, and no other.
func TestScanOfAnInvalidPage(t *testing.T) {
	for name, body := range map[string]string{
		"no domains": `{"next":null}`, "another type": `{"domains":{}}`, "no JSON": `{"domains":[`,
		"next of another type":    `{"domains":[],"next":{}}`,
		"bad records without end": `{"domains":[` + strings.Repeat("{},", 200) + `{}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.sandbox.AddDomain("org_1", sandbox.Domain{ID: "ord_1"})
			w.sandbox.AddDomain("org_2", sandbox.Domain{ID: "ord_2"})
			w.sandbox.AddFault(sandbox.Fault{Status: http.StatusOK, Body: body,
				Match: func(r sandbox.Request) bool { return strings.Contains(r.Path, "/org_1/") }})
			w.pending("")
			w.scanned()
			w.wantFound("org_2/ord_2")
			if p := w.progress(); p.Read != 1 || p.Missed != 1 || !strings.Contains(p.Why, "organization org_1") {
				t.Errorf("progress %+v", p)
			}
		})
	}
}
