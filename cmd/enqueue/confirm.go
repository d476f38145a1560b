package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"orgops/internal/cli"
	"orgops/internal/remedy"
)

// sure is the flag of commands that take something away.
type sure struct {
	Yes bool `noenv:"true" help:"Do not ask. Without a terminal, commands that delete or revoke need it."`
}

// because is the flag of commands whose reason the activity keeps.
type because struct {
	Reason string `noenv:"true" placeholder:"TEXT" help:"Reason, kept in the activity (default: asked for on a terminal)."`
}

// question is asked before a command takes something away.
type question struct {
	text string // the action, with the number of affected rows or domains
	// needsYes says that it cannot be undone, or that customers feel it at once: without a terminal
	// it needs --yes. Other commands are carried out there without a question.
	needsYes bool
	before   string   // a command or advice to follow before adding --yes
	because  *because // to ask for the reason, too; nil: none is kept
}

// confirm asks a question on a terminal, and then for the reason if none is given. It returns an
// error unless the answer is yes, or --yes is set.
func (s sure) confirm(ctx context.Context, t *tool, q question) error {
	terminal := cli.IsTerminal(t.Stdin)
	if s.Yes || (!terminal && !q.needsYes) {
		return nil
	}
	if !terminal {
		return cli.Usage(remedy.With(errors.New("nothing was changed: without a terminal this command cannot ask: "+q.text),
			"%s, and add --yes, or answer the question on a terminal", q.before))
	}
	input, end := endingReader(ctx, t.Stdin)
	defer end()
	lines := bufio.NewReader(input)
	answer, err := ask(ctx, t.Stderr, lines, q.text+"? [y/N] ")
	if err != nil {
		return err
	}
	switch strings.ToLower(answer) {
	case "y", "yes":
	default:
		return errors.New("nothing was changed: the answer was not yes")
	}
	if q.because != nil && q.because.Reason == "" {
		q.because.Reason, err = ask(ctx, t.Stderr, lines, "Reason, kept in the activity (none: Enter): ")
	}
	return err
}

// ask prints a prompt and returns the line that is typed. A terminal that is closed, or Ctrl-D, is
// an empty line.
func ask(ctx context.Context, out io.Writer, lines *bufio.Reader, prompt string) (string, error) {
	if _, err := fmt.Fprint(out, prompt); err != nil {
		return "", err
	}
	line, err := lines.ReadString('\n')
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil { // the prompt's line is still open
		fmt.Fprintln(out)
	}
	return strings.TrimSpace(line), nil
}
