package results_test

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/dnscheck/report"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
	"orgops/internal/results"
	"orgops/internal/rowfile"
	"orgops/tasks"
)

// submit stores the rows of a file as run id, as package intake does.
func submit(t *testing.T, id, kind, text string) ledger.Run {
	t.Helper()
	k, _ := tasks.KindOf(kind)
	file, err := rowfile.Open("rows", strings.NewReader(text), rowfile.SchemaOf(k))
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for {
		record, err := file.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = record.Err
		}
		if err != nil {
			t.Fatal(err)
		}
		row, err := record.Parse(k, tasks.Defaults{})
		if err != nil {
			t.Fatal(err)
		}
		content, err := row.Content()
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, string(content))
	}
	l := ledger.New(redistest.New(t))
	ledgertest.Submit(t, l, ledger.NewRun{ID: ledger.RunID(id), Kind: ledger.Kind(kind),
		Description: ledger.Description{Format: file.Format(), Columns: file.Columns()}}, rows...)
	return ledgertest.Find(t, l, id)
}

// settle settles rows that no worker has begun.
func settle(t *testing.T, run ledger.Run, outcome, detail string, items ...int64) {
	t.Helper()
	l := ledger.New(redistest.New(t))
	for _, item := range items {
		for row, err := range l.Each(t.Context(), run, ledger.Every, item) {
			if err == nil {
				_, err = l.Dismiss(t.Context(), row.Segment,
					ledger.Result{Outcome: ledger.Outcome(outcome), Detail: detail}, row.Row)
			}
			if err != nil {
				t.Fatal(err)
			}
			break
		}
	}
}

func export(t *testing.T, run ledger.Run, format string, outcomes ...string) (text string, rows int64) {
	t.Helper()
	var out strings.Builder
	rows, err := results.Export(t.Context(), ledger.New(redistest.New(t)), run,
		results.Options{Format: format, Outcomes: outcomes}, &out)
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), rows
}

