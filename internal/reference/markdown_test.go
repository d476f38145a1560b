package reference_test

import (
	"testing"

	"orgops/internal/reference"
)

// TestProseKeepsExamples: an example is pasted into a shell, which would run a flag in
// backticks as a command, and drop it.
func TestProseKeepsExamples(t *testing.T) {
	const help = `With --follow the command waits for <run>.

Examples:

    enqueue domains sweep --dry-run
    printf %s "$ORGOPS_TOKEN" | sha256sum *

--dry-run changes nothing.`
	const want = "With `--follow` the command waits for \\<run>.\n\nExamples:\n\n" +
		"    enqueue domains sweep --dry-run\n    printf %s \"$ORGOPS_TOKEN\" | sha256sum *\n\n`--dry-run` changes nothing."
	if got := reference.Prose(help); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
