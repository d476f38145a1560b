package reference

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"orgops/internal/cli"
)

// Commands returns the commands of a program, each with its help, arguments and flags.
// Flags of a group are left to the page of settings: several commands have them.
func Commands(app *kong.Application) string {
	var b strings.Builder
	b.WriteString(inputs(app.Node))
	for _, n := range cli.Commands(app.Node) {
		fmt.Fprintf(&b, "### `%s`\n\n%s\n\n", n.FullPath(), Prose(n.Help))
		if n.Detail != "" {
			fmt.Fprintf(&b, "%s\n\n", Prose(n.Detail))
		}
		b.WriteString(inputs(n))
	}
	return b.String()
}

// inputs returns the arguments and flags of a command as a table, and which groups of
// flags it has.
func inputs(n *kong.Node) string {
	var rows [][]string
	for _, p := range n.Positional {
		rows = append(rows, []string{Code(p.Summary()), "", initial(p), Prose(p.Help)})
	}
	var groups []string
	for _, f := range n.Flags {
		if group := groupOf(f); group != "" {
			groups = append(groups, fmt.Sprintf("[%s](settings.md#%s)", group, anchor(group)))
		} else if !f.Hidden {
			rows = append(rows, []string{Code(cli.FlagUsage(f)), Code(cli.Variable(f)), initial(f.Value), Prose(f.Help)})
		}
	}
	var text string
	if len(rows) > 0 {
		text = Table([]string{"argument or flag", "variable", "default", "meaning"}, rows) + "\n"
	}
	if len(groups) > 0 {
		text += "And the flags of " + strings.Join(slices.Compact(groups), " and ") + ".\n\n"
	}
	return text
}

// Settings returns the flags of a command that have an environment variable, a table for
// each of their groups. Members are the flags' names in a file of tenants.
func Settings(n *kong.Node, members map[string]string) string {
	var groups []string
	rows := map[string][][]string{}
	for _, f := range n.Flags {
		if f.Hidden || cli.Variable(f) == "" {
			continue
		}
		group := groupOf(f)
		if rows[group] == nil {
			groups = append(groups, group)
		}
		rows[group] = append(rows[group], []string{Code("--" + f.Name), Code(members[f.Name]), Code(cli.Variable(f)),
			initial(f.Value), Prose(f.Help)})
	}
	var b strings.Builder
	for _, group := range groups {
		if group != "" {
			fmt.Fprintf(&b, "## %s\n\n", group)
		}
		b.WriteString(Table([]string{"flag", "member", "variable", "default", "meaning"}, rows[group]) + "\n")
	}
	return b.String()
}

// initial returns the default of a flag or an argument, or that there must be a value.
func initial(v *kong.Value) string {
	switch {
	case v.Required:
		return "required"
	case v.IsSlice(): // in pieces, where a line can be broken
		return strings.ReplaceAll(Code(v.Default), ",", "`, `")
	}
	return Code(v.Default)
}

func groupOf(f *kong.Flag) string {
	if f.Group == nil {
		return ""
	}
	return f.Group.Title
}

// anchor returns the fragment by which GitHub links to a heading.
func anchor(heading string) string {
	return strings.ReplaceAll(strings.ReplaceAll(strings.ToLower(heading), " ", "-"), "'", "")
}
