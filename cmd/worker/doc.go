// Command worker carries out the tasks that producers enqueue.
//
// Its files, each using those below it:
//
//	main.go       the commands: work, doctor, sandbox
//	sandbox.go    --sandbox, and worker sandbox
//	doctor.go     worker doctor
//	run.go        starts and stops a worker: session, listeners, tenants
//	reload.go     changes of the file of tenants; drain.go: --drain
//	ready.go      /readyz, and the tokens that a worker fetches before it needs them
//	tenant.go     a tenant of the worker: start and stop
//	parts.go      builds the parts of a tenant; execution.go: those that execute its rows
//	worker.go     a worker, its connections and its tenants
//	config.go     the flags; access.go: those of access to the pages
package main
