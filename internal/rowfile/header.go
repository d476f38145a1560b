package rowfile

import (
	"bytes"
	"encoding/csv"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// header is the first line of CSV, compared with a schema.
type header struct {
	given  []string // the cells
	names  []string // of the columns, those of the schema as it has them
	places []int    // of each column in the schema's; -1: it is ignored
	others []int    // the columns that are not left out
	// exported says that the header has a column of an export, so that the cells are
	// as inert wrote them.
	exported bool

	missing, unknown, double []string
}

// header compares cells with the columns. Empty ones at the end are no columns.
func (s Schema) header(cells []string) header {
	h := header{given: slices.Clone(cells), exported: slices.ContainsFunc(cells, ignored)}
	for i, cell := range withoutEmpty(cells, 1) {
		if h.exported {
			cell = lively(cell)
		}
		name := s.named(cell)
		place := s.place(name)
		leftOut := s.leftOut(cell) || s.leftOut(name)
		switch {
		case leftOut, s.added(name, h.exported):
			place = -1
		case place < 0:
			h.unknown = append(h.unknown, name)
		case slices.Contains(h.names, name) && !slices.Contains(h.double, name):
			h.double = append(h.double, name)
		}
		h.names = append(h.names, name)
		h.places = append(h.places, place)
		if !leftOut {
			h.others = append(h.others, i)
		}
	}
	for _, column := range s.Columns {
		given := slices.Contains(h.names, column.Name) || (column.Or != "" && slices.Contains(h.names, column.Or))
		if column.Required && !given {
			h.missing = append(h.missing, column.Name)
		}
	}
	return h
}

// named returns the column's name that a cell of the header is, in any case, and with blanks or
// hyphens for its underscores; or the cell.
func (s Schema) named(cell string) string {
	parts := strings.FieldsFunc(strings.ToLower(cell), func(r rune) bool {
		return r == '_' || r == '-' || unicode.IsSpace(r)
	})
	if name := strings.Join(parts, "_"); s.place(name) >= 0 || ignored(name) {
		return name
	}
	return strings.TrimSpace(cell)
}

// separators are those of CSV that are recognised.
const separators = ",;\t|"

// separator returns the separator with which the most columns of the header are known.
func (s Schema) separator(line []byte) rune {
	best := ','
	most := 0
	for _, comma := range separators {
		r := csv.NewReader(bytes.NewReader(line))
		r.Comma = comma
		cells, _ := r.Read() // nil if its quotes are others
		h := s.header(cells)
		if known := len(h.names) - len(h.unknown); known > most {
			best = comma
			most = known
		}
	}
	return best
}

// likeData is an id or a domain's name.
var likeData = regexp.MustCompile(`^or[gd]_.*[0-9A-Z]|^[[:alnum:]-]+(\.[[:alnum:]-]+)+$`)

// isRow reports whether cells are those of a row and not of a header: none is a column's name, and
// one is an id or a domain's name.
func (s Schema) isRow(cells []string) bool {
	return !slices.ContainsFunc(cells, func(cell string) bool { return s.place(s.named(cell)) >= 0 }) &&
		slices.ContainsFunc(cells, likeData.MatchString)
}

func isText(cell string) bool { return strings.TrimSpace(cell) != "" }

// withoutEmpty returns cells up to the last one that is not empty, but at least so many.
func withoutEmpty(cells []string, least int) []string {
	for len(cells) > least && !isText(cells[len(cells)-1]) {
		cells = cells[:len(cells)-1]
	}
	return cells
}

// formulaMarks are the first characters of cells that a spreadsheet takes for formulas.
// Single quotes before them are skipped, so that lively removes only the one that inert added.
const formulaMarks = "=+-@\t\r"

func isFormula(cell string) bool {
	bare := strings.TrimLeft(cell, "'")
	return bare != "" && strings.IndexByte(formulaMarks, bare[0]) >= 0
}

// inert returns the cell in the form that a spreadsheet takes for text.
func inert(cell string) string {
	if isFormula(cell) {
		return "'" + cell
	}
	return cell
}

// lively is the inverse of inert.
func lively(cell string) string {
	if isFormula(cell) {
		return strings.TrimPrefix(cell, "'")
	}
	return cell
}
