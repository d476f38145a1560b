// Package rowfile reads and writes files of rows: CSV with a header, JSON Lines, or a JSON array,
// plain or gzipped, in UTF-8 or UTF-16, recognised by content.
//
// A [Reader] reads a stream once: memory is bounded by [MaxRow], whatever the
// input's length. A bad row does not end the reading: it is returned as a [Record] with an
// error that names file and line, and the next row follows. A header that does not fit, or a
// row that is too long ([HeaderError]), and input that cannot be read end it. Rows of all
// formats become the values of the schema's columns; package tasks checks them by their kind.
//
// A [Writer] writes rows in the form in which they came, and adds columns to them that a reader
// ignores. So each file that it writes can be read again.
//
// A file uses those below it:
//
//	rejected.go      bad rows of an input, written as they came
//	writer.go        rows, written in the form in which they came
//	row.go           a row, checked by its kind
//	reader.go        the rows of an input, of any format
//	csv.go, header.go  CSV, its header and separator
//	stream.go        JSON that is no JSON Lines: an array, or objects of several lines
//	jsonl.go, object.go  JSON Lines
//	text.go          the text of an input, and files without any
//	notes.go         values, and in which form they came
//	record.go        a row as it is read, and its longest length
//	errors.go, schema.go
package rowfile
