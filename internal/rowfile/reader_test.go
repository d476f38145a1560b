package rowfile_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/rowfile"
	"orgops/tasks"
)

var domains = rowfile.Schema{Columns: []tasks.Column{
	{Name: "organization_id", Required: true},
	{Name: "discovery_domain_id", Required: true},
	{Name: "verification_txt"},
	{Name: "use_for_organization_discovery", Bool: true},
	{Name: "note"},
}}

const domainsExpected = "organization_id, discovery_domain_id[, verification_txt, use_for_organization_discovery, note]"

var templates = rowfile.Schema{Object: true}

// seen is a Record with its parts as text.
type seen struct {
	Item   int64
	Line   int
	Source string
	Object string
	Err    string
}

func readAll(t *testing.T, r *rowfile.Reader, s rowfile.Schema) []seen {
	t.Helper()
	var all []seen
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("Next: %v", err)
		}
		one := seen{Item: record.Item, Line: record.Line, Source: r.Source(), Object: rowfile.ObjectOf(s, record)}
		if record.Err != nil {
			rowErr, ok := errors.AsType[*rowfile.RowError](record.Err)
			if !ok {
				t.Fatalf("the row's error is a %T, want *RowError", record.Err)
			}
			if rowErr.Line != record.Line || rowErr.File != "rows" {
				t.Errorf("the error tells of %s:%d, the record of line %d", rowErr.File, rowErr.Line, record.Line)
			}
			one.Err = record.Err.Error()
		}
		all = append(all, one)
	}
}