// packed returns evidence, or a state with evidence, as it is stored.
func packed(t *testing.T, p interface{ Pack() ([]byte, error) }) []byte {
	t.Helper()
	stored, err := p.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// proofOfDomain is the proof of a domain of that organization.
func proofOfDomain(organization string) evidence.Evidence {
	return evidence.Evidence{Evidence: report.Evidence{At: time.Unix(1795768200, 0).UTC()},
		Compared: &evidence.Record{OrganizationID: organization, DiscoveryDomainID: "d0", Domain: "acme.example",
			Host: "_t.acme.example", TXT: "v"}}
}

// end executes the next rows of a run's first segment, and ends each in its own way.
func end(t *testing.T, run ledger.Run, endings ...ledger.Ending) {
	t.Helper()
	l := ledger.New(redistest.New(t))
	seg, nonce, rows := ledgertest.Begin(t, l, string(run.ID), len(endings))
	for i, row := range rows {
		if _, err := l.End(t.Context(), seg, nonce, ledger.RowEnd{Row: row, Ending: endings[i]}); err != nil {
			t.Fatal(err)
		}
	}
}

// settledTimes matches the time at which a row was settled, behind its number, which ends the
// first group.
var settledTimes = regexp.MustCompile(`(,\d,|"orgops_item":\d,"orgops_settled_at":")` +
	time.Now().UTC().Format("2006-01-") + `\d\dT[\d:]+Z`)

// TestResults checks the rows of each kind in each form: those that are settled in some way, and
// those that are open.
func TestResults(t *testing.T) {
	const (
		shape  = `"type":"mdl","dialect":"simplified/1.0","presentation":{"org.iso.18013.5.1.mDL":{"org.iso.18013.5.1":{}}},"well_known_trusted_issuers":"aamva"}`
		header = "orgops_outcome,orgops_error,orgops_item,orgops_settled_at,orgops_at,orgops_template"
		letter = header + ",domain,host,value,found,advice,mistake\n"
	)
	check := evidence.Evidence{
		Evidence: report.Evidence{At: time.Unix(1795768260, 0).UTC(), State: "absent"},
		Record:   &evidence.Record{Domain: "alpha.example", Host: "_t.alpha.example", TXT: "=v"},
		Diagnosis: report.Diagnosis{Findings: []report.Finding{
			{Mistake: report.MistakeQuoted, Host: "_t.alpha.example", Found: `"\"=v\""`},
		}},
	}
	state := evidence.State{
		Record: &evidence.Record{Domain: "beta.example", Host: "_t.beta.example", TXT: "v"},
		Evidence: &evidence.Evidence{Evidence: report.Evidence{At: time.Unix(1795768320, 0).UTC(), State: "absent",
			Sentence: "Another.", Said: []report.Observation{{State: "absent"},
				{State: "absent", Values: []string{"\"w\"…", `"x"`}}}}},
	}
	memo := append([]byte("not_yet\x00there is none\x00"), packed(t, state)...)
	verified := []ledger.Ending{
		ledger.Result{Outcome: ledger.Done, Evidence: packed(t, proofOfDomain("o0"))},
		ledger.Result{Outcome: "expired", Detail: "=not there", Evidence: packed(t, check)},
		ledger.Waiting{Stage: ledger.StageCheck, After: time.Minute, Memo: memo},
		ledger.Result{Outcome: ledger.Done, Evidence: []byte("of a newer worker")},
	}
	const threeDomains = "organization_id,discovery_domain_id\no0,d0\no1,d1\no2,d2\no3,d3\no4,d4\n"
	tests := []struct {
		name, kind, text string
		endings          []ledger.Ending
		format           string
		outcomes         []string
		want             string
	}{
		{
			name: "removals, all", kind: tasks.TypeRemove, text: "client_id,organization_id\nc0,o\nc1,o\nc2,o\n",
			endings: []ledger.Ending{ledger.Result{Outcome: ledger.Done},
				ledger.Result{Outcome: "refused", Detail: "why, \"so\""}},
			want: "client_id,organization_id," + header +
				"\nc0,o,done,,0,AT,,\nc1,o,refused,\"why, \"\"so\"\"\",1,AT,,\nc2,o,open,,2,,,\n",
		},
		{
			name: "removals that were made", kind: tasks.TypeRemove, text: "client_id,organization_id\nc0,o\nc1,o\nc2,o\n",
			endings:  []ledger.Ending{ledger.Result{Outcome: "refused", Detail: "why"}, ledger.Result{Outcome: ledger.Done}},
			outcomes: []string{"done"},
			want:     "client_id,organization_id," + header + "\nc1,o,done,,1,AT,,\n",
		},
		{
			name: "several outcomes, of which none is in the ledger's bits", kind: tasks.TypeRemove,
			text: "client_id,organization_id\nc0,o\nc1,o\nc2,o\n",
			endings: []ledger.Ending{ledger.Result{Outcome: "refused", Detail: "why"}, ledger.Result{Outcome: ledger.Done},
				ledger.Result{Outcome: "failed", Detail: "late"}},
			outcomes: []string{"failed", "refused"}, format: rowfile.FormatJSONL,
			want: `{"organization_id":"o","client_id":"c0","orgops_outcome":"refused","orgops_error":"why","orgops_item":0,"orgops_settled_at":"AT"}
{"organization_id":"o","client_id":"c2","orgops_outcome":"failed","orgops_error":"late","orgops_item":2,"orgops_settled_at":"AT"}
`,
		},
		{
			name: "an outcome that no row has", kind: tasks.TypeRemove, text: "client_id,organization_id\nc0,o\n",
			outcomes: []string{"lost"}, want: "client_id,organization_id," + header + "\n",
		},
		{
			name: "domains", kind: tasks.TypeVerify, text: threeDomains, endings: verified,
			want: "organization_id,discovery_domain_id," + letter +
				"o0,d0,done,,0,AT,2026-11-27T08:30:00Z,,acme.example,_t.acme.example,v,,,\n" +
				"o1,d1,expired,'=not there,1,AT,2026-11-27T08:31:00Z,,alpha.example,_t.alpha.example,'=v," +
				`"""\""=v\""""","The value at _t.alpha.example has quotation marks or backslashes in it (""\""=v\""""): ` +
				"enter it without.\",quoted\n" +
				"o2,d2,open,not_yet: there is none,2,,2026-11-27T08:32:00Z,,beta.example,_t.beta.example,v," +
				`"""w""..."` + ",Another. Add a TXT record there with the expected value.,\n" +
				"o3,d3,done,,3,AT,,,,,,,,\no4,d4,open,,4,,,,,,,,,\n",
		},
		{
			name: "domains in JSON Lines", kind: tasks.TypeVerify, text: threeDomains, endings: verified,
			format: rowfile.FormatJSONL,
			want: `{"organization_id":"o0","discovery_domain_id":"d0","orgops_outcome":"done","orgops_item":0,"orgops_settled_at":"AT","orgops_at":"2026-11-27T08:30:00Z","domain":"acme.example","host":"_t.acme.example","value":"v"}
{"organization_id":"o1","discovery_domain_id":"d1","orgops_outcome":"expired","orgops_error":"=not there","orgops_item":1,"orgops_settled_at":"AT","orgops_at":"2026-11-27T08:31:00Z","domain":"alpha.example","host":"_t.alpha.example","value":"=v","found":"\"\\\"=v\\\"\"","advice":"The value at _t.alpha.example has quotation marks or backslashes in it (\"\\\"=v\\\"\"): enter it without.","mistake":"quoted"}
{"organization_id":"o2","discovery_domain_id":"d2","orgops_outcome":"open","orgops_error":"not_yet: there is none","orgops_item":2,"orgops_at":"2026-11-27T08:32:00Z","domain":"beta.example","host":"_t.beta.example","value":"v","found":"\"w\"...","advice":"Another. Add a TXT record there with the expected value."}
{"organization_id":"o3","discovery_domain_id":"d3","orgops_outcome":"done","orgops_item":3,"orgops_settled_at":"AT"}
{"organization_id":"o4","discovery_domain_id":"d4","orgops_outcome":"open","orgops_item":4}
`,
		},
		{
			name: "open domains", kind: tasks.TypeVerify, text: threeDomains, endings: verified, outcomes: []string{"open"},
			want: "organization_id,discovery_domain_id," + letter +
				"o2,d2,open,not_yet: there is none,2,,2026-11-27T08:32:00Z,,beta.example,_t.beta.example,v," +
				`"""w""..."` + ",Another. Add a TXT record there with the expected value.,\no4,d4,open,,4,,,,,,,,,\n",
		},
		{
			name: "JSON Lines as CSV", kind: tasks.TypeUpdate, format: rowfile.FormatCSV,
			text: `{"discovery_domain_id":"d0","organization_id":"o0","use_for_organization_discovery":true}` + "\n",
			want: "organization_id,discovery_domain_id,status,use_for_organization_discovery," + header +
				",orgops_status_before,orgops_use_for_organization_discovery_before\no0,d0,,true,open,,0,,,,,\n",
		},
		{
			name: "templates, created and found", kind: tasks.TypeCreate, outcomes: []string{"done", "unchanged"},
			text: `{"name":"n0",` + shape + "\n" + `{"name":"=n1",` + shape + "\n" + `{"name":"n2",` + shape + "\n",
			endings: []ledger.Ending{ledger.Result{Outcome: ledger.Done, Detail: "vct_0"},
				ledger.Result{Outcome: "unchanged", Detail: "vct_1"}, ledger.Result{Outcome: "refused", Detail: "taken"}},
			format: rowfile.FormatCSV,
			want:   "name," + header + "\nn0,done,,0,AT,,vct_0\n'=n1,unchanged,,1,AT,,vct_1\n",
		},
		{
			name: "templates as they were submitted", kind: tasks.TypeCreate, text: `{"name":"n0",` + shape + "\n",
			endings: []ledger.Ending{ledger.Result{Outcome: ledger.Done, Detail: "vct_0"}},
			want: `{"name":"n0",` + strings.TrimSuffix(shape, "}") +
				`,"orgops_outcome":"done","orgops_item":0,"orgops_settled_at":"AT","orgops_template":"vct_0"}` + "\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run := submit(t, "a", tt.kind, tt.text)
			end(t, run, tt.endings...)
			out, rows := export(t, run, tt.format, tt.outcomes...)
			if diff := cmp.Diff(tt.want, settledTimes.ReplaceAllString(out, "${1}AT")); diff != "" {
				t.Errorf("%d rows (-want +got):\n%s", rows, diff)
			}
		})
	}
}

