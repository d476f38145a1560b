package main

import (
	"slices"
	"testing"

	"github.com/alecthomas/kong"

	"orgops/internal/cli"
	"orgops/internal/reference"
)

func TestReference(t *testing.T) {
	app, err := cli.Program{Name: "enqueue"}.Model(&grammar{})
	if err != nil {
		t.Fatal(err)
	}
	reference.Check(t, "commands.md", "enqueue", reference.Commands(app))
	reference.Check(t, "settings.md", "enqueue", reference.Settings(app.Node, nil))
	commands := cli.Commands(app.Node)
	serve := slices.IndexFunc(commands, func(n *kong.Node) bool { return n.FullPath() == "enqueue serve" })
	reference.Check(t, "settings.md", "enqueue serve", reference.Settings(commands[serve], nil))
}