func open(t *testing.T, text string, s rowfile.Schema) *rowfile.Reader {
	t.Helper()
	r, err := rowfile.Open("rows", strings.NewReader(text), s)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return r
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestCSV(t *testing.T) {
	const header = "organization_id,discovery_domain_id,verification_txt,use_for_organization_discovery\n"
	ok := func(item int64, line int) seen {
		return seen{Item: item, Line: line, Source: `["o","d","",""]`,
			Object: `{"organization_id":"o","discovery_domain_id":"d"}`}
	}
	tests := []struct {
		name, text string
		want       []seen
	}{
		{"no rows", header, nil},
		{"header without a line end", strings.TrimSuffix(header, "\n"), nil},
		{"a row", header + "o,d,,\n", []seen{ok(0, 2)}},
		{"the last line without its end", header + "o,d,,\no,d,,", []seen{ok(0, 2), ok(1, 3)}},
		{"CR LF", strings.ReplaceAll(header+"o,d,,\no,d,,\n", "\n", "\r\n"), []seen{ok(0, 2), ok(1, 3)}},
		{"a lone CR at the end", header + "o,d,,\r", []seen{ok(0, 2)}},
		{"blank lines are no records", "\n\r\n" + header + "\n\r\no,d,,\n\n\n", []seen{ok(0, 6)}},
		{"every cell", header + "o,d,t,true\n", []seen{{
			Line: 2, Source: `["o","d","t","true"]`,
			Object: `{"organization_id":"o","discovery_domain_id":"d","verification_txt":"t","use_for_organization_discovery":true}`,
		}}},
		{"columns in another order",
			"use_for_organization_discovery,discovery_domain_id,organization_id\nFALSE,d,o\n", []seen{{
				Line: 2, Source: `["FALSE","d","o"]`,
				Object: `{"organization_id":"o","discovery_domain_id":"d","use_for_organization_discovery":false}`,
			}}},
		{"quotes", "\"organization_id\",discovery_domain_id\n\"o\",\"d\"\n", []seen{{
			Line: 2, Source: `["o","d"]`, Object: `{"organization_id":"o","discovery_domain_id":"d"}`,
		}}},
		{"commas, quotes and line ends inside of quotes", header + "o,d,\"a,\"\"b\"\"\r\nc\",\no,d,,\n", []seen{
			{
				Line: 2, Source: `["o","d","a,\"b\"\nc",""]`,
				Object: `{"organization_id":"o","discovery_domain_id":"d","verification_txt":"a,\"b\"\nc"}`,
			},
			ok(1, 4),
		}},
		{"a quoted cell before CR LF", header + "o,d,,\"true\"\r\n", []seen{{
			Line: 2, Source: `["o","d","","true"]`,
			Object: `{"organization_id":"o","discovery_domain_id":"d","use_for_organization_discovery":true}`,
		}}},
		{"JSON in a cell", "organization_id,discovery_domain_id,note\no,d,\"{ \"\"a\"\": [1, 2.50] }\"\n", []seen{{
			Line: 2, Source: `["o","d","{ \"a\": [1, 2.50] }"]`,
			Object: `{"organization_id":"o","discovery_domain_id":"d","note":"{ \"a\": [1, 2.50] }"}`,
		}}},
		{"columns of an export are ignored",
			"orgops_outcome,organization_id,discovery_domain_id,orgops_error,orgops_error\nrefused,o,d,why,\n", []seen{{
				Line: 2, Source: `["refused","o","d","why",""]`, Object: `{"organization_id":"o","discovery_domain_id":"d"}`,
			}}},
		{"a bad row does not end the reading", header + "o,,,maybe\no,d,,\n", []seen{
			{Line: 2, Source: `["o","","","maybe"]`, Err: `rows:2: row 0: use_for_organization_discovery: want true or false, got "maybe"`},
			ok(1, 3),
		}},
		{
			"a required cell is empty", header + ",d,,\n",
			[]seen{{Line: 2, Source: `["","d","",""]`, Err: "rows:2: row 0: organization_id is missing"}},
		},
		{"the header again", header + "o,d,,\n" + header, []seen{ok(0, 2), {
			Item: 1, Line: 3,
			Source: `["organization_id","discovery_domain_id","verification_txt","use_for_organization_discovery"]`,
			Err:    "rows:3: row 1: this is the header line again: remove it",
		}}},
		{"nothing but commas and blanks", header + ",,,\n , ,\u00a0,\no,d,,\n,,", []seen{ok(0, 4)}},
		{"a quoted empty cell, a line of blanks", header + "\"\"\n  \no,d,,\n", []seen{ok(0, 4)}},
		{"empty cells at the end, too many", header + "o,d,,, ,\n", []seen{ok(0, 2)}},
		{"too few cells, too many", header + "o,d\no,d,,,x\n", []seen{
			{Line: 2, Source: `["o","d"]`, Err: "rows:2: row 0: 2 cells where the header has 4"},
			{Item: 1, Line: 3, Source: `["o","d","","","x"]`, Err: "rows:3: row 1: 5 cells where the header has 4"},
		}},
		{"not UTF-8", header + "o,d,\xff,\no,d,,\n", []seen{
			{Line: 2, Source: `["o","d","\ufffd",""]`, Err: `rows:2: row 0: column 3 ("verification_txt") is not UTF-8 but probably Windows-1252: save the file as UTF-8`},
			ok(1, 3),
		}},
		{"two halves of a character in two cells", header + "o,d,\xc3,\xa9\n", []seen{{
			Line: 2, Source: `["o","d","\ufffd","\ufffd"]`,
			Err: `rows:2: row 0: column 3 ("verification_txt") is not UTF-8 but probably Windows-1252: save the file as UTF-8; column 4 ("use_for_organization_discovery") is not UTF-8 but probably Windows-1252: save the file as UTF-8`,
		}}},
		{"NUL, in an ignored column too", "organization_id,discovery_domain_id,orgops_error\no,d,a\x00b\n", []seen{{
			Line: 2, Source: `["o","d","a\u0000b"]`, Err: `rows:2: row 0: column 3 ("orgops_error") has a NUL in it`,
		}}},
		{"a quote in a plain cell", header + "o,d,a\"b,\no,d,,\n", []seen{
			{Line: 2, Err: "rows:2: row 0: a quote in the middle of cell 3; put the whole cell in quotes and double each quote in it"},
			ok(1, 3),
		}},
		{"text after a closing quote", header + "\"o\"x,d,,\no,d,,\n", []seen{
			{Line: 2, Err: "rows:2: row 0: a quote in the middle of cell 1; put the whole cell in quotes and double each quote in it"},
			ok(1, 3),
		}},
		{"a CR after a closing quote", header + "\"o\"\rx,d,,\no,d,,\n", []seen{
			{Line: 2, Err: "rows:2: row 0: a quote in the middle of cell 1; put the whole cell in quotes and double each quote in it"},
			ok(1, 3),
		}},
		{"a quote that is never closed", header + "o,d,,\no,\n\"d,,\no,d,,\n", []seen{
			ok(0, 2),
			{Item: 1, Line: 3, Source: `["o",""]`, Err: "rows:3: row 1: 2 cells where the header has 4"},
			{
				Item: 2, Line: 4,
				Err: "rows:4: row 2: the quote opened in line 4 is never closed; the rest of the input was read as one cell",
			},
		}},
		{"control characters are quoted, long values cut",
			header + "o,d,,\"\x1b[31m" + strings.Repeat("x", 100) + "\"\n", []seen{{
				Line: 2, Source: `["o","d","","\u001b[31m` + strings.Repeat("x", 100) + `"]`,
				Err: `rows:2: row 0: use_for_organization_discovery: want true or false, got "\x1b[31m` + strings.Repeat("x", 95) + `"…`,
			}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, mark := range []string{"", "\ufeff"} {
				r := open(t, mark+test.text, domains)
				if r.Format() != rowfile.FormatCSV {
					t.Errorf("Format() = %q, want csv", r.Format())
				}
				if diff := cmp.Diff(test.want, readAll(t, r, domains)); diff != "" {
					t.Errorf("with byte order mark %q, records (-want +got):\n%s", mark, diff)
				}
			}
		})
	}
}

func TestCSVColumnsAsGiven(t *testing.T) {
	r := open(t, "orgops_outcome,discovery_domain_id,\"organization_id\"\r\n", domains)
	if diff := cmp.Diff([]string{"orgops_outcome", "discovery_domain_id", "organization_id"}, r.Columns()); diff != "" {
		t.Errorf("Columns (-want +got):\n%s", diff)
	}
}

func TestHeader(t *testing.T) {
	manyColumns := make([]string, 12)
	for i := range manyColumns {
		manyColumns[i] = fmt.Sprintf("c%d", i)
	}
	const required = "organization_id,discovery_domain_id"
	tests := []struct {
		name, text string
		schema     rowfile.Schema
		want       string
	}{
		{"empty", "", domains, "rows:1: the input is empty; expected " + domainsExpected},
		{"blanks alone", " \r\n\t\n", templates, "rows:3: the input is empty; expected one JSON object a line"},
		{"a byte order mark alone", "\ufeff", domains, "rows:1: the input is empty; expected " + domainsExpected},
		{
			"missing", "\n\norganization_id\n", domains,
			`rows:3: missing column "discovery_domain_id"; expected ` + domainsExpected,
		},
		{"unknown, with blanks", required + ", Verificaton TXT\n", domains,
			`rows:1: unknown column "Verificaton TXT" (did you mean verification_txt?); expected ` + domainsExpected},
		{"misspelt", "organisation_id,discoverydomainid,colour\n", domains,
			`rows:1: missing columns "organization_id", "discovery_domain_id"; unknown columns "organisation_id" (did you mean organization_id?), "discoverydomainid" (did you mean discovery_domain_id?), "colour"; expected ` + domainsExpected},
		{"double", required + ",organization_id,organization_id\n", domains,
			`rows:1: double column "organization_id"; expected ` + domainsExpected},
		{"all at once", "organization_id,organization_id,x\x1b\u202e\n", domains,
			`rows:1: missing column "discovery_domain_id"; unknown column "x\x1b\u202e"; double column "organization_id"; expected ` +
				domainsExpected},
		{"many unknown", required + "," + strings.Join(manyColumns, ",") + "\n", domains,
			`rows:1: unknown columns "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7" and 4 more; expected ` + domainsExpected},
		{"an empty name", ",id," + required + "\n", domains, `rows:1: unknown columns "", "id"; expected ` + domainsExpected},
		{"double in two forms", required + ",Organization ID\n", domains,
			`rows:1: double column "organization_id"; expected ` + domainsExpected},
		{"semicolons", "organization_id;discoverydomainid;Kunde\n", domains,
			`rows:1: missing column "discovery_domain_id"; unknown columns "discoverydomainid" (did you mean discovery_domain_id?), "Kunde"; expected ` + domainsExpected},
		{"a row instead of it", "org_1,ord_1\n", domains,
			`rows:1: there is no header line: this line is a row ("org_1,ord_1"); begin the input with the names of its columns; expected ` + domainsExpected},
		{"a row with semicolons", "ord_1;org_1;true\n", domains,
			`rows:1: there is no header line: this line is a row ("ord_1;org_1;true"); begin the input with the names of its columns; expected ` + domainsExpected},
		{
			"not UTF-8", required + ",\xff\n", domains,
			"rows:1: the header's column 3 is not UTF-8 but probably Windows-1252: save the file as UTF-8; expected " + domainsExpected,
		},
		{"NUL", required + ",\x00\n", domains, "rows:1: the header's column 3 has a NUL in it; expected " + domainsExpected},
		{"broken quoting", "\"organization_id,discovery_domain_id\n", domains,
			"rows:1: the quote opened in line 1 is never closed; the rest of the input was read as one cell; expected " +
				domainsExpected},
		{"too long", strings.Repeat("x", rowfile.MaxCSVRow+1) + "\n", domains,
			"rows:1: the row is longer than 262144 bytes: is each quote closed? The rows after it were not read; expected " +
				domainsExpected},
		{"CSV for whole objects", "\nname,type\n", templates,
			`rows:2: the first line does not begin with { but with "n", and CSV cannot hold these rows; expected one JSON object a line`},
		{"optional columns alone", "x\n", rowfile.Schema{Columns: []tasks.Column{{Name: "a"}, {Name: "b"}}},
			`rows:1: unknown column "x"; expected [a, b]`},
		{"required columns alone", "x\n", rowfile.Schema{Columns: []tasks.Column{{Name: "a", Required: true}}},
			`rows:1: missing column "a"; unknown column "x"; expected a`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := rowfile.Open("rows", strings.NewReader(test.text), test.schema)
			if _, ok := errors.AsType[*rowfile.HeaderError](err); !ok {
				t.Fatalf("Open's error is %v (%T), want a *HeaderError", err, err)
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJSONLines(t *testing.T) {
	const ok = `{"organization_id":"o","discovery_domain_id":"d"}`
	with := func(more string) string { return strings.TrimSuffix(ok, "}") + "," + more + "}" }
	bad := func(line, msg string) []seen {
		return []seen{{Line: 1, Source: line, Err: "rows:1: row 0: " + msg}}
	}
	tests := []struct {
		name, text string
		want       []seen
	}{
		{"a row", ok + "\n", []seen{{Line: 1, Source: ok, Object: ok}}},
		{"the last line without its end, blank lines, CR LF", "\n" + ok + "\r\n \t\r\n" + ok, []seen{
			{Line: 2, Source: ok, Object: ok}, {Item: 1, Line: 4, Source: ok, Object: ok},
		}},
		{"members in another order, blanks, escapes, ignored members",
			`{ "note" : "\u0041" , "use_for_organization_discovery":true,"orgops_error":{"a":1}, "discovery_domain_id":"\u0064" ,"verification_txt":"","organization_id":"o" } `, []seen{{
				Line:   1,
				Source: `{ "note" : "\u0041" , "use_for_organization_discovery":true,"orgops_error":{"a":1}, "discovery_domain_id":"\u0064" ,"verification_txt":"","organization_id":"o" } `,
				Object: `{"organization_id":"o","discovery_domain_id":"d","use_for_organization_discovery":true,"note":"A"}`,
			}}},
		{"a pair of surrogates", with(`"verification_txt":"\ud83d\ude00\\ud800"`), []seen{{
			Line: 1, Source: with(`"verification_txt":"\ud83d\ude00\\ud800"`), Object: with(`"verification_txt":"😀\\ud800"`),
		}}},
		{"half a pair", with(`"verification_txt":"\ud83dx"`),
			bad(with(`"verification_txt":"\ud83dx"`), "not JSON: invalid surrogate pair `\\ud83dx\"}` in string at byte 69")},
		{"the second half first", with(`"verification_txt":"\ude00\ud83d"`),
			bad(with(`"verification_txt":"\ude00\ud83d"`),
				"not JSON: invalid surrogate pair `\\ude00\\ud83d` in string at byte 69")},
		{"an escaped NUL", with(`"verification_txt":"\u0000"`),
			bad(with(`"verification_txt":"\u0000"`), `verification_txt: want text without NUL, got "\x00"`)},
		{"a boolean as text", with(`"use_for_organization_discovery":"maybe"`),
			bad(with(`"use_for_organization_discovery":"maybe"`),
				`use_for_organization_discovery: want true or false, got "maybe"`)},
		{"null", with(`"use_for_organization_discovery":null,"verification_txt":null`), []seen{{
			Line: 1, Source: with(`"use_for_organization_discovery":null,"verification_txt":null`), Object: ok,
		}}},
		{"null for an id", `{"organization_id":null,"discovery_domain_id":"d"}`,
			bad(`{"organization_id":null,"discovery_domain_id":"d"}`, "organization_id is missing")},
		{"a damaged character", with(`"verification_txt":"�"`), bad(with(`"verification_txt":"�"`),
			"the line has the character U+FFFD, a remainder of damaged text: save the file as UTF-8 again")},
		{"a number for text", with(`"verification_txt":1e400`),
			bad(with(`"verification_txt":1e400`), `verification_txt: want text, got 1e400`)},
		{"a long array for text", with(`"verification_txt":[` + strings.Repeat("1,", 50) + `1]`),
			bad(with(`"verification_txt":[`+strings.Repeat("1,", 50)+`1]`),
				`verification_txt: want text, got [`+strings.Repeat("1,", 49)+"1…")},
		{"required and empty", `{"organization_id":"","discovery_domain_id":"d"}`,
			bad(`{"organization_id":"","discovery_domain_id":"d"}`, `organization_id: want text that is not empty, got ""`)},
		{"missing", `{}`, bad(`{}`, "organization_id is missing; discovery_domain_id is missing")},
		{
			"unknown", with(`"Note":1,"x\u001b":2`), bad(with(`"Note":1,"x\u001b":2`),
				`unknown members "Note" (did you mean note?), "x\x1b" (expected `+domainsExpected+`)`),
		},
		{"double", with(`"organization_\u0069d":"p"`), bad(with(`"organization_\u0069d":"p"`),
			`member "organization_id" occurs twice`)},
		{"double, deep down", with(`"note":[{"a":1},{"a":{"b":"b","c":[],"b":2}}]`),
			bad(with(`"note":[{"a":1},{"a":{"b":"b","c":[],"b":2}}]`), `member "b" occurs twice`)},
		{
			"broken JSON", `{"organization_id":"o",}`, bad(`{"organization_id":"o",}`,
				"not JSON: invalid character ',' at start of value at byte 22"),
		},
		{"cut", `{"organization_id":"o"`, bad(`{"organization_id":"o"`, "not JSON: unexpected EOF at byte 22")},
		{
			"two values in a line", ok + " " + ok,
			bad(ok+" "+ok, "not JSON: more text after the object, at byte 49"),
		},
		{"not an object", ok + "\n[]\nnull\n" + ok, []seen{
			{Line: 1, Source: ok, Object: ok},
			{Item: 1, Line: 2, Source: "[]", Err: "rows:2: row 1: not a JSON object: it must begin with {"},
			{Item: 2, Line: 3, Source: "null", Err: "rows:3: row 2: not a JSON object: it must begin with {"},
			{Item: 3, Line: 4, Source: ok, Object: ok},
		}},
		{"not UTF-8", with("\"verification_txt\":\"\xff\""),
			bad(with("\"verification_txt\":\"\xff\""), "the line is not UTF-8 but probably Windows-1252: save the file as UTF-8")},
		{"NUL", "{ \x00}", bad("{ \x00}", "the line has a NUL in it")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, mark := range []string{"", "\ufeff"} {
				r := open(t, mark+test.text, domains)
				if r.Format() != rowfile.FormatJSONL || r.Columns() != nil {
					t.Errorf("Format() = %q, Columns() = %q, want jsonl and none", r.Format(), r.Columns())
				}
				if diff := cmp.Diff(test.want, readAll(t, r, domains)); diff != "" {
					t.Errorf("with byte order mark %q, records (-want +got):\n%s", mark, diff)
				}
			}
		})
	}
}

func TestWholeObjects(t *testing.T) {
	tests := []struct {
		name, line, object, err string
	}{
		{name: "as it is", line: ` { "name" : "a",  "x": [1.0, null] }`, object: `{ "name" : "a",  "x": [1.0, null] }`},
		{
			name:   "without what an export added",
			line:   `{"orgops_outcome":"failed", "name" : "a" ,"orgops_error":"why","x":{"orgops_y":1}}`,
			object: `{"name":"a","x":{"orgops_y":1}}`,
		},
		{name: "nothing left", line: `{"orgops_outcome":"failed"}`, object: `{}`},
		{name: "the same name on two levels", line: `{"name":{"name":{"name":1},"a":[{"name":2}]}}`,
			object: `{"name":{"name":{"name":1},"a":[{"name":2}]}}`},
		{name: "double", line: `{"name":"a","name":"b"}`, err: `rows:1: row 0: member "name" occurs twice`},
		{
			name: "not an object", line: `{]`,
			err: "rows:1: row 0: not JSON: invalid character ']' at start of value at byte 1",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := readAll(t, open(t, test.line+"\n", templates), templates)
			want := []seen{{Line: 1, Source: strings.TrimLeft(test.line, " "), Object: test.object, Err: test.err}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSameObjectFromBothFormats(t *testing.T) {
	csv := open(t,
		"note,verification_txt,organization_id,use_for_organization_discovery,discovery_domain_id\n\"[1, \"\"<é>\"\"]\",\"a\"\"<b>é\",o,TRUE,d\n", domains)
	jsonl := open(t,
		`{"note":"[1, \"<é>\"]","use_for_organization_discovery":true,"verification_txt":"a\"\u003cb>\u00e9","discovery_domain_id":"d","organization_id":"o"}`, domains)
	fromCSV, fromJSON := readAll(t, csv, domains), readAll(t, jsonl, domains)
	if fromCSV[0].Err != "" || fromJSON[0].Err != "" {
		t.Fatalf("errors %q and %q, want none", fromCSV[0].Err, fromJSON[0].Err)
	}
	if diff := cmp.Diff(fromCSV[0].Object, fromJSON[0].Object); diff != "" {
		t.Errorf("object from CSV and from JSON (-csv +jsonl):\n%s", diff)
	}
}

func TestRowLimit(t *testing.T) {
	const header = "organization_id,discovery_domain_id,verification_txt\n"
	const longLine = `{"organization_id":"o","discovery_domain_id":"d","verification_txt":"`
	fill, long := strings.Repeat("x", rowfile.MaxCSVRow), strings.Repeat("x", rowfile.MaxRow)
	for name, tt := range map[string]struct {
		most int
		text string
	}{
		"CSV cell":   {rowfile.MaxCSVRow, header + "o,d,\n\no,d," + fill + "\no,d,\n"},
		"CSV commas": {rowfile.MaxCSVRow, header + "o,d,\n\n" + strings.Repeat(",", rowfile.MaxCSVRow+1) + "\no,d,\n"},
		"CSV quoted lines": {
			rowfile.MaxCSVRow, header + "o,d,\n\no,d,\"" + strings.Repeat("\n", rowfile.MaxCSVRow) + "\"\no,d,\n",
		},
		"CSV much longer": {rowfile.MaxCSVRow, header + "o,d,\n\no,d," + fill + fill + "\no,d,\n"},
		"JSON":            {rowfile.MaxRow, "\n" + longLine + "\"}\n\n" + longLine + long + "\"}\n" + longLine + "\"}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r := open(t, tt.text, domains)
			if first, err := r.Next(); err != nil || first.Err != nil {
				t.Fatalf("the row before it: %v, %v", first.Err, err)
			}
			_, err := r.Next()
			want := fmt.Sprintf(
				"rows:4: the row is longer than %d bytes: is each quote closed? The rows after it were not read; expected %s",
				tt.most, domainsExpected)
			if _, refused := errors.AsType[*rowfile.HeaderError](err); !refused || err.Error() != want {
				t.Errorf("error %v, want %s", err, want)
			}
		})
	}
}

// TestLongRowsAreNotKept streams rows of 4 MiB: what is allocated on the way is
// bounded by MaxCSVRow, whose 262,144 cells take some 45 MiB while their lists
// grow, and by MaxRow, and not by the rows.
func TestLongRowsAreNotKept(t *testing.T) {
	const header = "organization_id,discovery_domain_id\n"
	for name, test := range map[string]struct{ start, line string }{
		"cells":        {header, ","},
		"one cell":     {header, "x"},
		"quoted lines": {header + "\"", "\n"},
		"JSON":         {"{", " "},
	} {
		t.Run(name, func(t *testing.T) {
			long := io.LimitReader(endless{test.line}, 4<<20)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r, err := rowfile.Open("rows", io.MultiReader(strings.NewReader(test.start), long), domains)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Next(); err == nil || errors.Is(err, io.EOF) {
				t.Errorf("error %v, want that the row is too long", err)
			}
			runtime.ReadMemStats(&after)
			if allocated := (after.TotalAlloc - before.TotalAlloc) >> 20; allocated > 80 {
				t.Errorf("%d MiB were allocated, want at most 80", allocated)
			}
		})
	}
}

func TestRowAtTheLimitIsTaken(t *testing.T) {
	const start, end = `{"organization_id":"o","discovery_domain_id":"d","verification_txt":"`, `"}`
	fill := strings.Repeat("x", rowfile.MaxRow-len(start)-len(end))
	for _, lineEnd := range []string{"", "\n", "\r\n"} {
		got := readAll(t, open(t, start+fill+end+lineEnd, domains), domains)
		if len(got) != 1 || got[0].Err != "" {
			t.Errorf("a JSON line of MaxRow bytes ending in %q: %d records, error %.100q", lineEnd, len(got), got[0].Err)
		}
	}
	if _, err := open(t, start+fill+"x"+end, domains).Next(); err == nil {
		t.Error("a JSON line of MaxRow+1 bytes was taken")
	}
	row := "o,d," + strings.Repeat("x", rowfile.MaxCSVRow-len("o,d,")-len("\n")) + "\n"
	if got := readAll(t, open(t, "organization_id,discovery_domain_id,verification_txt\n"+row, domains),
		domains); got[0].Err != "" {
		t.Errorf("a CSV record of MaxCSVRow bytes: %s", got[0].Err)
	}
}

func TestGzip(t *testing.T) {
	const text = "\ufefforganization_id,discovery_domain_id\r\no,d\r\no,\r\n\r\n"
	twoMembers := append(zipped(t, text[:20]), zipped(t, text[20:])...)
	for name, data := range map[string][]byte{"plain": []byte(text), "gzip": zipped(t, text),
		"gzip of two members": twoMembers} {
		t.Run(name, func(t *testing.T) {
			r, err := rowfile.Open("rows", iotest.OneByteReader(bytes.NewReader(data)), domains)
			if err != nil {
				t.Fatal(err)
			}
			if got := readAll(t, r, domains); len(got) != 2 {
				t.Errorf("%d records, want 2", len(got))
			}
			if _, err := r.Next(); !errors.Is(err, io.EOF) {
				t.Errorf("Next after the end: %v, want io.EOF", err)
			}
		})
	}
}

func TestBrokenInput(t *testing.T) {
	broken := errors.New("disk on fire")
	const text = "organization_id,discovery_domain_id\no,d\no,d\n"
	whole := zipped(t, strings.Repeat(text, 2000))
	tests := []struct {
		name  string
		input io.Reader
		is    error
		want  string
	}{
		{"before the header", iotest.ErrReader(broken), broken, "read rows: disk on fire"},
		{"in the header", io.MultiReader(strings.NewReader(text[:20]), iotest.ErrReader(broken)), broken,
			"read rows: disk on fire"},
		{"in a CSV row", io.MultiReader(strings.NewReader(text[:36]+strings.Repeat("o,d\n", 2000)+"o,"),
			iotest.ErrReader(broken)), broken, "read rows at line 2002: disk on fire"},
		{"in a JSON row", io.MultiReader(strings.NewReader(strings.Repeat("{}\n", 2000)+"{"), iotest.ErrReader(broken)),
			broken, "read rows at line 2001: disk on fire"},
		{"in a JSON array", io.MultiReader(strings.NewReader("["+strings.Repeat("{},\n", 2000)+"{"),
			iotest.ErrReader(broken)), broken, "read rows at line 2001: disk on fire"},
		{"gzip cut", bytes.NewReader(whole[:len(whole)-10]), io.ErrUnexpectedEOF, ""},
		{"gzip with junk after it", bytes.NewReader(append(bytes.Clone(whole), "junk that is longer than a header"...)),
			gzip.ErrHeader, ""},
		{"gzip's header alone", bytes.NewReader(whole[:5]), io.ErrUnexpectedEOF,
			"read rows: it begins like gzip: unexpected EOF"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r, err := rowfile.Open("rows", test.input, domains)
			for err == nil {
				_, err = r.Next()
			}
			if !errors.Is(err, test.is) || (test.want != "" && err.Error() != test.want) {
				t.Errorf("error %q, want %q (%v)", err, test.want, test.is)
			}
			if r != nil {
				if _, again := r.Next(); again == nil || again.Error() != err.Error() {
					t.Errorf("Next once more: %v, want the same error", again)
				}
			}
		})
	}
}

// endless is an input that never ends, in memory that does not grow.
type endless struct{ line string }

func (e endless) Read(p []byte) (int, error) {
	n := 0
	for n+len(e.line) <= len(p) {
		n += copy(p[n:], e.line)
	}
	return n, nil
}

func TestRecordOutlastsTheNextRead(t *testing.T) {
	for _, input := range []io.Reader{
		io.MultiReader(strings.NewReader("organization_id,discovery_domain_id\n"), endless{"o,d\n"}),
		endless{`{"organization_id":"o","discovery_domain_id":"d"}` + "\n"},
	} {
		r, err := rowfile.Open("rows", input, domains)
		if err != nil {
			t.Fatal(err)
		}
		first, err := r.Next()
		if err != nil || first.Err != nil {
			t.Fatalf("Next: %v, %v", err, first.Err)
		}
		object := rowfile.ObjectOf(domains, first)
		for range 10_000 {
			if _, err := r.Next(); err != nil {
				t.Fatal(err)
			}
		}
		if now := rowfile.ObjectOf(domains, first); now != object {
			t.Errorf("the first record was %s and is %s", object, now)
		}
	}
}