// TestResultsOfAScan checks rows that nobody submitted: their records have the domains' names.
func TestResultsOfAScan(t *testing.T) {
	for kind, row := range map[ledger.Kind]string{
		tasks.TypeVerify:  `{"organization_id":"o","discovery_domain_id":"d","orgops_listed":{"domain":"acme.example"}}`,
		tasks.TypeRecheck: `{"organization_id":"o","discovery_domain_id":"d","domain":"acme.example","tick":1}`,
	} {
		t.Run(string(kind), func(t *testing.T) {
			l := ledger.New(redistest.New(t))
			ledgertest.Submit(t, l, ledger.NewRun{ID: "a", Kind: kind,
				Description: ledger.Description{Format: rowfile.FormatJSONL}}, row)
			out, _ := export(t, ledgertest.Find(t, l, "a"), rowfile.FormatCSV)
			records, err := csv.NewReader(strings.NewReader(out)).ReadAll()
			if err != nil || len(records) != 2 {
				t.Fatalf("%v\n%s", err, out)
			}
			got := map[string]string{}
			for i, name := range records[0] {
				got[name] = records[1][i]
			}
			if got["organization_id"] != "o" || got["discovery_domain_id"] != "d" || got["domain"] != "acme.example" {
				t.Errorf("%v", got)
			}
		})
	}
}

