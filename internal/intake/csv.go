package intake

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// csvReader gives the rows of RFC 4180 text. A CR LF inside of quotes becomes LF.
type csvReader struct {
	text   *recorder
	rows   *csv.Reader
	schema Schema
	header []string
	places []int // of each column in the schema's; -1: it is ignored
	others []int // the columns that are not left out
	// exported says that the header has a column of an export, so that the cells are
	// as inert wrote them.
	exported bool
	raw      []byte   // the record read last
	unended  bool     // its line has no end
	cells    []string // its cells; nil: it has none
}

// openCSV reads the header and compares it with the schema.
func openCSV(name string, in io.Reader, line int, s Schema) (*csvReader, error) {
	c := &csvReader{text: &recorder{in: in, line: line}, schema: s}
	c.rows = csv.NewReader(bufio.NewReaderSize(c.text, 64<<10))
	c.rows.FieldsPerRecord = -1
	cells, start, msg, err := c.record()
	if err != nil {
		return nil, readError(name, c.text.line, s, err)
	}
	refusal := &HeaderError{File: name, Line: start, Msg: msg, Known: s.names(), Expected: s.expected()}
	if i := slices.IndexFunc(cells, func(cell string) bool { return unclean(cell) != "" }); i >= 0 {
		refusal.Msg = fmt.Sprintf("the header's column %d %s", i+1, unclean(cells[i]))
	}
	if refusal.Msg != "" {
		return nil, refusal
	}
	c.header = cells
	c.exported = slices.ContainsFunc(cells, ignored)
	for i, cell := range cells {
		if c.exported {
			cell = lively(cell)
			cells[i] = cell
		}
		place := s.place(cell)
		switch {
		case s.leftOut(cell), s.added(cell, c.exported):
			place = -1
		case place < 0:
			refusal.Unknown = append(refusal.Unknown, cell)
		case slices.Contains(cells[:i], cell) && !slices.Contains(refusal.Double, cell):
			refusal.Double = append(refusal.Double, cell)
		}
		c.places = append(c.places, place)
		if !s.leftOut(cell) {
			c.others = append(c.others, i)
		}
	}
	for _, column := range s.Columns {
		given := slices.Contains(cells, column.Name) || column.Or != "" && slices.Contains(cells, column.Or)
		if column.Required && !given {
			refusal.Missing = append(refusal.Missing, column.Name)
		}
	}
	if len(refusal.Unknown)+len(refusal.Missing)+len(refusal.Double) == 0 {
		return c, nil
	}
	refusal.Msg = separatorHint(cells)
	return nil, refusal
}

// separatorHint recognises the files that a spreadsheet writes where the comma
// is the decimal sign.
func separatorHint(header []string) string {
	if len(header) != 1 {
		return ""
	}
	for _, separator := range []string{";", "\t", "|"} {
		if strings.Contains(header[0], separator) {
			return fmt.Sprintf("the columns seem to be separated by %q; separate them by commas", separator)
		}
	}
	return ""
}

func (c *csvReader) line() int { return c.text.line }

func (c *csvReader) next() (r Record, broken []string, err error) {
	cells, line, msg, err := c.record()
	c.cells = cells
	r.Line, r.Cut = line, c.unended
	if err != nil || msg != "" {
		return r, []string{msg}, err
	}
	if c.exported {
		for i, cell := range cells {
			cells[i] = lively(cell)
		}
	}
	switch {
	case len(cells) != len(c.header):
		broken = []string{fmt.Sprintf("%d %s where the header has %d", len(cells), plural(len(cells), "cell"), len(c.header))}
	case !slices.ContainsFunc(cells, func(cell string) bool { return cell != "" }):
		broken = []string{"every cell is empty: remove the line"}
	case slices.Equal(cells, c.header):
		broken = []string{"this is the header line again: remove it"}
	default:
		r.Values, broken = c.values(cells)
	}
	return r, broken, nil
}

// last is the record read last, with its cells if it has as many as the header.
func (c *csvReader) last() (text []byte, cells []string) {
	if len(c.cells) == len(c.header) {
		cells = c.cells
	}
	return c.raw, cells
}

