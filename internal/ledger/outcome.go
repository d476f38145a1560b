package ledger

import (
	"fmt"
	"strings"
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

// Validate returns an error unless the outcome has the form of one.
func (o Outcome) Validate() error {
	if !consistsOf(string(o), 32, "_") || strings.ContainsAny(string(o), "0123456789") {
		return fmt.Errorf("outcome %s: want 1 to 32 of a-z or _", quoted(string(o)))
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
