package intake_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode"

	"orgops/internal/intake"
)

// drain reads all of it and holds every record against what is promised of one.
func drain(t *testing.T, data []byte, s intake.Schema) []intake.Record {
	t.Helper()
	r, err := intake.Open("rows", bytes.NewReader(data), s)
	if err != nil {
		checkWords(t, err)
		return nil
	}
	var all []intake.Record
	for line := 0; ; {
		record, err := r.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				checkWords(t, err)
			}
			return all
		}
		if record.Item != int64(len(all)) || record.Line <= line {
			t.Fatalf("item %d in line %d follows item %d in line %d", record.Item, record.Line, len(all)-1, line)
		}
		line = record.Line
		all = append(all, record)
		if record.Err != nil {
			checkWords(t, record.Err)
			if record.Object != nil {
				t.Fatalf("a bad row with an object: %s", record.Object)
			}
			continue
		}
		var members map[string]any
		if err := json.Unmarshal(record.Object, &members); err != nil {
			t.Fatalf("object %q of a good row: %v", record.Object, err)
		}
		for _, c := range s.Columns {
			if _, ok := members[c.Name]; c.Required && !ok {
				t.Fatalf("object %q of a good row lacks %s", record.Object, c.Name)
			}
		}
	}
}

func checkWords(t *testing.T, err error) {
	t.Helper()
	text := err.Error()
	if i := strings.IndexFunc(text, unicode.IsControl); i >= 0 || len(text) > 64<<10 {
		t.Fatalf("an error of %d bytes, control character at %d: %q", len(text), i, text)
	}
}

func FuzzCSV(f *testing.F) {
	const header = "organization_id,discovery_domain_id,note\n"
	for _, rows := range []string{"", "o,d,\n", "o,\"d\"\"\r\n\",1\r\n\r\no,d,{}", "\"o", "o\"x\"\no,d,", "\"\"\r\n,,\n", "\"o\"\r,d,\n", "\xff,\x00,\n"} {
		f.Add([]byte(rows))
	}
	f.Fuzz(func(t *testing.T, rows []byte) {
		got := drain(t, append([]byte(header), rows...), domains)
		if len(rows) > intake.MaxRow {
			return
		}
		// encoding/csv is the reference where it finds nothing wrong, but for
		// what it changes: line ends inside of quotes.
		if bytes.Contains(rows, []byte("\r")) {
			return
		}
		reference := csv.NewReader(bytes.NewReader(rows))
		reference.FieldsPerRecord = -1
		want, err := reference.ReadAll()
		if err != nil {
			return
		}
		if len(got) != len(want) {
			t.Fatalf("%d records of %q, encoding/csv reads %d", len(got), rows, len(want))
		}
		for i := range want {
			source, err := json.Marshal(want[i])
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(source, got[i].Source) {
				t.Fatalf("record %d of %q: cells %s, encoding/csv reads %s", i, rows, got[i].Source, source)
			}
		}
	})
}

func FuzzCSVHeader(f *testing.F) {
	for _, text := range []string{"organization_id,discovery_domain_id\no,d", "\ufeff\"organization_id\"", "a;b", "\x1f\x8b", "PK\x03\x04", "[", " \n\n,"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) { drain(t, text, domains) })
}

func FuzzJSONLines(f *testing.F) {
	for _, line := range []string{
		`"organization_id":"o","discovery_domain_id":"d"}`, `"organization_id":"\ud800\u0000"}` + "\r\n\n{}", `}`, `"note":{"a":[1,{"a":2,"a":3}]}}`,
		`"orgops_error":1,"use_for_organization_discovery":true} {}`, "\x00\xff", "\n[]\nnull",
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, rest []byte) {
		text := append([]byte{'{'}, rest...)
		drain(t, text, domains)
		for _, record := range drain(t, text, templates) {
			if record.Err == nil && !bytes.Contains(record.Source, []byte("orgops_")) && !strings.Contains(string(record.Source), `\u`) &&
				!bytes.Equal(bytes.TrimSpace(record.Source), record.Object) {
				t.Fatalf("whole object %q of line %q", record.Object, record.Source)
			}
		}
	})
}
