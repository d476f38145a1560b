package rowfile_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode"

	"orgops/internal/rowfile"
)

// record is a record with its row as it came, and as an object.
type record struct {
	rowfile.Record
	Source, Object string
}

// drain reads all of it and holds every record against what is promised of one.
func drain(t *testing.T, data []byte, s rowfile.Schema) []record {
	t.Helper()
	r, err := rowfile.Open("rows", bytes.NewReader(data), s)
	if err != nil {
		checkWords(t, err)
		return nil
	}
	var all []record
	for line := 0; ; {
		next, err := r.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				checkWords(t, err)
			}
			return all
		}
		if next.Item != int64(len(all)) || next.Line < line {
			t.Fatalf("item %d in line %d follows item %d in line %d", next.Item, next.Line, len(all)-1, line)
		}
		line = next.Line
		one := record{Record: next, Source: r.Source(), Object: rowfile.ObjectOf(s, next)}
		all = append(all, one)
		if next.Err != nil {
			checkWords(t, next.Err)
			if next.Values != nil || next.Object != nil {
				t.Fatalf("a bad row with an object: %s", one.Object)
			}
			continue
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal([]byte(one.Object), &members); err != nil {
			t.Fatalf("object %q of a good row: %v", one.Object, err)
		}
		for _, c := range s.Columns {
			if _, ok := members[c.Name]; c.Required && !ok {
				t.Fatalf("object %q of a good row lacks %s", one.Object, c.Name)
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
	for _, rows := range []string{"", "o,d,\n", "o,\"d\"\"\r\n\",1\r\n\r\no,d,{}", "\"o", "o\"x\"\no,d,", "\"\"\r\n,,\n",
		"\"o\"\r,d,\n", "\xff,\x00,\n"} {
		f.Add([]byte(rows))
	}
	f.Fuzz(func(t *testing.T, rows []byte) {
		drain(t, append([]byte(header), rows...), domains)
	})
}

func FuzzCSVHeader(f *testing.F) {
	for _, text := range []string{"organization_id,discovery_domain_id\no,d", "\ufeff\"organization_id\"", "a;b",
		"\x1f\x8b", "PK\x03\x04", "[", " \n\n,", "\xff\xfeo\x00", "organization_id;Discovery-Domain ID;;\ro;d\r;;",
		`[{"organization_id":"o","discovery_domain_id":null},` + "\n[],1]", "{\n}{} {", "o\x00r\x00"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) { drain(t, text, domains) })
}

func FuzzJSONLines(f *testing.F) {
	for _, line := range []string{
		`"organization_id":"o","discovery_domain_id":"d"}`, `"organization_id":"\ud800\u0000"}` + "\r\n\n{}", `}`,
		`"note":{"a":[1,{"a":2,"a":3}]}}`,
		`"orgops_error":1,"use_for_organization_discovery":true} {}`, "\x00\xff", "\n[]\nnull",
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, rest []byte) {
		text := append([]byte{'{'}, rest...)
		drain(t, text, domains)
		for _, record := range drain(t, text, templates) {
			if record.Err == nil && !strings.Contains(record.Source, "orgops_") && !strings.Contains(record.Source, `\u`) &&
				!bytes.Equal(bytes.TrimSpace([]byte(record.Source)), []byte(record.Object)) {
				t.Fatalf("whole object %q of line %q", record.Object, record.Source)
			}
		}
	})
}

// FuzzGzip: what is gzipped is read as if it were not, and a stream that is cut
// short or damaged is an error, not a shorter file.
func FuzzGzip(f *testing.F) {
	f.Add([]byte("organization_id,discovery_domain_id\no,d\n"), uint16(3), byte(0))
	f.Add([]byte(`{"organization_id":"o","discovery_domain_id":"d"}`), uint16(60), byte(1))
	f.Add([]byte(strings.Repeat("organization_id,discovery_domain_id\n", 100)), uint16(20), byte(0x80))
	f.Fuzz(func(t *testing.T, text []byte, at uint16, flip byte) {
		if bytes.HasPrefix(text, []byte("\x1f\x8b")) {
			return // gzipped twice is not unpacked twice
		}
		packed := zipped(t, string(text))
		plain, whole := drain(t, text, domains), drain(t, packed, domains)
		if len(plain) != len(whole) {
			t.Fatalf("%d records of %q, gzipped %d", len(plain), text, len(whole))
		}
		for i := range plain {
			if plain[i].Source != whole[i].Source || plain[i].Object != whole[i].Object {
				t.Fatalf("record %d of %q is %q, gzipped %q", i, text, plain[i].Source, whole[i].Source)
			}
		}
		n := int(at) % len(packed)
		if err := readThrough(packed[:n]); err == nil {
			t.Fatalf("%q cut to %d of %d bytes is no error", packed, n, len(packed))
		}
		damaged := bytes.Clone(packed)
		damaged[n] ^= flip
		drain(t, damaged, domains)
	})
}

// readThrough is how the reading of a whole input ends; nil: at its end.
func readThrough(data []byte) error {
	r, err := rowfile.Open("rows", bytes.NewReader(data), domains)
	for err == nil {
		_, err = r.Next()
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
