package intake_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redistest"
	"orgops/internal/results"
	"orgops/tasks"
)

// handInAs hands text in as run id.
func handInAs(t *testing.T, id, kind, text string) ledger.Run {
	t.Helper()
	rdb := redistest.New(t)
	store := ledger.New(rdb)
	in := input(t, kind, text, tasks.Defaults{})
	if _, err := intake.New(rdb, store).Submit(t.Context(), in,
		ledger.NewRun{ID: ledger.RunID(id), Tenant: "default"}); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return ledgertest.Find(t, store, id)
}

// settleAs settles rows that no worker has begun.
func settleAs(t *testing.T, run ledger.Run, outcome, detail string, items ...int64) {
	t.Helper()
	core := ledger.New(redistest.New(t))
	header := ledgertest.Find(t, core, run.ID)
	sums, err := core.Sums(t.Context(), header)
	if err != nil {
		t.Fatal(err)
	}
	rows := make([][]ledger.Row, len(sums))
	for _, item := range items {
		number := 0
		for ; item >= int64(sums[number].Rows); number++ {
			item -= int64(sums[number].Rows)
		}
		rows[number] = append(rows[number], ledger.Row(item))
	}
	for number, some := range rows {
		seg := ledger.Segment{Tenant: header.Tenant, Run: header.ID, Incarnation: header.Incarnation, Number: number}
		if _, err := core.Dismiss(t.Context(), seg, ledger.Result{Outcome: ledger.Outcome(outcome), Detail: detail},
			some...); err != nil {
			t.Fatal(err)
		}
	}
}

func export(t *testing.T, run ledger.Run, asJSON bool) (text string, rows int64) {
	t.Helper()
	var out strings.Builder
	rows, err := results.ExportFailed(t.Context(), ledger.New(redistest.New(t)), run,
		results.FailedOptions{JSON: asJSON}, &out)
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), rows
}

// hostile are cells that spreadsheets, CSV and JSON may take for something else.
var hostile = []string{
	`=HYPERLINK("http://evil.example","x")`, "+1", "-1", "@SUM(A1)", "'=x", "''+x",
	"'plain", "'", `"`, `a "b", c`,
	"two\nlines", "two\r\nlines", "=", "ünï \u2028 code", `\.`, "{}", "<script>&",
}

// padded are such cells that no token can be: their rows are bad.
var padded = []string{"\tx", "\rx", "\r\n", " =x", "x\t"}

// TestExportOfHostileCells: what comes out is harmless in a spreadsheet and,
// submitted again, is what went in.
func TestExportOfHostileCells(t *testing.T) {
	var in strings.Builder
	w := csv.NewWriter(&in)
	write := func(record ...string) {
		if err := w.Write(record); err != nil {
			t.Fatal(err)
		}
	}
	write("verification_txt", "organization_id", "discovery_domain_id")
	for i, cell := range hostile {
		write(cell, fmt.Sprint("o", i), "d1")
	}
	w.Flush()
	first := handInAs(t, "first", tasks.TypeVerify, in.String())
	for i := range hostile {
		settleAs(t, first, "refused", "-2+3 was \"said\"", int64(i))
	}

	out, rows := export(t, first, false)
	if rows != int64(len(hostile)) {
		t.Errorf("%d rows, want %d", rows, len(hostile))
	}
	records, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"verification_txt", "organization_id", "discovery_domain_id", "orgops_outcome", "orgops_error",
		"domain", "host", "value", "found", "advice", "mistake"}
	if diff := cmp.Diff(want, records[0]); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
	for _, record := range records[1:] {
		for _, cell := range record {
			if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
				t.Errorf("the cell %q is a formula", cell)
			}
		}
	}
	if got := records[1][3:]; got[0] != "refused" || got[1] != `'-2+3 was "said"` {
		t.Errorf("outcome and error are %q", got)
	}

	// Again, and once more: what an export added does not add up.
	second := handInAs(t, "second", tasks.TypeVerify, out)
	for i := range hostile {
		settleAs(t, second, "refused", "-2+3 was \"said\"", int64(i))
	}
	for i, cell := range hostile {
		stored, err := ledger.New(redistest.New(t)).Contents(t.Context(), ledger.Run{Tenant: "default", ID: "second"},
			int64(i), 1)
		if err != nil {
			t.Fatal(err)
		}
		var row struct {
			VerificationTXT string `json:"verification_txt"`
		}
		if err := json.Unmarshal(stored[0], &row); err != nil {
			t.Fatal(err)
		}
		if want := strings.ReplaceAll(cell, "\r\n", "\n"); row.VerificationTXT != want { // as encoding/csv reads it
			t.Errorf("%q came back as %q, want %q", cell, row.VerificationTXT, want)
		}
	}
	again, _ := export(t, second, false)
	if diff := cmp.Diff(out, again); diff != "" {
		t.Errorf("exported again (-first +second):\n%s", diff)
	}
}

