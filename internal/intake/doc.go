// Package intake submits rows: those of an [Input], which package rowfile reads, rows that a scan
// finds, and rows of a run again, which package results reads.
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
//	rejected.go, duplicates.go  bad rows and repeated rows of an input
//	row.go           a row of an input, and whose rows a submitter may submit
package intake
