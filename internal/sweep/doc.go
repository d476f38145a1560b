// Package sweep decides what sweeps do about domains whose token is gone.
//
// A sweep checks the token of each verified domain of a tenant. Each check is an
// [Observation], which changes the domain's stored [DomainState] once for each sweep. A
// domain is watched while its token is gone, while a request of an action is in progress,
// or while orgops has taken something away from it. A watched domain is checked between
// two sweeps too; such a check can clear an absence, and counts nothing.
//
//	row of the sweep --> Observation --> DomainState --+
//	                                                   |  end of the sweep's run
//	                               watched domains <---+
//	                                      |
//	                                      v
//	      Rules, Breaker, tally --> Evaluation --> Summary, ActionRow
//
// At the end of a sweep's run [Evaluator.Evaluate] assesses all watched domains by the
// tenant's [Rules] and returns the actions to submit. It writes breaker and summary by
// compare-and-set and can be repeated at any point. It sends no request to the API: an
// action decides again, by the state and the record of then.
//
// The files, each of which uses those below it:
//
//	evaluate.go    the end of a sweep: its evaluation, and the actions to submit
//	states.go      the states of a tenant's domains: read, changed, notified
//	evaluation.go  the decision on all watched domains: breaker and summary
//	rules.go       the status of a domain by the rules
//	observe.go     the checks of a sweep, and between two sweeps
//	change.go      changes of a state, and its history
//	state.go       the state of a domain
//	action.go      actions, as they are requested and submitted
//	ticks.go       the last ticks of a schedule, and their sweeps
//	store.go       states as bytes in Redis
//	cron.go        the ticks of a schedule
//	progress.go    the progress of a sweep's scan
package sweep
