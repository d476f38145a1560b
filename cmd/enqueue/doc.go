// Command enqueue hands rows to the workers and tells what became of them.
//
// It needs Redis only, and to ask the DNS (domains check) not even that. serve
// takes rows in over HTTP. A file is read twice: first every row is checked and
// nothing is sent if one is bad, then the rows are stored in the ledger and
// their tasks enqueued. The run's id comes out before the first row is sent;
// handing the same rows in again under that id is harmless, and how a
// submission that was cut off is brought to its end.
package main