// TestResultsOfLostDomains checks the columns for letters to the customers of lost domains: those
// of expired rows, also if the check has found no mistake.
func TestResultsOfLostDomains(t *testing.T) {
	record := evidence.Record{Domain: "acme.example", Host: "_h.acme.example", TXT: "token"}
	for name, c := range map[string]struct {
		findings []report.Finding
		advice   string
		mistake  string
	}{
		"with a mistake": {
			[]report.Finding{{Mistake: report.MistakeApex, Host: "acme.example"}},
			"The record is at acme.example; it must be at _h.acme.example.", "at_domain",
		},
		"without": {nil, "gone since May: no record Add a TXT record there with the expected value.", ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := ledger.New(redistest.New(t))
			ledgertest.Submit(t, l, ledger.NewRun{ID: "a", Kind: tasks.TypeRecheck,
				Description: ledger.Description{Format: rowfile.FormatJSONL}},
				`{"organization_id":"o","discovery_domain_id":"d","domain":"acme.example","verification_host":"_h.acme.example",`+
					`"verification_txt":"token","tick":1}`)
			run := ledgertest.Find(t, l, "a")
			e := evidence.Evidence{Record: &record, Diagnosis: report.Diagnosis{Findings: c.findings}}
			e.State = report.Absent
			end(t, run, ledger.Result{Outcome: ledger.Lost, Detail: "gone since May: no record", Evidence: packed(t, e)})
			out, _ := export(t, run, rowfile.FormatCSV)
			records, err := csv.NewReader(strings.NewReader(out)).ReadAll()
			if err != nil || len(records) != 2 {
				t.Fatalf("%v\n%s", err, out)
			}
			for name, want := range map[string]string{"domain": "acme.example", "host": "_h.acme.example", "value": "token",
				"advice": c.advice, "mistake": c.mistake} {
				i := slices.Index(records[0], name)
				if i < 0 || records[1][i] != want {
					t.Errorf("no %s %q:\n%s", name, want, out)
				}
			}
		})
	}
}

