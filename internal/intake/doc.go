// Package intake reads and submits the rows of a bulk submission: CSV with a header,
// JSON Lines, or a JSON array, plain or gzipped, in UTF-8 or UTF-16, recognised by content.
//
// A [Reader] reads a stream once: memory is bounded by [MaxRow], whatever the
// input's length. A bad row does not end the reading: it is returned as a [Record] with an
// error that names file and line, and the next row follows. A header that does not fit, or a
// row that is too long ([HeaderError]), and input that cannot be read end it. Rows of all
// formats become the values of the schema's columns; package tasks checks them by their kind.
//
// An [Intake] submits an [Input]: it reads the rows once, stages them, and commits the run
// when all are good. Package httpapi submits the bodies of requests in this way.
//
// A file uses those below it:
//
//	scan.go          runs whose rows a scan finds
//	undo.go          rows that undo the changes of a run
//	retry.go         failed rows, submitted again
//	submit.go        an input, submitted as a run
//	plan.go          the estimate of a submission
//	staging.go       rows that are stored before the commit
//	room.go          whether Redis has memory for them
//	requests.go      the number of requests that rows take
//	intake.go        creates runs, opens them for rows, and waits until Redis keeps a commit
//	input.go         the rows of an input: checked, rejected, duplicates
//	names.go         the ids of domains that rows name by their names
//	domain.go, evidence.go, export.go  stored rows: about a domain, proofs, results
//	stored.go        a run's rows as they are stored
//	rejected.go, duplicates.go  bad rows and repeated rows of an input
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
package intake
