package runs

import (
	"errors"
	"fmt"

	"orgops/apiclient"
	"orgops/internal/ledger"
)

var (
	// ErrNotFound says that there is no such run: it never was, or was deleted after its
	// retention.
	ErrNotFound = ledger.ErrNotFound
	// ErrMismatch says that the run is there but another one than was meant; it
	// is reached through a [MismatchError].
	ErrMismatch = errors.New("not the same run")
	// ErrCancelled says that rows were to be added to a run that was cancelled.
	ErrCancelled = errors.New("the run was cancelled: no more of its rows can be submitted")
	// ErrOpen says that the operation requires a run that has ended.
	ErrOpen = ledger.ErrOpen
	// ErrEnded says that the operation requires a run that has not ended.
	ErrEnded = ledger.ErrEnded
	// ErrRaced says that another process changed the run at the same moment: it is to be
	// read again.
	ErrRaced = ledger.ErrRaced
)

// MismatchError says in what a run differs from what was asked of it. Nothing
// has been changed.
type MismatchError struct {
	Run string
	// Member is "kind", "tenant", "caller", "content" (the digest, or rows stored), or "item"
	// (no row of this run has that number).
	Member string
	// Have is what the run has, Want what was asked.
	Have, Want string
}

// Error says what differs and what to do about it.
func (e *MismatchError) Error() string {
	if e.Member == "item" {
		return fmt.Sprintf("run %s has no row %s", e.Run, e.Want)
	}
	most := maxLabel
	if e.Member == "content" {
		most = 24 // the beginning of a digest says as much as all of it
	}
	return fmt.Sprintf("run %s exists with another %s (existing: %s, given: %s): use another id",
		e.Run, e.Member, apiclient.Plain(e.Have, most), apiclient.Plain(e.Want, most))
}

// Unwrap returns ErrMismatch.
func (e *MismatchError) Unwrap() error { return ErrMismatch }
