package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"orgops/internal/cli"
	"orgops/internal/ids"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/remedy"
	"orgops/internal/scan/progress"
	"orgops/internal/status"
	"orgops/internal/terminal"
	"orgops/tasks"
)

// everywhereFlags remove one client from all organizations that have it, instead of rows.
type everywhereFlags struct {
	Client     string `noenv:"true" placeholder:"ID" help:"With --everywhere: the client to remove."`
	Everywhere bool   `noenv:"true" help:"Remove the client given by --client from every organization that has it, instead of a file. The workers list these organizations first; the number must be typed back, or given by --expect. With --dry-run: list them only."`
	Expect     int64  `noenv:"true" placeholder:"N" help:"With --everywhere: do not ask, and remove nothing if more than N organizations have the client."`
}

// checkEverywhere checks the flags together with --everywhere, before anything is listed.
func (c *removeCommand) checkEverywhere(t *tool) error {
	other := firstGiven(
		flag{c.File != "", "a file"}, flag{c.SkipInvalid, "--skip-invalid"}, flag{c.Rejected != "", "--rejected"},
		flag{len(c.IgnoreColumns) > 0, "--ignore-columns"}, flag{c.NotBefore != "", "--not-before"},
	)
	switch {
	case other != "":
		return cli.Usage(fmt.Errorf("--everywhere and %s do not go together: the rows are the organizations that the "+
			"workers find", other))
	case c.Client == "":
		return cli.Usage(errors.New("--everywhere: name the client by --client"))
	case c.Expect < 0:
		return cli.Usage(fmt.Errorf("expect: want 1 or more, got %d", c.Expect))
	case c.Expect == 0 && !c.DryRun && !cli.IsTerminal(t.Stdin):
		return cli.Usage(errors.New("--everywhere asks for the number of organizations on a terminal, and this is none: " +
			"read it from --dry-run, and give it by --expect"))
	}
	return cli.Usage(tasks.CheckClient(c.Client))
}

// removeEverywhere lists the organizations of a client, has their number confirmed, and submits the
// run that removes the client from them.
func (c *removeCommand) removeEverywhere(ctx context.Context, t *tool, o order) error {
	r, err := o.run()
	if err != nil {
		return err
	}
	of := r
	of.ID = intake.ListID(r.ID)
	if err := ids.CheckRun(string(of.ID)); err != nil {
		return cli.Usage(err)
	}
	seen, err := t.connectToSubmitTo(ctx, o.Tenant, o.NoWorkerYet)
	if err != nil {
		return err
	}

	// The list, which removes nothing.
	list, err := t.listClient(ctx, of, c.Client, seen)
	if err != nil {
		return notStarted(ctx, "run "+string(of.ID), string(r.ID), err)
	}
	listed, err := t.listed(ctx, list)
	if err != nil {
		return &cli.StatusError{Status: cli.StatusRejected, Err: fmt.Errorf("nothing was removed: %w", err)}
	}
	if c.DryRun {
		return t.print(listed, listed.Write)
	}
	if err := listed.Write(t.Stderr); err != nil {
		return err
	}

	// The number.
	if err := c.confirmCount(ctx, t, listed); err != nil {
		return err
	}
	run, created, err := t.intake().BeginEverywhere(ctx, list, listed.Organizations, r)
	if err != nil {
		return notStarted(ctx, "run "+string(r.ID), string(r.ID), err)
	}
	return t.started(ctx, run, created, seen, o.Follow)
}

