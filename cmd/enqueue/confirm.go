package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"orgops/internal/cli"
)

// sure is the flag of commands that take something away.
type sure struct {
	Yes bool `noenv:"true" help:"Do not ask on a terminal."`
}

// confirm asks on a terminal whether to do what the question says, and returns an error unless the
// answer is yes. It does not ask elsewhere, nor with --yes.
func (s sure) confirm(ctx context.Context, t *tool, question string) error {
	if s.Yes || !cli.IsTerminal(t.Stdin) {
		return nil
	}
	if _, err := fmt.Fprintf(t.Stderr, "%s [y/N] ", question); err != nil {
		return err
	}
	input, end := endingReader(ctx, t.Stdin)
	defer end()
	answer, err := bufio.NewReader(input).ReadString('\n')
	if ctx.Err() != nil {
		return ctx.Err()
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	if err != nil { // the terminal was closed, or Ctrl-D: the question's line is still open
		fmt.Fprintln(t.Stderr)
	}
	return errors.New("nothing was changed: the answer was not yes")
}
