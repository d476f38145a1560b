// Package engine runs one asynq task of a tenant: it begins the task's rows in the
// ledger, lets the handler of their kind carry them out, which says how each row ends,
// and ends with one write to the ledger.
//
//	asynq task --> parse --> Begin --> Handler.Execute --> End
//	                 |         |
//	                 |         +-- not admitted: acknowledged without work
//	                 +-- unknown version, kind or member: given back, due in 5 s
//
// A task is a message and not a record: the ledger knows the row before, while and
// after it is executed. asynq's retry count is never read, a second delivery of a
// message is acknowledged without work, and an execution that ends without a write is
// repeated by the ledger when its session is dead. If Redis
// has lost the end of an execution, its rows are due again after [ledger.ExecutionLimit].
//
// After a cancel nothing starts. A row with an intent stays open until a read shows the result of
// its request, all others are settled at once. The client of an execution asks the ledger before
// each request whether it may, unless its last answer is less than a second old. The API knows no
// nonces: the successor of an execution that was fenced out sends nothing until the intent is twice
// the request timeout old, unless a read shows the result.
//
// Of two dispatchers the one with the higher [Protocol] is active. What a worker does not know, a
// kind, a stage or a member of a task, it gives back with a note, and counts no attempt. No permit,
// no token and a right that was withdrawn for a while count none either.
//
// The files, each of which uses those below it:
//
//	engine.go       a task, from its beginning to its end
//	begin.go        the begin of an execution
//	end.go          the end of an execution: the write, the log line
//	persist.go      calls of the ledger that Redis must answer
//	handler.go      the interface of handlers
//	execution.go    the execution and its rows, as handlers see them
//	consequence.go  how an error ends an execution, and the delay of the next attempt; whether a
//	                failed request may have had its effect
//	task.go         the payload of a task
//	errors.go       the ways in which an execution ends for a row, and the errors that decide on it
//	outcome.go      log levels of outcomes
//	session.go      the session of a worker
//	server.go       the configuration of asynq's servers
//	ledger.go       the part of the ledger that executions use
//
// # Adding a kind
//
// Implement [Handler], or a function for [One] if each task has one row, and add it to
// [Config.Handlers]. The handler must be safe to run twice: store an intent with
// [Execution.Intend] before a request whose answer may be lost,
// and read the result of a [Row.Intent]'s request before the next one. One that makes
// several requests ends rows with [Execution.End] before each. It returns how each row ends:
// [Settle], [Later], [NotYet], [Ready], [Expire], or [Fail] with an error as it is, which [Decide]
// knows. An error that is raised deep settles the row if [Refuse] or [Invalid] has made it.
package engine
