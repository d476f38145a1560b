package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/alecthomas/kong"

	"orgops/internal/remedy"
)

// Program has the arguments, streams and environment of a command.
type Program struct {
	Name        string
	Description string
	Args        []string
	Stdin       io.Reader
	Stdout      io.Writer
	Stderr      io.Writer
	Env         *Environment
	Version     string
	Vars        kong.Vars // for the tags of the grammar, such as help:"${NAME}"; nil: none
	JSON        bool      // errors are printed as JSON
}

// noEnv are the flags without an environment variable. A flag tagged `noenv:"true"` has none
// either.
var noEnv = map[string]bool{"help": true, "version": true}

// Variable returns the environment variable of a flag; empty: it has none.
func Variable(flag *kong.Flag) string {
	if noEnv[flag.Name] || flag.Tag.Get("noenv") != "" {
		return ""
	}
	return EnvName(flag.Name)
}

// exited unwinds the parser after --help or --version.
type exited struct{ status int }

// Parse reads the arguments, and the environment for flags that are not given, into grammar.
// done reports that nothing is left to do, as after --help. The error is one of usage.
func (p Program) Parse(grammar any) (selected *kong.Context, done bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(exited); !ok {
				panic(r)
			}
			selected = nil
			done = true
			err = nil
		}
	}()
	parser, err := p.parser(grammar)
	if err != nil {
		return nil, false, err
	}
	selected, err = parser.Parse(p.Args)
	if err != nil {
		return nil, false, Usage(mistake(p.Name, p.Args, err))
	}
	return selected, false, nil
}

// Model returns the definition of the commands in grammar.
func (p Program) Model(grammar any) (*kong.Application, error) {
	parser, err := p.parser(grammar)
	if err != nil {
		return nil, err
	}
	return parser.Model, nil
}

func (p Program) parser(grammar any) (*kong.Kong, error) {
	parser, err := kong.New(grammar,
		kong.Name(p.Name), kong.Description(p.Description), kong.Writers(p.Stdout, p.Stderr),
		kong.Exit(func(status int) { panic(exited{status}) }),
		kong.Vars{"version": p.Version}, p.Vars,
		kong.Resolvers(kong.ResolverFunc(p.resolve)),
		kong.ValueFormatter(describe),
		durations,
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
	)
	if err != nil {
		return nil, fmt.Errorf("command definition: %w", err)
	}
	return parser, nil
}

// Given reports whether the flag was among the arguments, rather than in the environment or
// left to its default.
func Given(selected *kong.Context, flag string) bool {
	return slices.ContainsFunc(selected.Path, func(p *kong.Path) bool {
		return p.Flag != nil && p.Flag.Name == flag && !p.Resolved
	})
}

// GivenIn returns the flags of a group that were among the arguments.
func GivenIn(selected *kong.Context, group string) (flags []string) {
	for _, p := range selected.Path {
		if p.Flag != nil && !p.Resolved && p.Flag.Group != nil && p.Flag.Group.Key == group {
			flags = append(flags, p.Flag.Name)
		}
	}
	return flags
}

// VariablesIn returns the environment variables that the flags of a group have their values from.
func VariablesIn(selected *kong.Context, group string) (names []string) {
	for _, p := range selected.Path {
		if p.Flag != nil && p.Resolved && p.Flag.Group != nil && p.Flag.Group.Key == group {
			names = append(names, Variable(p.Flag))
		}
	}
	return names
}

// resolve returns the value of a flag from the environment. A flag tagged `orenv:"NAME"` has a
// second variable, which counts if its own is not set.
func (p Program) resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if name := Variable(flag); name != "" {
		value := p.Env.Get(name)
		if second := flag.Tag.Get("orenv"); value == "" && second != "" {
			value = p.Env.Get(second)
		}
		if value != "" {
			return value, nil
		}
	}
	return nil, nil
}

// describe adds a flag's environment variable to its help.
func describe(value *kong.Value) string {
	if value.Flag == nil || Variable(value.Flag) == "" {
		return value.Help
	}
	return fmt.Sprintf("%s ($%s)", value.Help, Variable(value.Flag))
}

// WriteJSON writes v as one line of JSON.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// Fail prints the error, with its fix on a line of its own or, with JSON, as members of an object,
// and returns the exit status. An interruption is printed only if a [StatusError] describes it.
func (p Program) Fail(err error) int {
	status := Status(err)
	var described *StatusError
	if err == nil || (status == StatusInterrupted && !errors.As(err, &described)) {
		return status
	}
	fix, what := remedy.Of(err)
	if p.JSON {
		_ = WriteJSON(p.Stderr, struct {
			Error string `json:"error"`
			Fix   string `json:"fix,omitempty"`
		}{what.Error(), fix})
		return status
	}
	fmt.Fprintf(p.Stderr, "%s: %s\n", p.Name, what)
	if fix != "" {
		fmt.Fprintln(p.Stderr, fix)
	}
	return status
}
