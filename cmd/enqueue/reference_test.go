package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
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
// flags that its rows need, and a page that shows it.
func TestKindsHaveCommands(t *testing.T) {
	app, err := cli.Program{Name: "enqueue", Vars: labels()}.Model(&grammar{})
	if err != nil {
		t.Fatal(err)
	}
	commands := cli.Commands(app.Node)
	pages, err := filepath.Glob("../../docs/how-to/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range tasks.All() {
		if kind.Command == "" {
			continue
		}
		i := slices.IndexFunc(commands, func(n *kong.Node) bool { return n.FullPath() == "enqueue "+kind.Command })
		if i < 0 {
			t.Errorf("%s: there is no command %q: add it to grammar in run.go, and its type to kinds.go",
				kind.Name, kind.Command)
			continue
		}
		shows := func(page string) bool {
			text, err := os.ReadFile(page)
			return err == nil && strings.Contains(string(text), "enqueue "+kind.Command)
		}
		if !slices.ContainsFunc(pages, shows) {
			t.Errorf("%s: no page of docs/how-to shows enqueue %s: add it, and its line in docs/README.md",
				kind.Name, kind.Command)
		}
		has := func(flag string) bool {
			return slices.ContainsFunc(commands[i].Flags, func(f *kong.Flag) bool { return f.Name == flag })
		}
		if commands[i].Help != kind.Label || has("give-up") != kind.Awaits {
			t.Errorf("%s: help %q, --give-up %t", kind.Name, commands[i].Help, has("give-up"))
		}
	}
}
