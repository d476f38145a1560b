package rowfile

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strings"

	"orgops/internal/untrusted"
)

// csvReader gives the rows of RFC 4180 text. A CR LF inside of quotes becomes LF.
type csvReader struct {
	header

	text    *recorder
	rows    *csv.Reader
	schema  Schema
	notes   *notes
	raw     []byte   // the record read last
	unended bool     // its line has no end
	cells   []string // its cells; nil: it has none
}

// openCSV reads the header and compares it with the schema.
func openCSV(name string, in *bufio.Reader, line int, s Schema, n *notes) (*csvReader, error) {
	// The first record.
	c := &csvReader{schema: s, notes: n, text: &recorder{in: in, line: line, most: MaxCSVRow, between: "\r\n"}}
	c.rows = csv.NewReader(bufio.NewReaderSize(c.text, bufferSize))
	c.rows.FieldsPerRecord = -1
	c.rows.Comma = s.separator(nextLine(in))
	cells, start, msg, err := c.record()
	if err != nil {
		return nil, readError(name, c.text.line, s, err)
	}

	// Whether it is a header, and that of these rows. Of one that is damaged, or is a row, no names
	// are listed as unknown columns.
	c.header = s.header(cells)
	refusal := &HeaderError{File: name, Line: start, Msg: msg, Known: s.names(), Expected: s.Expected()}
	if i := slices.IndexFunc(cells, func(cell string) bool { return unclean(cell) != "" }); i >= 0 {
		refusal.Msg = fmt.Sprintf("the header's column %d %s", i+1, unclean(cells[i]))
	} else if msg == "" && s.isRow(cells) {
		refusal.Msg = fmt.Sprintf("there is no header line: this line is a row (%s); begin the input with the names of its columns",
			untrusted.Value(strings.Join(cells, ",")))
	}
	if refusal.Msg == "" {
		refusal.Missing = c.missing
		refusal.Unknown = c.unknown
		refusal.Double = c.double
	}
	if refusal.Msg != "" || len(c.missing)+len(c.unknown)+len(c.double) > 0 {
		return nil, refusal
	}

	// What people should know of how it was read.
	if comma := string(c.rows.Comma); comma != "," {
		n.add("separated by %s", strings.Replace(comma, "\t", "tabs", 1))
	}
	for i, name := range c.names {
		if c.given[i] != name && c.places[i] >= 0 {
			n.add("column %s read as %s", untrusted.Value(c.given[i]), name)
		}
	}
	if empty := len(c.given) - len(c.names); empty > 0 {
		n.add("%d empty %s left out", empty, plural(empty, "column"))
	}
	return c, nil
}

func (c *csvReader) line() int { return c.text.line }

func (c *csvReader) next() (r Record, broken []string, err error) {
	cells, line, msg, err := c.record()
	for err == nil && msg == "" && !slices.ContainsFunc(cells, isText) {
		c.notes.counts[emptyRows]++
		cells, line, msg, err = c.record()
	}
	cells = withoutEmpty(cells, len(c.names))
	c.cells = cells
	r.Line = line
	r.Cut = c.unended
	if err != nil || msg != "" {
		return r, []string{msg}, err
	}
	again := slices.Equal(cells, c.given[:min(len(cells), len(c.given))])
	if c.exported {
		for i, cell := range cells {
			cells[i] = lively(cell)
		}
	}
	switch {
	case len(cells) != len(c.names):
		broken = []string{fmt.Sprintf("%d %s where the header has %d", len(cells), plural(len(cells), "cell"), len(c.names))}
	case again:
		broken = []string{"this is the header line again: remove it"}
	default:
		r.Values, broken = c.values(cells)
	}
	return r, broken, nil
}

// last is the record read last, with its cells if it has as many as the header.
func (c *csvReader) last() (text []byte, cells []string) {
	if len(c.cells) == len(c.names) {
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
			broken = append(broken, fmt.Sprintf("column %d (%s) %s", i+1, untrusted.Value(c.names[i]), reason))
			continue
		}
		place := c.places[i]
		if cell == "" || place < 0 {
			continue
		}
		column := c.schema.Columns[place]
		value, want := c.notes.value(column, cell)
		values[place] = value
		if want != "" {
			broken = append(broken, fmt.Sprintf("%s: want %s, got %s", column.Name, want, untrusted.Value(cell)))
		}
	}
	if len(broken) == 0 {
		broken = c.schema.missing(values)
	}
	return values, broken
}

// record returns the cells of the next record that is no blank line, and the line in which
// it begins, or the reason why it cannot be split. At the end the error is io.EOF.
func (c *csvReader) record() (cells []string, line int, broken string, err error) {
	cells, err = c.rows.Read()
	end := c.rows.InputOffset()
	if err != nil && c.text.err != nil {
		end = c.text.end + int64(c.text.text.Len())
		err = c.text.err
	}
	c.raw, line, c.unended = c.text.cut(end)
	if err == nil && len(c.raw) > MaxCSVRow {
		err = tooLong(MaxCSVRow)
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
