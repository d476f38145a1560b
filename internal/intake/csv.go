package intake

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// csvReader gives the rows of RFC 4180 text. encoding/csv is not used: it takes
// a quote that is left open to the end of the input into memory, and turns the
// line breaks inside of quotes into others.
type csvReader struct {
	split  *cellSplitter
	schema Schema
	header []string
	places []int // of each column in the schema's; -1: it is ignored
	kept   []int // the columns that are not left out
	// exported says that the header has a column of ours, so that the cells are
	// as inert wrote them.
	exported bool
	cells    []string // of the record read last; nil: it has none
}

// openCSV reads the header and compares it with the schema.
func openCSV(name string, in *bufio.Reader, line int, s Schema) (*csvReader, error) {
	c := &csvReader{split: &cellSplitter{in: in, number: line}, schema: s}
	cells, start, msg, err := c.split.record()
	if err != nil {
		return nil, fmt.Errorf("read %s at line %d: %w", name, c.split.number, err)
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
		place := s.place(cell)
		switch {
		case s.leftOut(cell), ignored(cell):
			place = -1
		case place < 0:
			refusal.Unknown = append(refusal.Unknown, cell)
		case slices.Contains(cells[:i], cell) && !slices.Contains(refusal.Double, cell):
			refusal.Double = append(refusal.Double, cell)
		}
		c.places = append(c.places, place)
		if !s.leftOut(cell) {
			c.kept = append(c.kept, i)
		}
	}
	for _, column := range s.Columns {
		if column.Required && !slices.Contains(cells, column.Name) {
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

func (c *csvReader) line() int { return c.split.number }

func (c *csvReader) next() (r Record, broken []string, err error) {
	cells, line, msg, err := c.split.record()
	c.cells = cells
	r.Line = line
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
	return bytes.Clone(trimLineEnd(c.split.raw)), cells
}

// keep returns the cells of the columns that are not left out.
func (c *csvReader) keep(cells []string) []string {
	kept := make([]string, len(c.kept))
	for i, from := range c.kept {
		kept[i] = cells[from]
	}
	return kept
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

func isBool(text string) bool { return text == "true" || text == "false" }

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

// cellSplitter splits text into records and cells. A record past MaxRow is skipped to its
// true end without being kept.
type cellSplitter struct {
	in     *bufio.Reader
	number int // line of the next byte, from 1

	// Of the record read last:
	raw    []byte     // it as it came, with its line's end; of one past MaxRow the beginning
	size   int        // its bytes
	opened int        // line of its last opening quote within MaxRow; 0: it has none
	state  quoteState // after its last byte
	cells  int        // their number, which the next record is likely to have
}

// record returns the cells of the next record that is no blank line, and the
// line where it begins; or in words why it cannot be split. At the end the
// error is io.EOF.
func (s *cellSplitter) record() (cells []string, line int, broken string, err error) {
	for {
		line = s.number
		if err := s.read(); err != nil {
			return nil, line, "", err
		}
		if len(trimLineEnd(s.raw)) > 0 {
			break
		}
	}
	switch {
	case s.state == inQuotes:
		broken = fmt.Sprintf("the quote opened in line %d is never closed; the rest of the input was read as one cell", s.opened)
	case s.size > MaxRow && s.opened > 0:
		broken = fmt.Sprintf("the row is longer than %d bytes (is the quote in line %d closed?)", MaxRow, s.opened)
	case s.size > MaxRow:
		broken = fmt.Sprintf("the row is longer than %d bytes", MaxRow)
	default:
		cells, broken = splitCells(string(trimLineEnd(s.raw)), s.cells)
		s.cells = len(cells)
	}
	return cells, line, broken, nil
}

// read reads a record into raw: lines up to one at whose end no quote is open.
func (s *cellSplitter) read() error {
	s.raw, s.size, s.opened, s.state = s.raw[:0], 0, 0, cellStart
	for {
		part, err := s.in.ReadSlice('\n')
		ended := bytes.HasSuffix(part, []byte{'\n'})
		if !ended || s.state == inQuotes || bytes.IndexByte(part, '"') >= 0 { // few lines have a quote
			s.scan(part)
		}
		s.size += len(part)
		s.raw = append(s.raw, part[:min(len(part), MaxRow-len(s.raw))]...)
		if ended {
			s.number++
		}
		switch {
		case ended && s.state != inQuotes, errors.Is(err, io.EOF) && s.size > 0:
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// scan finds the quotes in a part of a line.
func (s *cellSplitter) scan(part []byte) {
	for _, b := range part {
		before := s.state
		s.state = before.after(b)
		if before == cellStart && s.state == inQuotes && s.size <= MaxRow {
			s.opened = s.number
		}
	}
}

// quoteState is where in a record a byte is.
type quoteState int

const (
	cellStart  quoteState = iota
	inCell                // in a cell without quotes
	inQuotes              // between the quotes of a cell
	afterQuote            // after a quote in a quoted cell: its end, or the first of two
	misquoted             // in what is left of a line with broken quoting
)

// after returns the state after a byte.
func (q quoteState) after(b byte) quoteState {
	switch {
	case q == inQuotes && b != '"':
		return inQuotes
	case q == inQuotes:
		return afterQuote
	case b == '"' && (q == cellStart || q == afterQuote):
		return inQuotes
	case b == ',' && q != misquoted:
		return cellStart
	case b != '"' && (q == cellStart || q == inCell):
		return inCell
	}
	return misquoted
}

// splitCells returns the cells of a record, which are about as many as likely, or in words
// why it cannot be split.
func splitCells(text string, likely int) (cells []string, broken string) {
	cells = make([]string, 0, likely)
	for more := true; more; {
		var cell string
		var ok bool
		if cell, text, more, ok = cutCell(text); !ok {
			return nil, fmt.Sprintf("a quote in the middle of cell %d; put the whole cell in quotes and double each quote in it", len(cells)+1)
		}
		cells = append(cells, cell)
	}
	return cells, ""
}

// cutCell cuts the first cell of a record, in which each quote that is opened is closed. ok is
// false if a quote is in the middle of the cell.
func cutCell(text string) (cell, rest string, more, ok bool) {
	if !strings.HasPrefix(text, `"`) {
		cell, rest, more = strings.Cut(text, ",")
		return cell, rest, more, !strings.Contains(cell, `"`)
	}
	end := 1
	for ; ; end += len(`""`) {
		end += strings.IndexByte(text[end:], '"')
		if !strings.HasPrefix(text[end:], `""`) {
			break
		}
	}
	cell = strings.ReplaceAll(text[1:end], `""`, `"`)
	rest, more = strings.CutPrefix(text[end+1:], ",")
	return cell, rest, more, more || rest == ""
}

// trimLineEnd returns text without the LF or CR LF, or CR of the last line, at its end.
func trimLineEnd(text []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(text, []byte{'\n'}), []byte{'\r'})
}
