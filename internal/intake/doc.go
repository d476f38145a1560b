// Package intake takes in the rows of a bulk submission: CSV with a header, or
// JSON Lines, plain or gzipped, told apart by content.
//
// A [Reader] reads a stream once: memory is bounded by [MaxRow], whatever the
// input's length. A row that is bad does not end the reading; it comes out as
// a [Record] with an error that names file and line, and the next row follows.
// Only a header that does not fit ([HeaderError]) and input that cannot be
// read end it. Rows become one form, the values of the schema's columns, wherever
// they came from; what the values mean is the kind's to check, in package tasks.
//
// An [Intake] submits an [Input]: it reads the rows once, stages them, and commits the run
// when all are good. Package httpapi does the same for what comes over HTTP.
package intake
