// Command enqueue submits rows and tracks their results.
//
// It needs Redis only, and for a check of a DNS record not even that. serve accepts rows over
// HTTP, and customer-page shows customers their domains. A file is read once: its rows are checked
// and staged in the ledger, and none starts before all are. Submitting the same rows again under
// the run's id is harmless, and completes a submission that was interrupted.
//
// Its files, each using those below it:
//
//	main.go       the process: signals and exit
//	run.go        the commands
//	activity.go   activity
//	link.go       domains link, and the page that links open
//	serve.go      the intake over HTTP; new entries of the access file
//	kinds.go      domains verify and update, clients remove, templates create
//	undo.go       domains update --undo
//	revoke.go     domains revoke, and its undoing
//	sweep.go      domains sweep; sweep_plan.go: its preview
//	everywhere.go clients remove --everywhere
//	pending.go    runs whose rows the workers find
//	dryrun.go     the estimate of a submission
//	submit.go     submissions
//	instructions.go  domains instructions
//	check.go      domains check
//	files.go      the files of rows that a submission reads, and that of its bad rows
//	domain.go     domains show and history
//	evidence.go   evidence export
//	retry.go      runs retry, failed and results
//	control.go    runs pause, resume, cancel and delete
//	show.go       runs show
//	tenant.go     tenant show, stop, start and reassign; the settings of a tenant's workers
//	runs.go       runs list and follow
//	confirm.go    the question before something is taken away
//	flags.go      flags that several commands have, and their checks
//	unknown.go    errors of runs and tenants that are not there, and of users who may not
//	tool.go       the connections and the output that the commands share
package main
