// Command enqueue submits rows and tracks their results.
//
// It needs Redis only, and to ask the DNS (domains check) not even that. serve
// accepts rows over HTTP. A file is read once: its rows are checked and staged in the
// ledger, and none starts before all are. Submitting the same rows again under the run's
// id is harmless, and completes a submission that was interrupted.
package main
