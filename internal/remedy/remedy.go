// Package remedy has remedies: what a person should do about a fact, or an error. The remedy is
// made where the fact is, since only that place knows it; commands, pages and the
// HTTP API render it. The one thing in which they differ is how they write the [Command] of a
// [Fix].
package remedy

import (
	"errors"
	"fmt"
	"strings"
)

// Command is a command of enqueue that a remedy names.
type Command struct {
	// Name is that of the command, such as "runs follow".
	Name string
	// Run is the run that is its argument; "": it has none.
	Run string
	// New is the id of the run that it makes; "": it makes none, or one with another id.
	New string
	// Flags are the rest of its arguments, as they are typed; "": there are none.
	Flags string
}

// Follow follows a run to its end.
func Follow(run string) Command { return Command{Name: "runs follow", Run: run} }

// Cancel ends a run.
func Cancel(run string) Command { return Command{Name: "runs cancel", Run: run} }

// Resume continues a paused run.
func Resume(run string) Command { return Command{Name: "runs resume", Run: run} }

// Retry submits failed rows of a run again, as a run of its own.
func Retry(run string) Command { return Command{Name: "runs retry", Run: run} }

// RetryRow submits a failed row of a run again.
func RetryRow(run string, item int64) Command {
	return Command{Name: "runs retry", Run: run, Flags: fmt.Sprintf("--row %d", item)}
}

// CompleteRetry completes a retry of the rows that flags select.
func CompleteRetry(run, flags, child string) Command {
	return Command{Name: "runs retry", Run: run, Flags: flags, New: child}
}

// Quote returns a text as one argument of a shell.
func Quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// String returns the command as it is typed.
func (c Command) String() string {
	words := []string{"enqueue", c.Name}
	if c.Run != "" {
		words = append(words, c.Run)
	}
	if c.Flags != "" {
		words = append(words, c.Flags)
	}
	if c.New != "" {
		words = append(words, "--run", c.New)
	}
	return strings.Join(words, " ")
}

// Fix is a remedy: what a person should do. The zero Fix is none.
type Fix struct {
	format string
	args   []any
}

// To returns a remedy, an instruction such as "to end it first: %s". Commands are among args as
// values of type [Command].
func To(format string, args ...any) Fix { return Fix{format, args} }

// IsZero reports whether there is no remedy.
func (f Fix) IsZero() bool { return f.String() == "" }

// String returns the remedy with its commands as they are typed; "": there is none.
func (f Fix) String() string { return fmt.Sprintf(f.format, f.args...) }

// By returns the remedy with its commands as write writes them.
func (f Fix) By(write func(Command) string) string {
	args := make([]any, len(f.args))
	for i, arg := range f.args {
		args[i] = arg
		if command, is := arg.(Command); is {
			args[i] = write(command)
		}
	}
	return fmt.Sprintf(f.format, args...)
}

// MarshalText returns the remedy as [Fix.String] does.
func (f Fix) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// Error is an error with its remedy.
type Error struct {
	Err error
	Fix Fix
}

// With returns err with its remedy: see [To].
func With(err error, format string, args ...any) error { return &Error{err, To(format, args...)} }

// Error returns the error and the remedy on one line, for logs and pages.
func (e *Error) Error() string { return e.Err.Error() + "; " + e.Fix.String() }

func (e *Error) Unwrap() error { return e.Err }

// About returns what with the remedy of e.
func (e *Error) About(what error) error { return &Error{what, e.Fix} }

// Of returns the remedy of an error, "" if it has none, and the error itself, without it and
// without the errors that wrap it.
func Of(err error) (fix string, bare error) {
	if with, ok := errors.AsType[*Error](err); ok {
		return with.Fix.String(), with.Err
	}
	return "", err
}