// TestQuotesAreRemovedOnlyFromExports: only a file that we wrote had quotes added.
func TestQuotesAreRemovedOnlyFromExports(t *testing.T) {
	run := handInAs(t, "a", tasks.TypeVerify, "organization_id,discovery_domain_id,verification_txt\no1,d1,'=x\n")
	settleAs(t, run, "failed", "", 0)
	out, _ := export(t, run, true)
	want := `{"organization_id":"o1","discovery_domain_id":"d1","verification_txt":"'=x","orgops_outcome":"failed"}` + "\n"
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestExportForms(t *testing.T) {
	const shape = `"type":"mdl","dialect":"simplified/1.0","presentation":{"org.iso.18013.5.1.mDL":{"org.iso.18013.5.1":{}}},"well_known_trusted_issuers":"aamva"}`
	tests := []struct {
		name, kind, text string
		asJSON           bool
		want             string // of row 1, refused for "why"
	}{
		{
			name: "csv", kind: tasks.TypeRemove, text: "client_id,organization_id\nc0,o0\nc1,o1\n",
			want: "client_id,organization_id,orgops_outcome,orgops_error\nc1,o1,refused,why\n",
		},
		{
			name: "csv with columns of ours in the middle", kind: tasks.TypeRemove,
			text: "client_id,orgops_error,organization_id,orgops_x\nc0,,o0,\nc1,old,o1,y\n",
			want: "client_id,organization_id,orgops_outcome,orgops_error\nc1,o1,refused,why\n",
		},
		{
			name: "csv as json", kind: tasks.TypeRemove, text: "client_id,organization_id\nc0,o0\nc1,o1\n", asJSON: true,
			want: `{"organization_id":"o1","client_id":"c1","orgops_outcome":"refused","orgops_error":"why"}` + "\n",
		},
		{
			name: "json lines", kind: tasks.TypeUpdate,
			text: `{"organization_id":"o0","discovery_domain_id":"d0","status":"pending"}` + "\n" +
				` {"orgops_error":"old", "discovery_domain_id": "d1","organization_id":"o1" ,"status":"pending"}` + "\r\n",
			want: `{"organization_id":"o1","discovery_domain_id":"d1","status":"pending","orgops_outcome":"refused","orgops_error":"why"}` + "\n",
		},
		{
			name: "a whole object", kind: tasks.TypeCreate,
			text: `{"name":"n0",` + shape + "\n" + `{"orgops_outcome":"failed","orgops_error":"<x>","name":"=n1",` +
				shape + "\n",
			want: `{"name":"=n1",` + strings.TrimSuffix(shape, "}") + `,"orgops_outcome":"refused","orgops_error":"why"}` + "\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run := handInAs(t, "a", tt.kind, tt.text)
			settleAs(t, run, "done", "", 0)
			settleAs(t, run, "refused", "why", 1)
			out, rows := export(t, run, tt.asJSON)
			if diff := cmp.Diff(tt.want, out); diff != "" || rows != 1 {
				t.Errorf("%d rows (-want +got):\n%s", rows, diff)
			}
			if again := handInAs(t, "b", tt.kind, out); again.Total() != 1 {
				t.Errorf("submitted again: %d rows", again.Total())
			}
		})
	}
}
