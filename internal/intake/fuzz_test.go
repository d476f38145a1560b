package intake_test

import (
	"bytes"
	"encoding/csv"
	"slices"
	"strings"
	"testing"
	"unicode"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/rowfile"
	"orgops/tasks"
)

// FuzzCSVThereAndBack: rows that did not settle well come out, as CSV and as
// JSON Lines, as what they went in as, good or bad.
func FuzzCSVThereAndBack(f *testing.F) {
	for _, cell := range slices.Concat(hostile, padded) {
		var b bytes.Buffer
		w := csv.NewWriter(&b)
		if err := w.Write([]string{cell, "o", "d"}); err != nil {
			f.Fatal(err)
		}
		w.Flush()
		f.Add(b.Bytes(), cell)
	}
	f.Add([]byte(",o,d\n,o,d\nx,o\n,,\n\"\"\"\",o,d2\nv,o/,d\n"), "why")
	f.Fuzz(func(t *testing.T, rows []byte, detail string) {
		thereAndBack(t, tasks.TypeVerify, "verification_txt,organization_id,discovery_domain_id\n"+string(rows), detail)
	})
}

// FuzzJSONLinesThereAndBack is the same of JSON Lines, whose rows are taken
// member by member, or whole.
func FuzzJSONLinesThereAndBack(f *testing.F) {
	for _, line := range []string{
		`"organization_id":"o","discovery_domain_id":"d","verification_txt":"\u0000\ud83d\ude00"}`,
		`} ` + "\n{\n[]\n" + `{"organization_id":"o"}`,
		`"organization_id":"o","discovery_domain_id":"d","orgops_error":{"a":[1e400]}}` + "\r\n",
		`"name":"n","type":"mdl","dialect":"simplified/1.0","presentation":{},"well_known_trusted_issuers":"aamva"}`,
	} {
		f.Add([]byte(line), "why")
	}
	f.Fuzz(func(t *testing.T, rest []byte, detail string) {
		thereAndBack(t, tasks.TypeVerify, "{"+string(rest), detail)
		thereAndBack(t, tasks.TypeCreate, "{"+string(rest), detail)
	})
}

func thereAndBack(t *testing.T, kind, text, detail string) {
	t.Helper()
	in := input(t, kind, text, tasks.Defaults{})
	in.SkipInvalid, in.File = true, true // elsewhere than in a file, a last row without end is bad
	k, _ := tasks.KindOf(kind)
	rdb := redistest.New(t)
	l := ledger.New(rdb)
	id := strings.ReplaceAll(kind, ":", "-") // a test has one run of a kind
	if _, err := intake.New(rdb, l).Submit(t.Context(), in,
		ledger.NewRun{ID: ledger.RunID(id), Tenant: "default"}); err != nil {
		checkWords(t, err)
		return
	}
	run, err := l.Get(t.Context(), "", ledger.RunID(id))
	if err != nil {
		t.Fatalf("%v of %q", err, text)
	}
	var open []int64
	for row, err := range l.Each(t.Context(), run, ledger.Unsettled, 0) {
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, row.Item)
	}
	for _, item := range open {
		settleAs(t, run, "refused", detail, item)
	}
	rows := works(t, k, text)
	var want []string
	for row, err := range l.Each(t.Context(), run, ledger.WithResult, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if o := row.Result.Outcome; o != ledger.Done && o != ledger.Unchanged {
			want = append(want, rows[row.Item])
		}
	}
	for _, asJSON := range []bool{false, true} {
		out, _ := export(t, run, asJSON)
		if got := works(t, k, out); !slices.Equal(want, got) {
			t.Fatalf("rows went in as %q, and came out as %q: %q", want, got, out)
		}
	}
}

// works returns what the rows of a file ask for, "" for bad ones.
func works(t *testing.T, k tasks.Kind, text string) (all []string) {
	t.Helper()
	r, err := rowfile.Open("rows", strings.NewReader(text), rowfile.SchemaOf(k))
	if err != nil {
		checkWords(t, err)
		return nil
	}
	for {
		record, err := r.Next()
		if err != nil {
			return all
		}
		work := ""
		if record.Err == nil {
			row, err := record.Parse(k, tasks.Defaults{})
			if err == nil && !row.NeedsIDs() {
				content, err := row.Content()
				if err != nil {
					t.Fatal(err)
				}
				work = string(content)
			}
		}
		all = append(all, work)
	}
}

func checkWords(t *testing.T, err error) {
	t.Helper()
	text := err.Error()
	if i := strings.IndexFunc(text, unicode.IsControl); i >= 0 || len(text) > 64<<10 {
		t.Fatalf("an error of %d bytes, control character at %d: %q", len(text), i, text)
	}
}
