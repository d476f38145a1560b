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
package sweep
