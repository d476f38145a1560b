package intake

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"orgops/tasks"
)

// csvReader gives the rows of RFC 4180 text. encoding/csv is not used: it takes
// a quote that is left open to the end of the input into memory, and turns the
// line breaks inside of quotes into others.
type csvReader struct {
	split  *cellSplitter
	schema Schema
	header []string
	places []int // of each column in the schema's; -1: it is ignored
	// exported says that the header has a column of ours, so that the cells are
	// as inert wrote them.
	exported bool
	kept     []int    // the columns that are not left out; nil: all
	cells    []string // of the record read last
}

// openCSV reads the header and holds it against the schema.
func openCSV(name string, in *bufio.Reader, line int, s Schema) (*csvReader, error) {
	c := &csvReader{split: &cellSplitter{in: in, number: line}, schema: s}
	cells, start, msg, err := c.split.record()
	if err != nil {
		return nil, fmt.Errorf("read %s at line %d: %w", name, c.split.number, err)
	}
	refusal := &HeaderError{File: name, Line: start, Msg: msg, Known: s.names(), Expected: s.expected()}
	if msg != "" {
		return nil, refusal
	}
	if i := slices.IndexFunc(cells, func(cell string) bool { return unclean(cell) != "" }); i >= 0 {
		refusal.Msg = fmt.Sprintf("the header's column %d %s", i+1, unclean(cells[i]))
		return nil, refusal
	}
	c.header = cells
	c.exported = slices.ContainsFunc(cells, ignored)
	c.places = s.places(cells)
	for i, cell := range cells {
		switch {
		case ignored(cell), s.leftOut(cell):
			c.places[i] = -1
		case c.places[i] < 0:
			refusal.Unknown = append(refusal.Unknown, cell)
		case slices.Contains(cells[:i], cell):
			if !slices.Contains(refusal.Double, cell) {
				refusal.Double = append(refusal.Double, cell)
			}
		}
	}
	for _, column := range s.Columns {
		if column.Required && !slices.Contains(cells, column.Name) {
			refusal.Missing = append(refusal.Missing, column.Name)
		}
	}
	if slices.ContainsFunc(cells, s.leftOut) {
		for i, cell := range cells {
			if !s.leftOut(cell) {
				c.kept = append(c.kept, i)
			}
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

func (c *csvReader) next() (row, error) {
	cells, line, msg, err := c.split.record()
	if err != nil {
		return row{}, err
	}
	c.cells = cells
	got := row{line: line}
	if msg != "" {
		got.broken = []string{msg}
		return got, nil
	}
	if c.exported {
		for i, cell := range cells {
			cells[i] = lively(cell)
		}
	}
	got.source = jsonStrings(c.keep(cells))
	switch {
	case len(cells) != len(c.header):
		got.broken = []string{fmt.Sprintf("%d %s where the header has %d", len(cells), plural(len(cells), "cell"), len(c.header))}
	case !slices.ContainsFunc(cells, func(cell string) bool { return cell != "" }):
		got.broken = []string{"every cell is empty: remove the line"}
	case slices.Equal(cells, c.header):
		got.broken = []string{"this is the header line again: remove it"}
	default:
		got.object, got.broken = c.object(cells)
	}
	return got, nil
}

// last is the record read last, with its cells if it has as many as the header.
func (c *csvReader) last() (text []byte, cells []string) {
	if len(c.cells) == len(c.header) {
		cells = c.cells
	}
	return c.split.text(), cells
}

// keep leaves the columns out that are to be ignored.
func (c *csvReader) keep(cells []string) []string {
	if c.kept == nil || len(cells) != len(c.header) {
		return cells
	}
	kept := make([]string, len(c.kept))
	for i, from := range c.kept {
		kept[i] = cells[from]
	}
	return kept
}

func (c *csvReader) object(cells []string) (json.RawMessage, []string) {
	values := make([]json.RawMessage, len(c.schema.Columns))
	var broken []string
	for i, cell := range cells {
		if reason := unclean(cell); reason != "" {
			broken = append(broken, fmt.Sprintf("column %d (%s) %s", i+1, quoted(c.header[i]), reason))
			continue
		}
		place := c.places[i]
		if cell == "" || place < 0 {
			continue
		}
		column := c.schema.Columns[place]
		value, want := cellValue(column, cell)
		if want != "" {
			broken = append(broken, fmt.Sprintf("%s: want %s, got %s", column.Name, want, quoted(cell)))
			continue
		}
		values[place] = value
	}
	if len(broken) == 0 {
		broken = c.schema.missing(values)
	}
	return c.schema.normalized(values), broken
}

// cellValue is a cell as JSON, or in words what it should have been.
func cellValue(column tasks.Column, cell string) (value json.RawMessage, want string) {
	if !column.Bool {
		return jsonString(cell), ""
	}
	switch strings.ToLower(cell) {
	case "true", "false":
		return json.RawMessage(strings.ToLower(cell)), ""
	}
	return nil, "true or false"
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

// cellState is where in a record the splitter stands.
type cellState int

const (
	cellStart  cellState = iota
	cellPlain            // in a cell without quotes
	cellQuoted           // between the quotes of a cell
	quoteSeen            // after a quote in a quoted cell: its end, or the first of two
	returnSeen           // after the end of a quoted cell and a carriage return
	skipping             // in what is left of a line with broken quoting
)

// cellSplitter splits text into records and cells, a byte at a time, so that a
// record past the limit is skipped to its true end without being kept.
type cellSplitter struct {
	in       *bufio.Reader
	number   int  // line of the next byte, from 1
	stepwise bool // plain lines go through the states too

	state  cellState
	raw    []byte // this record as it came
	data   []byte // the cells of this record, one after the other
	ends   []int  // where each cell ends in data
	size   int    // bytes of this record
	opened int    // line of the last opening quote; 0 if the record has none
	broken string
}

// record returns the cells of the next record that is no blank line, and the
// line where it begins; or in words why it cannot be split. At the end the
// error is io.EOF.
func (s *cellSplitter) record() (cells []string, line int, broken string, err error) {
	for {
		line = s.number
		s.raw = s.raw[:0]
		s.state, s.data, s.ends, s.size, s.opened, s.broken = cellStart, s.data[:0], s.ends[:0], 0, 0, ""
		if err := s.run(); err != nil {
			return nil, line, "", err
		}
		blank := len(s.ends) == 1 && s.ends[0] == 0 && s.opened == 0
		if !blank || s.broken != "" {
			break
		}
	}
	if s.broken != "" {
		return nil, line, s.broken, nil
	}
	cells = make([]string, len(s.ends))
	data, start := string(s.data), 0
	for i, end := range s.ends {
		cells[i] = data[start:end]
		start = end
	}
	return cells, line, "", nil
}

// text is the record that was read last as it came, without its line's end; of
// one past MaxRow the beginning.
func (s *cellSplitter) text() []byte {
	return bytes.Clone(bytes.TrimSuffix(bytes.TrimSuffix(s.raw, []byte{'\n'}), []byte{'\r'}))
}

// run reads one record.
func (s *cellSplitter) run() error {
	for {
		// No record goes on past the end of a line that ends it.
		part, err := s.in.ReadSlice('\n')
		if s.size == 0 && !s.stepwise && isPlainLine(part) {
			s.plainLine(part)
			return nil
		}
		if slices.ContainsFunc(part, s.take) {
			return nil
		}
		switch {
		case errors.Is(err, io.EOF) && s.size > 0:
			s.atEnd()
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// isPlainLine says whether a record begins and ends with the line and every cell
// in it is as it stands, as is so of nearly every record: that spares those the
// way through the states.
func isPlainLine(line []byte) bool {
	return len(line) > 0 && len(line) <= MaxRow && line[len(line)-1] == '\n' && bytes.IndexByte(line, '"') < 0
}

// plainLine takes a line of which that is so.
func (s *cellSplitter) plainLine(line []byte) {
	s.number++
	s.raw = append(s.raw, line...)
	rest := bytes.TrimSuffix(line[:len(line)-1], []byte{'\r'})
	for more := true; more; {
		var cell []byte
		cell, rest, more = bytes.Cut(rest, []byte{','})
		s.data = append(s.data, cell...)
		s.ends = append(s.ends, len(s.data))
	}
}

// take takes one byte and says whether it ended the record.
func (s *cellSplitter) take(b byte) (ended bool) {
	if b == '\n' {
		s.number++
	}
	if s.size++; s.size > MaxRow {
		s.tooLong()
	} else {
		s.raw = append(s.raw, b)
	}
	return s.step(b)
}

// step goes on from one state to the next.
func (s *cellSplitter) step(b byte) (ended bool) {
	switch s.state {
	case cellStart:
		if b == '"' {
			s.state, s.opened = cellQuoted, s.number
			return false
		}
		s.state = cellPlain
		return s.plain(b)
	case cellPlain:
		return s.plain(b)
	case cellQuoted:
		if b == '"' {
			s.state = quoteSeen
		} else {
			s.keep(b)
		}
	case quoteSeen:
		return s.afterQuote(b)
	case returnSeen:
		if b == '\n' {
			s.endCell()
			return true
		}
		s.refuse()
	case skipping:
		return b == '\n'
	}
	return false
}

func (s *cellSplitter) plain(b byte) (ended bool) {
	switch b {
	case ',':
		s.endCell()
	case '\n':
		s.trimReturn()
		s.endCell()
		return true
	case '"':
		s.refuse()
	default:
		s.keep(b)
	}
	return false
}

func (s *cellSplitter) afterQuote(b byte) (ended bool) {
	switch b {
	case '"':
		s.keep(b)
		s.state = cellQuoted
	case ',':
		s.endCell()
	case '\n':
		s.endCell()
		return true
	case '\r':
		s.state = returnSeen
	default:
		s.refuse()
	}
	return false
}

// atEnd ends a record that the end of the input ends.
func (s *cellSplitter) atEnd() {
	switch s.state {
	case cellPlain:
		s.trimReturn()
		s.endCell()
	case cellQuoted:
		s.broken = fmt.Sprintf("the quote opened in line %d is never closed; the rest of the input was read as one cell", s.opened)
	case cellStart, quoteSeen, returnSeen:
		s.endCell()
	case skipping:
	}
}

func (s *cellSplitter) keep(b byte) {
	if s.size <= MaxRow {
		s.data = append(s.data, b)
	}
}

func (s *cellSplitter) endCell() {
	s.state = cellStart
	if s.size <= MaxRow {
		s.ends = append(s.ends, len(s.data))
	}
}

// trimReturn drops the carriage return of a line that ends in CR LF; the cell
// before it may be empty, so that data ends with the cell before that.
func (s *cellSplitter) trimReturn() {
	start := 0
	if len(s.ends) > 0 {
		start = s.ends[len(s.ends)-1]
	}
	s.data = s.data[:start+len(bytes.TrimSuffix(s.data[start:], []byte{'\r'}))]
}

func (s *cellSplitter) refuse() {
	s.state = skipping
	if s.broken == "" {
		s.broken = fmt.Sprintf("a quote in the middle of cell %d; put the whole cell in quotes and double each quote in it", len(s.ends)+1)
	}
}

func (s *cellSplitter) tooLong() {
	if s.broken != "" {
		return
	}
	s.broken = fmt.Sprintf("the row is longer than %d bytes", MaxRow)
	if s.opened > 0 {
		s.broken += fmt.Sprintf(" (is the quote in line %d closed?)", s.opened)
	}
}
