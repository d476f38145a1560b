package remedy_test

import (
	"errors"
	"fmt"
	"testing"

	"orgops/internal/remedy"
)

var errOpen = errors.New("run a is open")

// TestError: one value is a line for logs, an error and its remedy for a terminal, and a sentence
// with other commands for another surface.
func TestError(t *testing.T) {
	err := remedy.With(errOpen, "follow it (%s), or end it (%s)", remedy.Follow("a"), remedy.Cancel("a"))
	const fix = "follow it (enqueue runs follow a), or end it (enqueue runs cancel a)"
	if got, want := err.Error(), "run a is open; "+fix; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
	got, what := remedy.Of(fmt.Errorf("context: %w", err))
	if !errors.Is(what, errOpen) || what.Error() != errOpen.Error() || got != fix {
		t.Errorf("Of: %v, %q", what, got)
	}
	if got, what := remedy.Of(errOpen); !errors.Is(what, errOpen) || got != "" {
		t.Errorf("Of an error without a remedy: %v, %q", what, got)
	}
	with, _ := errors.AsType[*remedy.Error](err)
	by := with.Fix.By(func(c remedy.Command) string { return c.Name + " of " + c.Run })
	if by != "follow it (runs follow of a), or end it (runs cancel of a)" {
		t.Errorf("By: %q", by)
	}
}

func TestCommand(t *testing.T) {
	for want, c := range map[string]remedy.Command{
		"enqueue runs resume a": remedy.Resume("a"),
		"enqueue runs retry a":  remedy.Retry("a"),
		"enqueue runs retry a --outcome failed,expired --run b": remedy.CompleteRetry("a",
			"--outcome failed,expired", "b"),
		"enqueue domains revoke --dry-run": {Name: "domains revoke", Flags: "--dry-run"},
	} {
		if got := c.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