// listClient submits the run that lists the organizations of a client, and waits for its end.
func (t *tool) listClient(ctx context.Context, r ledger.NewRun, client string, seen bool) (ledger.Run, error) {
	list, _, err := t.intake().BeginList(ctx, client, r)
	if err != nil {
		return ledger.Run{}, err
	}
	if !seen {
		t.log.WarnContext(ctx, "no worker has served this tenant on this Redis: the list waits until one starts", "tenant",
			r.Tenant)
	}
	t.log.InfoContext(ctx, "listing the organizations of the client; nothing is removed", "run", list.ID, "client", client)
	all, err := terminal.Follow(ctx, t.redis, r.Tenant, []string{string(list.ID)}, t.Stderr, cli.IsTerminal(t.Stderr))
	if err != nil {
		return ledger.Run{}, err
	}
	return all[0], nil
}

// listedShown is how many organizations of a list are shown.
const listedShown = 10

// clientListed is the list of the organizations of a client.
type clientListed struct {
	Run           string `json:"run"`
	Tenant        string `json:"tenant"`
	Organizations int64  `json:"organizations"`
	progress.Scan

	First []string `json:"first"` // of the organizations
}

// listed returns a list, or why a client cannot be removed by it.
func (t *tool) listed(ctx context.Context, list ledger.Run) (clientListed, error) {
	of, err := intake.ListOf(list)
	if err != nil {
		return clientListed{}, err
	}
	l := clientListed{Run: string(list.ID), Tenant: string(list.Tenant), Organizations: list.Total(), Scan: of}
	rows, err := t.ledger.Contents(ctx, list, 0, listedShown)
	for _, row := range rows {
		l.First = append(l.First, tasks.OrganizationOf(row))
	}
	return l, err
}

// Write writes the list as text.
func (l clientListed) Write(out io.Writer) error {
	w := terminal.NewTable(out)
	fmt.Fprintf(w, "client\t%s\n", l.Client)
	fmt.Fprintf(w, "organizations read\t%d\n", l.Read)
	fmt.Fprintf(w, "with the client\t%d\n", l.Organizations)
	if l.Entitled > 0 {
		fmt.Fprintf(w, "app entitlement active\t%d of these, whose members lose the application\n", l.Entitled)
	}
	if l.Protected > 0 {
		fmt.Fprintf(w, "protected\t%d more, which are left out\n", l.Protected)
	}
	fmt.Fprintf(w, "all of them\tenqueue runs results %s\n", l.Run)
	fmt.Fprintln(w, "\nORGANIZATION")
	for _, org := range l.First {
		fmt.Fprintln(w, status.Shown(org))
	}
	if more := l.Organizations - int64(len(l.First)); more > 0 {
		fmt.Fprintf(w, "and %d more\n", more)
	}
	return w.Flush()
}

// confirmCount compares the number of a list with --expect, or asks for it. The error says that
// nothing was removed.
func (c *removeCommand) confirmCount(ctx context.Context, t *tool, l clientListed) error {
	switch n := l.Organizations; {
	case n < c.Expect:
		t.log.InfoContext(ctx, "fewer organizations have the client than expected", "expected", c.Expect, "found", n)
		return nil
	case n == c.Expect:
		return nil
	case c.Expect > 0:
		more := remedy.With(fmt.Errorf("expected %d organizations with client %s, found %d: nothing was removed", c.Expect,
			l.Client, n), "look at the list (enqueue runs results %s), and repeat the command with --expect %d if all of "+
			"them are meant", l.Run, n)
		return &cli.StatusError{Status: cli.StatusRejected, Err: more}
	}

	// The question.
	const question = "\nTo remove client %s from these organizations, type their number: "
	if _, err := fmt.Fprintf(t.Stderr, question, l.Client); err != nil {
		return err
	}
	input, end := endingReader(ctx, t.Stdin)
	defer end()
	answer, err := bufio.NewReader(input).ReadString('\n')
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil { // the terminal was closed, or Ctrl-D: the question's line is still open
		fmt.Fprintln(t.Stderr)
	}
	typed, err := strconv.ParseInt(strings.TrimSpace(answer), 10, 64)
	if err != nil || typed != l.Organizations {
		return fmt.Errorf("nothing was removed: the answer was not %d", l.Organizations)
	}
	return nil
}
