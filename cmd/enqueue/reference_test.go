package main

import (
	"slices"
	"testing"

	"github.com/alecthomas/kong"

	"orgops/internal/cli"
	"orgops/internal/reference"
	"orgops/tasks"
)

func TestReference(t *testing.T) {
	app, err := cli.Program{Name: "enqueue", Vars: labels()}.Model(&grammar{})
	if err != nil {
		t.Fatal(err)
	}
	reference.Check(t, "commands.md", "enqueue", reference.Commands(app))
	reference.Check(t, "settings.md", "enqueue", reference.Settings(app.Node, nil))
	commands := cli.Commands(app.Node)
	serve := slices.IndexFunc(commands, func(n *kong.Node) bool { return n.FullPath() == "enqueue serve" })
	reference.Check(t, "settings.md", "enqueue serve", reference.Settings(commands[serve], nil))
}

// TestKindsHaveCommands checks that each kind has the command that its description names, with the
// flags that its rows need.
func TestKindsHaveCommands(t *testing.T) {
	app, err := cli.Program{Name: "enqueue", Vars: labels()}.Model(&grammar{})
	if err != nil {
		t.Fatal(err)
	}
	commands := cli.Commands(app.Node)
	for _, kind := range tasks.All() {
		if kind.Command == "" {
			continue
		}
		i := slices.IndexFunc(commands, func(n *kong.Node) bool { return n.FullPath() == "enqueue "+kind.Command })
		if i < 0 {
			t.Errorf("%s: there is no command %q", kind.Name, kind.Command)
			continue
		}
		has := func(flag string) bool {
			return slices.ContainsFunc(commands[i].Flags, func(f *kong.Flag) bool { return f.Name == flag })
		}
		if commands[i].Help != kind.Label || has("give-up") != kind.Awaits || has("batch-wait") != (kind.Together > 0) {
			t.Errorf("%s: help %q, --give-up %t, --batch-wait %t", kind.Name, commands[i].Help,
				has("give-up"), has("batch-wait"))
		}
	}
}
