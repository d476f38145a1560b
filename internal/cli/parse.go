package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Exit statuses.
const (
	StatusOK          = 0
	StatusFailed      = 1
	StatusUsage       = 2 // usage, settings, or a header that does not fit
	StatusRejected    = 3 // a row was rejected, or settled badly
	StatusInterrupted = 130
)

// StatusError is an error that names the exit status it asks for.
type StatusError struct {
	Status int
	Err    error
}

func (e *StatusError) Error() string { return e.Err.Error() }

func (e *StatusError) Unwrap() error { return e.Err }

// Usage makes of err one of usage or settings.
func Usage(err error) error { return &StatusError{StatusUsage, err} }

// Status is the exit status that err asks for.
func Status(err error) int {
	var s *StatusError
	switch {
	case err == nil:
		return StatusOK
	case errors.As(err, &s):
		return s.Status
	case errors.Is(err, context.Canceled):
		return StatusInterrupted
	}
	return StatusFailed
}

// Program is a command's surroundings, handed in by its main.
type Program struct {
	Name        string
	Description string
	Args        []string
	Stdin       io.Reader
	Stdout      io.Writer
	Stderr      io.Writer
	Env         *Environment
	Version     string
}

const envPrefix = "ORGOPS_"

// EnvName is the environment variable of a flag.
func EnvName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// noEnv are the flags that say what to do rather than how: they have no
// environment variable. Nor has a flag tagged `noenv:"true"`.
var noEnv = map[string]bool{"help": true, "version": true}

func hasEnv(flag *kong.Flag) bool {
	return !noEnv[flag.Name] && flag.Tag.Get("noenv") == ""
}

// exited unwinds the parser when it has answered itself (--help, --version).
type exited struct{ status int }

// Parse reads the arguments, and for flags that are not given the
// environment, into grammar. done says that everything is done already, as
// after --help. The error is one of usage.
func (p Program) Parse(grammar any) (selected *kong.Context, done bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(exited); !ok {
				panic(r)
			}
			selected, done, err = nil, true, nil
		}
	}()
	parser, err := kong.New(grammar,
		kong.Name(p.Name), kong.Description(p.Description), kong.Writers(p.Stdout, p.Stderr),
		kong.Exit(func(status int) { panic(exited{status}) }),
		kong.Vars{"version": p.Version},
		kong.Resolvers(kong.ResolverFunc(p.resolve)),
		kong.ValueFormatter(describe),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
	)
	if err != nil {
		return nil, false, fmt.Errorf("command definition: %w", err)
	}
	selected, err = parser.Parse(p.Args)
	if err != nil {
		return nil, false, Usage(fmt.Errorf("%w\nrun \"%s --help\" for what there is", err, p.Name))
	}
	return selected, false, nil
}

// Given says whether the flag was among the arguments, rather than in the
// environment or left to its default.
func Given(selected *kong.Context, flag string) bool {
	return slices.ContainsFunc(selected.Path, func(p *kong.Path) bool {
		return p.Flag != nil && p.Flag.Name == flag && !p.Resolved
	})
}

// GivenIn are the flags of a group that were among the arguments.
func GivenIn(selected *kong.Context, group string) (flags []string) {
	for _, p := range selected.Path {
		if p.Flag != nil && !p.Resolved && p.Flag.Group != nil && p.Flag.Group.Key == group {
			flags = append(flags, p.Flag.Name)
		}
	}
	return flags
}

// resolve gives a flag its value from the environment.
func (p Program) resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if !hasEnv(flag) {
		return nil, nil
	}
	if value := p.Env.Get(EnvName(flag.Name)); value != "" {
		return value, nil
	}
	return nil, nil
}

// describe names a flag's environment variable in the help.
func describe(value *kong.Value) string {
	if value.Flag == nil || !hasEnv(value.Flag) {
		return value.Help
	}
	return fmt.Sprintf("%s ($%s)", value.Help, EnvName(value.Flag.Name))
}

// Fail tells the person what went wrong and returns the exit status. An
// interruption is told only where a [StatusError] has words for it.
func (p Program) Fail(err error) int {
	status := Status(err)
	var worded *StatusError
	if err == nil || (status == StatusInterrupted && !errors.As(err, &worded)) {
		return status
	}
	fmt.Fprintf(p.Stderr, "%s: %s\n", p.Name, err)
	return status
}
