package rowfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// streamReader gives the rows of JSON that is no JSON Lines: an array of objects, or objects that
// take several lines each. It holds one of them in memory. Text that is not JSON ends the reading.
type streamReader struct {
	jsonlReader

	source *recorder
	values *json.Decoder
	array  bool // which has not ended
	count  int  // of the values that were read
}

func newStreamReader(in io.Reader, line int, s Schema, n *notes, array bool) *streamReader {
	r := &streamReader{jsonlReader: jsonlReader{schema: s, notes: n}, array: array}
	r.source = &recorder{in: in, line: line, most: MaxRow, between: " \t\r\n,"}
	r.values = json.NewDecoder(r.source)
	if n.add("read as JSON objects of several lines"); array {
		n.form[len(n.form)-1] = "read as a JSON array"
		_, _ = r.values.Token() // [, which was seen
		r.source.cut(r.values.InputOffset())
	}
	return r
}

func (s *streamReader) line() int { return s.source.line }

func (s *streamReader) next() (r Record, broken []string, err error) {
	var value json.RawMessage
	if s.array && !s.values.More() {
		_, err = s.values.Token() // ]
		s.array = err != nil
	}
	if err == nil {
		err = s.values.Decode(&value)
	}
	if err != nil {
		return r, nil, s.end(err)
	}
	s.count++
	_, line, _ := s.source.cut(s.values.InputOffset())
	if len(value) > MaxRow {
		return r, nil, tooLong(MaxRow)
	}
	var text bytes.Buffer
	_ = json.Compact(&text, value) // it is JSON, and may be written as a line
	s.text = text.Bytes()
	r, broken = s.record(s.text)
	if r.Line = line; s.array {
		r.Element = s.count
	}
	return r, broken, nil
}

// end returns the error that ends the reading, in the line of the value that could not be read.
func (s *streamReader) end(err error) error {
	_, s.source.line, _ = s.source.cut(s.source.end + int64(s.source.text.Len()))
	switch atEnd := errors.Is(err, io.EOF); {
	case s.source.err != nil || (atEnd && !s.array):
		return err
	case atEnd || errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("the input ends there: was it cut off?")
	}
	return endError(fmt.Sprintf("not JSON after %d %s: %s", s.count, plural(s.count, "row"), err))
}
