// Package intake reads the rows of a bulk submission: CSV with a header, or
// JSON Lines, plain or gzipped, told apart by content.
//
// Input is read as a stream and once: memory is bounded by [MaxRow], whatever
// the input's length. A row that is bad does not end the reading; it comes out
// as a [Record] with an error that names file and line, and the next row
// follows. Only a header that does not fit ([HeaderError]) and input that
// cannot be read end it.
//
// Rows become one form, a JSON object with the schema's members, wherever they
// came from. What the members mean is not known here: an identifier's syntax,
// an enumeration and the like are checked by whoever knows the kind of row.
//
// HTTP for producers will live here too, on the same readers.
package intake