// notLeftOut returns the cells of the columns that are not left out.
func (c *csvReader) notLeftOut(cells []string) []string {
	all := make([]string, len(c.others))
	for i, from := range c.others {
		all[i] = cells[from]
	}
	return all
}

// values returns the cells as values of the schema's columns.
func (c *csvReader) values(cells []string) (values, broken []string) {
	values = make([]string, len(c.schema.Columns))
	for i, cell := range cells {
		if reason := unclean(cell); reason != "" {
			broken = append(broken, fmt.Sprintf("column %d (%s) %s", i+1, quoted(c.header[i]), reason))
			continue
		}
		place := c.places[i]
		if cell == "" || place < 0 {
			continue
		}
		values[place] = cell
		if column := c.schema.Columns[place]; column.Bool {
			values[place] = strings.ToLower(cell)
			if !isBool(values[place]) {
				broken = append(broken, fmt.Sprintf("%s: want true or false, got %s", column.Name, quoted(cell)))
			}
		}
	}
	if len(broken) == 0 {
		broken = c.schema.missing(values)
	}
	return values, broken
}

// unclean says why text cannot be taken as it is: no later stage could send it
// on unchanged.
func unclean(text string) string {
	switch {
	case !utf8.ValidString(text):
		return "is not UTF-8"
	case strings.IndexByte(text, 0) >= 0:
		return "has a NUL in it"
	}
	return ""
}

// record returns the cells of the next record that is no blank line, and the line in which
// it begins, or the reason why it cannot be split. At the end the error is io.EOF.
func (c *csvReader) record() (cells []string, line int, broken string, err error) {
	cells, err = c.rows.Read()
	end := c.rows.InputOffset()
	if err != nil && c.text.err != nil {
		end, err = c.text.end+int64(c.text.text.Len()), c.text.err
	}
	c.raw, line, c.unended = c.text.cut(end)
	if err == nil && len(c.raw) > MaxCSVRow {
		err = tooLongError(MaxCSVRow)
	}
	switch parse, misquoted := errors.AsType[*csv.ParseError](err); {
	case misquoted:
		return nil, line, quoteError(c.raw, line, cells, parse), nil
	case err != nil:
		c.text.line = line // for the error
	}
	return cells, line, "", err
}

// quoteError describes the broken quotes of a record that begins in a line. cells are those
// before the broken one.
func quoteError(text []byte, line int, cells []string, err *csv.ParseError) string {
	lines := bytes.SplitAfter(text, []byte{'\n'})
	if last := lines[min(err.Line-err.StartLine, len(lines)-1)]; errors.Is(err, csv.ErrQuote) && err.Column > len(last) {
		opened := line + strings.Count(strings.Join(cells, ""), "\n")
		return fmt.Sprintf("the quote opened in line %d is never closed; the rest of the input was read as one cell", opened)
	}
	return fmt.Sprintf("a quote in the middle of cell %d; put the whole cell in quotes and double each quote in it",
		len(cells)+1)
}

// recorder records the text of an input until the rows in it are cut off. It ends the reading
// of a row that is too long, such as one with a quote that is left open.
type recorder struct {
	in   io.Reader
	text bytes.Buffer
	end  int64 // of the text that was cut off, in the input
	line int   // after it, from 1
	err  error // other than io.EOF
}

func (r *recorder) Read(p []byte) (n int, err error) {
	if r.text.Len() > MaxCSVRow+len("\r\n") {
		r.err = tooLongError(MaxCSVRow)
		return 0, r.err
	}
	n, err = r.in.Read(p)
	r.text.Write(p[:n])
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// cut cuts off the text up to an offset of the input, and returns it without blank lines and
// the line's end, with the line in which it begins, and whether it had no end. The text is
// valid until the next Read.
func (r *recorder) cut(end int64) (text []byte, line int, unended bool) {
	text = r.text.Next(int(end - r.end))
	r.end = end
	row := bytes.TrimLeft(text, "\r\n")
	line = r.line + bytes.Count(text[:len(text)-len(row)], []byte{'\n'})
	r.line += bytes.Count(text, []byte{'\n'})
	text = trimLineEnd(row)
	return text, line, len(text) == len(row)
}

// trimLineEnd returns text without the LF or CR LF, or CR of the last line, at its end.
func trimLineEnd(text []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(text, []byte{'\n'}), []byte{'\r'})
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
