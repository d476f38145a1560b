package ledger

import (
	"fmt"
	"strings"

	"orgops/internal/ids"
	"orgops/internal/untrusted"
)

// Outcome is how a row was settled: 1 to 32 of a-z and _.
type Outcome string

// The outcomes that the ledger itself knows. Of a row that is simply done or cancelled
// it stores no more than a bit.
const (
	Done      Outcome = "done"      // it is now as the row asked for
	Cancelled Outcome = "cancelled" // an operator cancelled the run
	Failed    Outcome = "failed"    // every attempt failed, or Redis has lost the row
)

// The other outcomes that settle a row. Kinds choose them.
const (
	Unchanged  Outcome = "unchanged" // the row's request was met before
	Refused    Outcome = "refused"   // by the API, or for lack of a proof
	InvalidRow Outcome = "invalid"   // the row is malformed
	Expired    Outcome = "expired"   // the token did not appear in time
	AtRisk     Outcome = "at_risk"   // a sweep found the token of a verified domain gone, for less than the grace period
	Lost       Outcome = "lost"      // a sweep found the token of a verified domain gone for the whole grace period
	Unproven   Outcome = "unproven"  // a sweep found none for as long, but it was never proven to be there
	Withdrawn  Outcome = "withdrawn" // a sweep found a domain that was verified pending, gone or with another token
)

// The outcomes of an execution that leave a row open.
const (
	NotYetFound Outcome = "not_yet" // the token is not in DNS yet
	Paced       Outcome = "paced"   // the tenant's rate allows no request yet
	// the API refuses the credentials, they lack a scope, or an operator has stopped the tenant
	Blocked      Outcome = "blocked"
	Transient    Outcome = "transient"  // the attempt failed and is repeated
	Stopping     Outcome = "stopping"   // the worker stops
	Stopped      Outcome = "stopped"    // the run is paused or cancelled
	Isolated     Outcome = "isolated"   // a row that may take its worker down is executed alone
	Superseded   Outcome = "superseded" // the row is settled or another execution has it
	Unrecognized Outcome = "unknown"    // a newer worker is needed
)

// Settles reports whether an outcome is the last one of a row.
func Settles(o Outcome) bool {
	switch o {
	case Done, Cancelled, Unchanged, Failed, Refused, InvalidRow, Expired, AtRisk, Lost, Unproven, Withdrawn:
		return true
	}
	return false
}

// Succeeded reports whether a row with that outcome needs nothing more.
func Succeeded(o Outcome) bool { return o == Done || o == Unchanged || o == AtRisk }

// Validate returns an error unless the outcome has the form of one.
func (o Outcome) Validate() error {
	if !ids.ConsistsOf(string(o), 32, "_") || strings.ContainsAny(string(o), "0123456789") {
		return fmt.Errorf("outcome %s: want 1 to 32 of a-z or _", untrusted.Value(o))
	}
	return nil
}

// maxResult bounds detail and evidence of a result together, in bytes.
const maxResult = 16 << 10

// maxDetail is how many characters of a detail are read: room for a sentence and a quoted value.
const maxDetail = 500

// Result is the result of a row.
type Result struct {
	Outcome Outcome
	// Detail is for people; "" if there is nothing to say.
	Detail string
	// Evidence is stored with the result, in the form of its writer; nil for none. Detail
	// and evidence have at most 16 KiB together.
	Evidence []byte
}

func (r Result) validate() error {
	if n := len(r.Detail) + len(r.Evidence); n > maxResult {
		return fmt.Errorf("result of %d bytes: want at most %d", n, maxResult)
	}
	return r.Outcome.Validate()
}

// stored returns the stored form of detail and evidence: the detail, then a NUL and the
// evidence if there is any.
func (r Result) stored() string {
	detail := strings.ReplaceAll(r.Detail, "\x00", "\uFFFD")
	if len(r.Evidence) == 0 {
		return detail
	}
	return detail + "\x00" + string(r.Evidence)
}

// parseResult reads outcome:detail, with evidence after a NUL.
func parseResult(stored string) Result {
	outcome, rest, _ := strings.Cut(stored, ":")
	detail, evidence, found := strings.Cut(rest, "\x00")
	r := Result{Outcome: Outcome(outcome), Detail: detail}
	if found {
		r.Evidence = []byte(evidence)
	}
	return r
}
