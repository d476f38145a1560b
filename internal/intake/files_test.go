package intake_test

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/index"
	"orgops/internal/intake"
	"orgops/tasks"
)

// asUTF16 returns text in UTF-16.
func asUTF16(order binary.AppendByteOrder, text string) string {
	var out []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		out = order.AppendUint16(out, unit)
	}
	return string(out)
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// archive returns a zip archive of files, given by name and content.
func archive(t *testing.T, files ...string) string {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for i := 0; i < len(files); i += 2 {
		f, err := w.CreateHeader(&zip.FileHeader{Name: files[i]}) // stored as it is
		if err == nil {
			_, err = f.Write([]byte(files[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestFilesOfPeople has files as spreadsheets, databases and people write them.
func TestFilesOfPeople(t *testing.T) {
	const (
		commas   = "organization_id,discovery_domain_id,use_for_organization_discovery\n"
		semis    = "organization_id;discovery_domain_id;use_for_organization_discovery\n"
		tabs     = "organization_id\tdiscovery_domain_id\tuse_for_organization_discovery\n"
		expected = "; expected organization_id, discovery_domain_id (or domain)[, verification_host, verification_txt, " +
			"use_for_organization_discovery]"
		object = `{"organization_id":"org_A1","discovery_domain_id":"ord_B1"}`
	)
	crlf := func(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") }
	little, big := binary.LittleEndian, binary.BigEndian
	tests := []struct {
		name, content string
		pipe          bool
		want          string
	}{
		// Spreadsheets.
		{"Excel in English, CSV UTF-8", "\ufeff" + crlf(commas+"org_A1,ord_B1,TRUE\n"), false, "1 row"},
		{"Excel in German, CSV UTF-8", "\ufeff" + crlf(semis+"org_A1;ord_B1;WAHR\norg_A2;ord_B2;FALSCH\n"), false,
			"2 rows, separated by ;, 2 values read as true or false"},
		{"Excel, Unicode text", asUTF16(little, "\ufeff"+crlf(tabs+"org_A1\tord_B1\tTRUE\n")), false,
			"1 row, read as UTF-16, separated by tabs"},
		{"Excel in German, plain CSV with an umlaut", crlf(semis + "org_A1;b\xfccher.example;WAHR\n"), false,
			`rows:2: row 0: column 2 ("discovery_domain_id") is not UTF-8 but probably Windows-1252: save the file as UTF-8, ` +
				"separated by ;, 1 value read as true or false"},
		{"Excel for the Macintosh, CSV", strings.ReplaceAll(commas+"org_A1,ord_B1,TRUE\norg_A2,,\n", "\n", "\r"), false,
			"rows:3: row 1: discovery_domain_id is missing, lines end in CR"},
		{"Excel, with columns that were used once", crlf(
			"organization_id,discovery_domain_id,,\norg_A1,ord_B1,,\n,,,\norg_A2,ord_B2,,\n,,,\n,,,\n"), false,
			"2 rows, 2 empty columns left out, 3 empty rows left out"},
		{"Excel, with names of people", crlf("Organization ID;Discovery Domain ID\norg_A1;ord_B1\n"), false,
			`1 row, separated by ;, column "Organization ID" read as organization_id, column "Discovery Domain ID" read as ` +
				`discovery_domain_id`},
		{"Excel, with a column that is not known", crlf("organization_id;discovery_domain_id;Kunde\norg_A1;ord_B1;Müller\n"),
			false, `rows:1: unknown column "Kunde"` + expected},
		{"Excel, a number instead of a token", "organization_id,discovery_domain_id,verification_txt\norg_A1,ord_B1,1.23E+31\n",
			false, `rows:2: row 0: verification_txt: "1.23E+31" is a number as a spreadsheet shortens it: format the column as text, ` +
				`and fill it again`},
		{"LibreOffice, tabs and all cells quoted", "\"organization_id\"\t\"domain\"\n\"org_A1\"\t\"Bücher.example\"\n", false,
			"1 row, separated by tabs"},
		{"LibreOffice, UTF-16 without a mark", asUTF16(big, commas+"org_A1,ord_B1,true\n"), false,
			"1 row, read as UTF-16"},
		{"Google Sheets, CSV: no end of the last line", crlf(commas+"org_A1,ord_B1,TRUE\n") + "org_A2,ord_B2,FALSE", false,
			"2 rows, line 3 has no end"},
		{"Google Sheets, the same through a pipe", crlf(commas) + "org_A1,ord_B1,TRUE", true, "rows:2: row 0: the last line has " +
			"no end, so the input may have been cut off: if it is complete, add a line end"},
		{"Google Sheets, TSV, copied", crlf(tabs+"org_A1\tord_B1\tFALSE") + "\r\n", true, "1 row, separated by tabs"},
		{"Numbers, CSV of a region with commas", "\ufeff" + semis + "org_A1;ord_B1;\n;;\n", false,
			"1 row, separated by ;, 1 empty row left out"},
		{"ids with blanks", "organization_id, discovery_domain_id\n org_A1,ord_B1 \n\u00a0org_A2\u00a0,ord_B2\n", false,
			`2 rows, column " discovery_domain_id" read as discovery_domain_id, blanks around 3 values left out`},
		{"ids in the other's column", "organization_id,discovery_domain_id\nord_B1,org_A1\n", false,
			"rows:2: row 0: organization_id: want an organization's identifier, not a discovery domain's (are the two swapped?), " +
				"got \"ord_B1\"; discovery_domain_id: want a discovery domain's identifier, not an organization's (are the two " +
				"swapped?), got \"org_A1\""},
		// Databases and programs.
		{`psql \copy with csv header`, commas + "org_A1,ord_B1,t\norg_A2,ord_B2,f\n", false,
			"2 rows, 2 values read as true or false"},
		{`psql \copy with csv, without header`, "org_A1,ord_B1,t\n", false, "rows:1: there is no header line: this line is a " +
			`row ("org_A1,ord_B1,t"); begin the input with the names of its columns` + expected},
		{"psql -A", "organization_id|discovery_domain_id\norg_A1|ord_B1\n", true, "1 row, separated by |"},
		{"mysql -B", tabs + "org_A1\tord_B1\t1\norg_A2\tord_B2\t0\n", true,
			"2 rows, separated by tabs, 2 values read as true or false"},
		{"jq -c", object + "\n", true, "1 row"},
		{"jq", "{\n  \"organization_id\": \"org_A1\",\n  \"discovery_domain_id\": \"ord_B1\"\n}\n{\n  " +
			"\"organization_id\": \"org_A2\"\n}\n", true, "rows:5: row 1: discovery_domain_id is missing, read as JSON objects of " +
			"several lines"},
		{"jq '[…]', or an answer of an API", "[\n  " + object + ",\n  {\"organization_id\":\"org_A2\",\"domain\":null}\n]\n", true,
			"rows:3: row 1: element 2: discovery_domain_id is missing, read as a JSON array, 1 null value left out"},
		{"an API's answer in one line", "[" + object + `,{"organization_id":"org_A2","discovery_domain_id":"ord_B2",` +
			`"use_for_organization_discovery":"yes","verification_txt":null}]`, true,
			"2 rows, read as a JSON array, 1 value read as true or false, 1 null value left out"},
		{"a JSON array that is cut off", "[\n" + object + ",\n" + object[:20], true,
			"rows:3: not JSON after 1 row: the input ends there: was it cut off?" + expected + ", read as a JSON array"},
		{"JSON as an editor of Windows saves it", asUTF16(little, "\ufeff"+crlf("["+object+"]\n")), false,
			"1 row, read as UTF-16, read as a JSON array"},
		// Attachments and downloads.
		{"gzipped, with semicolons", zipped(t, semis+"org_A1;ord_B1;no\n"), false,
			"1 row, separated by ;, 1 value read as true or false"},
		{"gzipped, of a row without end", zipped(t, commas+strings.Repeat(" ", 300<<10)+"\n"), false,
			"rows:2: the row is longer than 262144 bytes: is each quote closed? The rows after it were not read" + expected},
		{"zipped by a mail program", archive(t, "domains.csv", commas), false,
			"rows:1: this is a zip archive: unpack it (unzip), or save a spreadsheet as CSV" + expected},
		{"a workbook of Excel", archive(t, "[Content_Types].xml", "<Types/>"), false,
			"rows:1: this is a workbook of Excel (xlsx): save it as CSV UTF-8" + expected},
		{"a workbook of a program", archive(t, "docProps/app.xml", "<P/>", "xl/workbook.xml", "<w/>"), false,
			"rows:1: this is a workbook of Excel (xlsx): save it as CSV UTF-8" + expected},
		{"a spreadsheet of LibreOffice", archive(t, "mimetype", "application/vnd.oasis.opendocument.spreadsheet"), false,
			"rows:1: this is a spreadsheet of LibreOffice (ods): save it as CSV" + expected},
		{"a workbook of an old Excel", "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\x00\x00", false,
			"rows:1: this is a workbook of an old Excel (xls): save it as CSV UTF-8" + expected},
		{"a PDF", "%PDF-1.7\n", false,
			"rows:1: this is a PDF: export the table that it was made from as CSV" + expected},
		{"xz", "\xfd7zXZ\x00\x00", false,
			"rows:1: this is compressed by xz: decompress it (xz -d), or compress it by gzip instead" + expected},
		{"bzip2", "BZh91AY&SY", false,
			"rows:1: this is compressed by bzip2: decompress it (bunzip2), or compress it by gzip instead" + expected},
		{"zstd", "\x28\xb5\x2f\xfd\x04\x00", false,
			"rows:1: this is compressed by zstd: decompress it (zstd -d), or compress it by gzip instead" + expected},
		{"gzipped twice", zipped(t, zipped(t, commas)), false,
			"rows:1: this is compressed by gzip twice: decompress it once (gunzip)" + expected},
		{"the page of a login", "<!DOCTYPE html>", false,
			"rows:1: this is HTML or XML, not CSV or JSON: was a page saved instead of the file?" + expected},
		{"a list of names without header", "acme.example\nbeta.example\n", false, "rows:1: there is no header line: this line " +
			`is a row ("acme.example"); begin the input with the names of its columns` + expected},
		{"half a character of UTF-16", asUTF16(little, "\ufeff"+"organization_id,domain\norg_A1,") +
			"\x00\xd8a\x00\n\x00", false, `rows:2: row 0: column 2 ("domain") has the character U+FFFD, a remainder of damaged text: save the file as UTF-8 again, ` +
			"read as UTF-16"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := intake.Input{Name: "rows", Rows: strings.NewReader(test.content), Kind: tasks.TypeVerify, File: !test.pipe}
			in.Named = func(names []string) ([][]index.Entry, error) { return make([][]index.Entry, len(names)), nil }
			if diff := cmp.Diff(test.want, outcome(in)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// outcome returns how the reading of an input ends: the number of rows, or the first error, and
// the notes.
func outcome(in intake.Input) string {
	plan, err := in.Plan(0)
	parts := []string{fmt.Sprintf("%d rows", plan.Rows)}
	if plan.Rows == 1 {
		parts[0] = "1 row"
	}
	if bad, ok := errors.AsType[*intake.BadRows](err); ok {
		parts[0] = bad.First[0].Error()
	} else if err != nil {
		parts[0] = err.Error()
	}
	if plan.CutLine > 0 {
		parts = append(parts, fmt.Sprintf("line %d has no end", plan.CutLine))
	}
	if plan.Notes != "" {
		parts = append(parts, plan.Notes)
	}
	return strings.Join(parts, ", ")
}

// TestCutInput reads inputs that were cut off at each byte of their last row. An id that was
// cut off may be that of another client, which would be removed.
func TestCutInput(t *testing.T) {
	for _, text := range []string{
		"organization_id,client_id\norg_1,client_1\norg_2,client_23\n",
		"organization_id,client_id\norg_1,client_1\n\"org_2\",\"client_23\"\n",
		"organization_id,client_id\r\norg_1,client_1\r\norg_2,client_23\r\n",
		`{"organization_id":"org_1","client_id":"client_1"}` + "\n" +
			`{"organization_id":"org_2","client_id":"client_23"}` + "\n",
	} {
		first := strings.Index(text, "client_1") + len(`client_1"}`)
		first += strings.IndexByte(text[first-3:], '\n') - 2 // the last row begins here
		for end := first + 1; end < len(text); end++ {
			last := text[first:end]
			complete := strings.HasSuffix(last, "\r") || strings.HasSuffix(last, "}")
			in := input(t, tasks.TypeRemove, text[:end], tasks.Defaults{})
			if _, err := in.Plan(0); isBadRows(err) == complete {
				t.Errorf("%q: %v", last, err)
			}
			in.Rows, in.File = strings.NewReader(text[:end]), true
			plan, err := in.Plan(0)
			if end == len(text)-1 && err != nil || err == nil && (plan.CutLine == 3) == complete {
				t.Errorf("%q in a file: the line %d has no end, %v", last, plan.CutLine, err)
			}
		}
	}
}
