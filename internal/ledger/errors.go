package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

var (
	// ErrNotFound says that a run or segment does not exist, or that another run has
	// its id by now.
	ErrNotFound = errors.New("no such run")
	// ErrDamaged says that what is stored of a segment cannot be read: other segments can.
	ErrDamaged = errors.New("the stored segment is damaged")
	// ErrOpen says that the operation needs a run that has ended.
	ErrOpen = errors.New("the run has not ended: cancel it and let its rows in progress finish")
	// ErrEnded says that the operation needs a run that has not ended.
	ErrEnded = errors.New("the run has ended")
	// ErrNoMemory says that Redis is at maxmemory and has refused the write. Operations
	// that free memory, stop work or end an execution never return it.
	ErrNoMemory = errors.New("redis has no memory left: raise maxmemory or delete runs")
	// ErrRaced says that a run was changed by another client since it was read.
	ErrRaced = errors.New("the run was changed meanwhile: read it again")
	// ErrReplaced says that another producer stages the rows of the run by now.
	ErrReplaced = errors.New("another submission of the run has begun since, and this one has ended")
	// ErrLost says that Redis has lost rows that were submitted. Nothing of the run was committed.
	ErrLost = errors.New("redis has lost rows that were submitted: submit the run again under the same id")
	// ErrMismatch is wrapped by each [MismatchError].
	ErrMismatch = errors.New("not the same run")
)

var errScan = errors.New("the rows of the run are found by its scan")

// isNotFound reports whether the error is [ErrNotFound].
func isNotFound(err error) bool { return errors.Is(err, ErrNotFound) }

// MismatchError says that a run exists with other properties or rows than the caller's.
// Nothing has been changed.
type MismatchError struct {
	Run RunID
	// Member is the property that differs.
	Member Member
	// Have is the run's value and Want the caller's.
	Have, Want string
}

// Member is a property of a run in which a submission may differ.
type Member string

// The members.
const (
	MemberTenant  Member = "tenant"
	MemberKind    Member = "kind"
	MemberContent Member = "content" // the digest, or rows
	MemberOrigin  Member = "origin"  // whether a scan finds the rows
	MemberCaller  Member = "caller"  // the HTTP client
	MemberHeader  Member = "header"  // the names of the columns
)

// Error names the difference and how to proceed.
func (e *MismatchError) Error() string {
	most := maxLabel
	if e.Member == MemberContent {
		most = 24 // characters of a digest
	}
	return fmt.Sprintf("run %s exists with another %s (existing: %.*s, given: %.*s): use another id",
		e.Run, e.Member, most, e.Have, most, e.Want)
}

// Unwrap returns ErrMismatch.
func (e *MismatchError) Unwrap() error { return ErrMismatch }

// AmbiguousError reports that several tenants have a run of one id.
type AmbiguousError struct {
	Run     RunID
	Tenants []Tenant
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("run %s exists in several tenants: %s; name the tenant", e.Run,
		strings.Trim(fmt.Sprint(e.Tenants), "[]"))
}

// wrap adds an operation to the error of a function, which defers it.
func wrap(err *error, format string, a ...any) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", fmt.Sprintf(format, a...), *err)
	}
}

// joined returns an error for those that are not nil, with their number and the first.
func joined(what string, errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%d %s failed, the first: %w", len(errs), what, errs[0])
}
