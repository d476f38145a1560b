package runs

import (
	"errors"
	"fmt"

	"orgops/internal/ledger"
)

var (
	// ErrNotFound says that there is no such run: it never was, or was deleted after its
	// retention.
	ErrNotFound = ledger.ErrNotFound
	// ErrMismatch says that the run is there but another one than was meant; it
	// is reached through a [MismatchError].
	ErrMismatch = errors.New("not the same run")
)

// MismatchError says in what a run differs from what was asked of it. Nothing
// has been changed.
type MismatchError struct {
	Run string
	// Member is "kind", "tenant", "content" (the digest, or rows stored), "total"
	// or "item" (no row of this run has that number).
	Member string
	// Have is what the run has, Want what was asked.
	Have, Want string
}

// Error says what differs and what to do about it.
func (e *MismatchError) Error() string {
	switch e.Member {
	case "item":
		return fmt.Sprintf("run %s has no row %s", e.Run, e.Want)
	case "total":
		return fmt.Sprintf("run %s has %s rows, not %s", e.Run, e.Have, e.Want)
	}
	most := maxLabel
	if e.Member == "content" {
		most = 24 // the beginning of a digest says as much as all of it
	}
	return fmt.Sprintf("run %s exists with another %s (existing: %s, given: %s): use another id",
		e.Run, e.Member, quote(e.Have, most), quote(e.Want, most))
}

// Unwrap returns ErrMismatch.
func (e *MismatchError) Unwrap() error { return ErrMismatch }

// checkItem holds a row's number to what any run can have.
func checkItem(run string, item int64) error {
	if item < 0 || item >= MaxRows {
		return &MismatchError{Run: run, Member: "item", Want: fmt.Sprint(item)}
	}
	return nil
}