// TestResultsNameTheRevocation checks that of a sweep's rows the lost ones name the run that has
// revoked their domains since, in both files, and that no state of another row is asked for.
func TestResultsNameTheRevocation(t *testing.T) {
	l := ledger.New(redistest.New(t))
	var rows []string
	for i := range 4 {
		rows = append(rows, fmt.Sprintf(`{"organization_id":"o","discovery_domain_id":"d%d","domain":"acme.example","tick":1}`, i))
	}
	ledgertest.Submit(t, l, ledger.NewRun{ID: "a", Kind: tasks.TypeRecheck,
		Description: ledger.Description{Format: rowfile.FormatJSONL}}, rows...)
	run := ledgertest.Find(t, l, "a")
	lost := ledger.Result{Outcome: ledger.Lost, Detail: "gone since May"}
	end(t, run, ledger.Result{Outcome: ledger.Unproven}, lost, lost, ledger.Result{Outcome: ledger.Unchanged})
	run = ledgertest.Find(t, l, "a")

	var asked []string
	revoked := func(_ context.Context, domains []string) (map[string]ledger.RunID, error) {
		asked = append(asked, domains...)
		return map[string]ledger.RunID{"d2": "revocation"}, nil
	}
	var all, failed strings.Builder
	_, err := results.Export(t.Context(), l, run, results.Options{Revoked: revoked}, &all)
	_, alsoErr := results.ExportFailed(t.Context(), l, run, results.FailedOptions{Revoked: revoked}, &failed)
	if err != nil || alsoErr != nil {
		t.Fatal(err, alsoErr)
	}
	for _, out := range []string{all.String(), failed.String()} {
		for line := range strings.Lines(out) {
			is := strings.Contains(line, `"discovery_domain_id":"d2"`)
			if is != strings.Contains(line, `"orgops_revoked_by":"revocation"`) || strings.Count(out, "revoked_by") != 1 {
				t.Errorf("the run is not named in the row of d2 alone:\n%s", out)
			}
		}
	}
	if want := []string{"d1", "d2", "d1", "d2"}; !slices.Equal(asked, want) {
		t.Errorf("asked about %q, want %q", asked, want)
	}
}

// TestResultsCanBeSubmitted checks that the file of results is one of rows, whatever became of
// them.
func TestResultsCanBeSubmitted(t *testing.T) {
	removals := submit(t, "a", tasks.TypeRemove, "client_id,organization_id\nc0,o\nc1,o\n")
	settle(t, removals, "done", "", 0)
	settle(t, removals, "cancelled", "", 1)
	verified := submit(t, "b", tasks.TypeVerify, "organization_id,discovery_domain_id\no,d0\no,d1\n")
	end(t, verified, ledger.Result{Outcome: ledger.Done,
		Evidence: packed(t, proofOfDomain("o"))})
	for _, run := range []ledger.Run{removals, verified} {
		for _, format := range []string{rowfile.FormatCSV, rowfile.FormatJSONL} {
			out, _ := export(t, run, format)
			if again := submit(t, string(run.ID)+format, string(run.Kind), out); again.Total() != 2 {
				t.Errorf("%s: %d rows of 2:\n%s", format, again.Total(), out)
			}
		}
	}
}

// heaps writes nothing, and takes the size of the live heap a few times.
type heaps struct {
	written int
	sizes   []uint64
}

func (h *heaps) Write(p []byte) (int, error) {
	if h.written += len(p); h.written > len(h.sizes)*(1<<20) {
		h.measure()
	}
	return len(p), nil
}

func (h *heaps) measure() {
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	h.sizes = append(h.sizes, memory.HeapAlloc)
}

// TestResultsOfManyRows checks that memory does not grow with the rows: they are written while
// they are read.
func TestResultsOfManyRows(t *testing.T) {
	var text strings.Builder
	text.WriteString("organization_id,client_id\n")
	const rows = 60_000
	for i := range rows {
		fmt.Fprintf(&text, "org_%016d,client_%040d\n", i, i)
	}
	run := submit(t, "a", tasks.TypeRemove, text.String())
	text.Reset()
	var out heaps
	out.measure()
	n, err := results.Export(t.Context(), ledger.New(redistest.New(t)), run, results.Options{}, &out)
	if err != nil || n != rows || len(out.sizes) < 4 {
		t.Fatalf("%d rows, %d measurements, %v", n, len(out.sizes), err)
	}
	if grown := int64(slices.Max(out.sizes)) - int64(out.sizes[0]); grown > int64(out.written)/4 {
		t.Errorf("the heap has grown by %d bytes over %d that were written", grown, out.written)
	}
}

