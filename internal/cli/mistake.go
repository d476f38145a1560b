package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"orgops/internal/remedy"
	"orgops/internal/spelling"
)

// mistake explains an error of the parser: with the commands that there are, and with the variable
// of a secret that was given as a flag.
func mistake(program string, args []string, err error) error {
	text := err.Error()
	flag, isFlag := strings.CutPrefix(text, "unknown flag --")
	flag, _, _ = strings.Cut(flag, ",")
	if name := EnvName(flag); isFlag && slices.Contains(variables, name+"_FILE") {
		return remedy.With(err, "secrets are not flags: set %s_FILE to the path of a file, or %s", name, name)
	}
	parsed, ok := errors.AsType[*kong.ParseError](err)
	if !ok {
		return remedy.With(err, "for usage: %s --help", program)
	}

	// The command is as much of it as was understood.
	at := parsed.Context.Model.Node
	for _, path := range parsed.Context.Path {
		if node := path.Node(); node != nil {
			at = node
		}
	}
	if at.Leaf() && at.Parent != nil && !slices.Contains(args, at.Name) { // a default command
		at = at.Parent
	}
	given, unknown := strings.CutPrefix(text, "unexpected argument ")
	missing := strings.HasPrefix(text, "expected one of ")
	if at.Leaf() || (!unknown && !missing) {
		return remedy.With(err, "for usage: %s --help", commandPath(at))
	}

	// A word that is no command, or none.
	given, _, _ = strings.Cut(given, ",")
	names, similar := commandsOf(at, given)
	var fix string
	switch {
	case unknown && given == "help":
		fix = "for help: " + commandPath(at) + " --help"
	case unknown && similar != "":
		fix = "did you mean: " + similar
	default:
		fix = "commands of " + commandPath(at) + ": " + strings.Join(names, ", ")
	}
	if unknown {
		return remedy.With(fmt.Errorf("unknown command %q", given), "%s", fix)
	}
	return remedy.With(errors.New("the command is missing"), "%s", fix)
}

// commandsOf returns the names of the commands of a node, and the paths of those that were probably
// meant by a name, separated by commas.
func commandsOf(at *kong.Node, given string) (names []string, similar string) {
	for _, child := range at.Children {
		if !child.Hidden {
			names = append(names, child.Name)
		}
	}
	if near := spelling.Nearest(given, names); near != "" {
		return names, commandPath(at) + " " + near
	}
	var paths []string
	for _, leaf := range at.Leaves(true) {
		if leaf.Name == given {
			paths = append(paths, commandPath(leaf))
		}
	}
	return names, strings.Join(paths, ", ")
}

func commandPath(of *kong.Node) string {
	if of.Parent == nil {
		return of.Name
	}
	return commandPath(of.Parent) + " " + of.Name
}
