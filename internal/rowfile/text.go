package rowfile

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

const (
	bufferSize = 64 << 10
	headSize   = 4 << 10 // of the beginning that shows an input's form: a header is shorter
	xlsx       = "this is a workbook of Excel (xlsx): save it as CSV UTF-8"
)

// otherFiles are the beginnings of files that hold no rows as text, with the remedy: a message such
// as "unknown column" would not help there. The first that fits counts.
var otherFiles = []struct{ begins, contains, message string }{
	{"PK\x03\x04", "opendocument.spreadsheet", "this is a spreadsheet of LibreOffice (ods): save it as CSV"},
	{"PK\x03\x04", "[Content_Types].xml", xlsx}, {"PK\x03\x04", "xl/", xlsx},
	{"PK\x03\x04", "", "this is a zip archive: unpack it (unzip), or save a spreadsheet as CSV"},
	{"\xd0\xcf\x11\xe0", "", "this is a workbook of an old Excel (xls): save it as CSV UTF-8"},
	{"%PDF", "", "this is a PDF: export the table that it was made from as CSV"},
	{"\xfd7zX", "", "this is compressed by xz: decompress it (xz -d), or compress it by gzip instead"},
	{"BZh", "", "this is compressed by bzip2: decompress it (bunzip2), or compress it by gzip instead"},
	{"\x28\xb5\x2f\xfd", "", "this is compressed by zstd: decompress it (zstd -d), or compress it by gzip instead"},
	{"\x1f\x8b", "", "this is compressed by gzip twice: decompress it once (gunzip)"},
	{"<", "", "this is HTML or XML, not CSV or JSON: was a page saved instead of the file?"},
}

// openText undoes gzip and UTF-16, removes a byte order mark, and ends lines in LF that end in CR
// alone. The refusal says why the input is no text.
func openText(r io.Reader, n *notes) (in *bufio.Reader, refusal string, err error) {
	in, start, err := buffered(r)
	if err == nil && bytes.HasPrefix(start, []byte{0x1f, 0x8b}) { // RFC 1952 2.3.1
		unzipped, failed := gzip.NewReader(in)
		if failed != nil {
			return nil, "", fmt.Errorf("it begins like gzip: %w", failed)
		}
		in, start, err = buffered(unzipped)
	}
	for _, other := range otherFiles {
		if bytes.HasPrefix(start, []byte(other.begins)) && bytes.Contains(start, []byte(other.contains)) {
			return nil, other.message, err
		}
	}
	if order, is := utf16Order(start); err == nil && is {
		n.add("read as UTF-16")
		in, start, err = buffered(transform.NewReader(in, unicode.UTF16(order, unicode.UseBOM).NewDecoder()))
	} else if mark := []byte("\ufeff"); bytes.HasPrefix(start, mark) {
		_, _ = in.Discard(len(mark)) // it is in the buffer
	}
	if line, _, _ := bytes.Cut(start, []byte{'\n'}); err == nil &&
		bytes.IndexByte(bytes.TrimSuffix(line, []byte{'\r'}), '\r') >= 0 {
		n.add("lines end in CR")
		in, _, err = buffered(crEnds{in})
	}
	return in, "", err
}

// buffered returns a reader and its first bytes, unread.
func buffered(r io.Reader) (in *bufio.Reader, start []byte, err error) {
	in = bufio.NewReaderSize(r, bufferSize)
	if start, err = in.Peek(headSize); errors.Is(err, io.EOF) {
		err = nil
	}
	return in, start, err
}

// utf16Order recognises UTF-16 by its byte order mark, or by the zero byte of its first letter.
func utf16Order(start []byte) (order unicode.Endianness, is bool) {
	marked := bytes.HasPrefix(start, []byte{0xff, 0xfe}) || bytes.HasPrefix(start, []byte{0xfe, 0xff})
	if len(start) > 1 && start[0] == 0 {
		order = unicode.BigEndian
	}
	oneIsZero := len(start) > 1 && (start[0] == 0) != (start[1] == 0)
	return order, marked || oneIsZero
}

// crEnds replaces each CR by LF.
type crEnds struct{ io.Reader }

func (r crEnds) Read(p []byte) (n int, err error) {
	n, err = r.Reader.Read(p)
	copy(p, bytes.ReplaceAll(p[:n], []byte{'\r'}, []byte{'\n'}))
	return n, err
}

// nextLine returns the line that is read next, as far as it is in the buffer.
func nextLine(in *bufio.Reader) []byte {
	text, _ := in.Peek(in.Buffered())
	line, _, _ := bytes.Cut(text, []byte{'\n'})
	return line
}

// firstByte skips blanks and blank lines, and returns the first other byte, unread, with its
// line.
func firstByte(in *bufio.Reader) (first byte, line int, err error) {
	for line = 1; ; {
		b, err := in.ReadByte()
		if err != nil {
			return 0, line, err
		}
		switch b {
		case '\n':
			line++
		case ' ', '\t', '\r':
		default:
			return b, line, in.UnreadByte()
		}
	}
}

// recorder records the text of an input until the rows in it are cut off. It ends the reading
// of a row that is too long, such as one with a quote that is left open.
type recorder struct {
	in      io.Reader
	most    int    // bytes of a row
	between string // bytes that are between rows
	text    bytes.Buffer
	end     int64 // of the text that was cut off, in the input
	line    int   // after it, from 1
	err     error // other than io.EOF
}

func (r *recorder) Read(p []byte) (n int, err error) {
	if r.text.Len() > r.most+len("\r\n") {
		r.err = tooLong(r.most)
		return 0, r.err
	}
	n, err = r.in.Read(p)
	r.text.Write(p[:n])
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// cut cuts off the text up to an offset of the input, and returns it without the bytes between
// rows, such as blank lines, and without the line's end; with the line in which it begins, and
// whether it had no end. The text is valid until the next Read.
func (r *recorder) cut(end int64) (text []byte, line int, unended bool) {
	text = r.text.Next(int(end - r.end))
	r.end = end
	row := bytes.TrimLeft(text, r.between)
	line = r.line + bytes.Count(text[:len(text)-len(row)], []byte{'\n'})
	r.line += bytes.Count(text, []byte{'\n'})
	text = trimLineEnd(row)
	return text, line, len(text) == len(row)
}

// trimLineEnd returns text without the LF or CR LF, or CR of the last line, at its end.
func trimLineEnd(text []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(text, []byte{'\n'}), []byte{'\r'})
}

// Damaged texts.
const (
	notUTF8 = "is not UTF-8 but probably Windows-1252: save the file as UTF-8"
	lossy   = "has the character U+FFFD, a remainder of damaged text: save the file as UTF-8 again"
)

// unclean says why text cannot be taken as it is: no later stage could send it
// on unchanged.
func unclean(text string) string {
	switch {
	case !utf8.ValidString(text):
		return notUTF8
	case strings.Contains(text, "\ufffd"):
		return lossy
	case strings.IndexByte(text, 0) >= 0:
		return "has a NUL in it"
	}
	return ""
}