// TestResultsWithTheirRun checks that a row has the run to which it belongs, and that its start is
// that for which it was planned.
func TestResultsWithTheirRun(t *testing.T) {
	rdb := redistest.New(t)
	l := ledger.New(rdb)
	start := time.Now().Add(time.Hour).Truncate(time.Second).UTC()
	ledgertest.Submit(t, l, ledger.NewRun{ID: "a", Tenant: "acme", Kind: tasks.TypeRemove,
		Description: ledger.Description{Format: rowfile.FormatJSONL}, Control: ledger.Control{NotBefore: start}},
		`{"organization_id":"o","client_id":"c"}`)
	run := ledgertest.Find(t, l, "a")
	for format, want := range map[string]string{
		rowfile.FormatJSONL: `{"organization_id":"o","client_id":"c","orgops_outcome":"open","orgops_item":0,` +
			`"orgops_run":"a","orgops_kind":"clients:remove","orgops_tenant":"acme","orgops_submitted_by":"ada",` +
			`"orgops_started_at":"` + start.Format(time.RFC3339) + "\"}\n",
		rowfile.FormatCSV: "organization_id,client_id,use_for_member_access,orgops_outcome,orgops_error,orgops_item," +
			"orgops_settled_at,orgops_at,orgops_template,orgops_run,orgops_kind,orgops_tenant,orgops_submitted_by,orgops_started_at\n" +
			"o,c,,open,,0,,,,a,clients:remove,acme,ada," + start.Format(time.RFC3339) + "\n",
	} {
		var out strings.Builder
		_, err := results.Export(t.Context(), l, run, results.Options{Format: format, Run: true, Submitter: "ada"}, &out)
		if err != nil || out.String() != want {
			t.Errorf("%v, got\n%s\nwant\n%s", err, out.String(), want)
		}
	}
}

// TestResultsOfDamagedRows checks that rows whose content Redis has damaged are written with their
// results, and that those behind them are written too.
func TestResultsOfDamagedRows(t *testing.T) {
	var text strings.Builder
	text.WriteString("organization_id,client_id\n")
	for i := range 200 {
		fmt.Fprintf(&text, "o,c%d\n", i)
	}
	run := submit(t, "a", tasks.TypeRemove, text.String())
	settle(t, run, "done", "", 1)
	rdb := redistest.New(t)
	for _, key := range redistest.Keys(t, "*:"+string(run.Incarnation)+".0:chunks") {
		if err := rdb.HSet(t.Context(), key, "0", "damaged").Err(); err != nil {
			t.Fatal(err)
		}
	}
	for format, want := range map[string][]string{
		rowfile.FormatCSV: {",,done,row 1: stored rows: ", "o,c199,open,,199,,"},
		rowfile.FormatJSONL: {`{"orgops_outcome":"done","orgops_error":"row 1: `,
			`{"organization_id":"o","client_id":"c199","orgops_outcome":"open"`},
	} {
		out, rows := export(t, run, format)
		if rows != 200 || !strings.Contains(out, want[0]) || !strings.Contains(out, want[1]) {
			t.Errorf("%d rows, want 200, with\n%s\n%s", rows, strings.Join(want, "\n"), out)
		}
	}
}

// TestExportAcrossChunks: rows far apart, and cancelled ones without a reason.
func TestExportAcrossChunks(t *testing.T) {
	var text strings.Builder
	text.WriteString("organization_id,client_id\n")
	for i := range 2500 {
		fmt.Fprintf(&text, "o%d,c\n", i)
	}
	run := submit(t, "a", tasks.TypeRemove, text.String())
	settle(t, run, "done", "", 1, 1000)
	settle(t, run, "unchanged", "", 2)
	settle(t, run, "failed", "late", 0, 2499)
	settle(t, run, "cancelled", "", 999, 1001)
	var out strings.Builder
	rows, err := results.ExportFailed(t.Context(), ledger.New(redistest.New(t)), run, results.FailedOptions{}, &out)
	if err != nil {
		t.Fatal(err)
	}
	want := "organization_id,client_id,orgops_outcome,orgops_error\no0,c,failed,late\no999,c,cancelled,\no1001,c,cancelled,\no2499,c,failed,late\n"
	if diff := cmp.Diff(want, out.String()); diff != "" || rows != 4 {
		t.Errorf("%d rows (-want +got):\n%s", rows, diff)
	}
}
