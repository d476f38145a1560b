package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Manual has the commands that write manual pages and completion scripts, from the
// definitions of the commands.
type Manual struct {
	Completion completionCommand `cmd:"" help:"Print the completion script of a shell: bash, zsh or fish."`
	Man        manCommand        `cmd:"" help:"Print the manual page."`
}

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Shell: bash, zsh or fish."`
}

type manCommand struct{}

// Run writes the manual page of section 1, in the language of man(7).
func (manCommand) Run(k *kong.Context) error {
	var b strings.Builder
	app := k.Model
	fmt.Fprintf(&b,
		".TH %s 1\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.B %s\n[\\fIFLAG\\fR ...] [\\fICOMMAND\\fR] [\\fIARGUMENT\\fR ...]\n",
		strings.ToUpper(app.Name), app.Name, roff(strings.TrimSuffix(app.Help, ".")), app.Name)
	b.WriteString(".SH FLAGS\n")
	writeFlags(&b, app.Flags)
	b.WriteString(".SH COMMANDS\n")
	for _, n := range Commands(app.Node) {
		fmt.Fprintf(&b, ".SS %s\n%s\n", roff(usageOf(n)), roff(n.Help))
		writeDetail(&b, n.Detail)
		writeFlags(&b, n.Flags)
	}
	b.WriteString(
		".SH ENVIRONMENT\nEach flag can also be set by the environment variable named with it. Secrets are set only by variables, or by files that variables name.\n")
	b.WriteString(
		".SH EXIT STATUS\n0: success. 1: failure. 2: usage or settings error. 3: a row was rejected or failed. 130: interrupted.\n")
	_, err := io.WriteString(k.Stdout, b.String())
	return err
}

// Commands returns the commands below n that can be run, in their order, without the hidden
// ones.
func Commands(n *kong.Node) []*kong.Node {
	return slices.DeleteFunc(nodesOf(n), func(n *kong.Node) bool { return !n.Leaf() })
}

func usageOf(n *kong.Node) string {
	words := []string{strings.TrimSpace(n.FullPath())}
	for _, p := range n.Positional {
		words = append(words, p.Summary())
	}
	return strings.Join(words, " ")
}

// writeDetail writes the paragraphs of a text; the lines of those that are indented as they
// are, since they are examples.
func writeDetail(b *strings.Builder, text string) {
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		example, indented := strings.CutPrefix(paragraph, "    ")
		switch {
		case indented:
			b.WriteString(".PP\n.RS 4\n.nf\n")
			for line := range strings.Lines(example) {
				b.WriteString(roff(line) + "\n")
			}
			b.WriteString(".fi\n.RE\n")
		case paragraph != "":
			fmt.Fprintf(b, ".PP\n%s\n", roff(paragraph))
		}
	}
}

func writeFlags(b *strings.Builder, flags []*kong.Flag) {
	for _, f := range flags {
		if f.Hidden {
			continue
		}
		help := describe(f.Value)
		if f.HasDefault && f.Default != "" && !f.IsBool() {
			help += " Default: " + f.Default + "."
		}
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(FlagUsage(f)), roff(help))
	}
}

// FlagUsage returns a flag as it is typed: "-h, --help", "--tenant=NAME".
func FlagUsage(f *kong.Flag) string {
	usage := "--" + f.Name
	if f.Short != 0 {
		usage = fmt.Sprintf("-%c, %s", f.Short, usage)
	}
	if !f.IsBool() {
		usage += "=" + cmp.Or(f.PlaceHolder, strings.ToUpper(f.Name))
	}
	return usage
}

// roff escapes backslashes, hyphens, and a request at the beginning of a line.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ", "…", "...").Replace(strings.TrimSpace(text))
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + text
	}
	return text
}

func (c completionCommand) Run(k *kong.Context) error {
	var b strings.Builder
	switch c.Shell {
	case "zsh": // zsh runs completions of bash
		fmt.Fprintf(&b, "#compdef %s\nautoload -Uz bashcompinit && bashcompinit\n", k.Model.Name)
		writeBash(&b, k.Model)
	case "fish":
		writeFish(&b, k.Model)
	default:
		writeBash(&b, k.Model)
	}
	_, err := io.WriteString(k.Stdout, b.String())
	return err
}

// words returns the words that may follow a command: its commands and flags, and the flags
// of its parents.
func words(n *kong.Node) (all []string) {
	for _, child := range n.Children {
		if !child.Hidden {
			all = append(all, child.Name)
		}
	}
	for at := n; at != nil; at = at.Parent {
		for _, f := range at.Flags {
			if !f.Hidden {
				all = append(all, "--"+f.Name)
			}
		}
	}
	if n.DefaultCmd != nil {
		for _, f := range n.DefaultCmd.Flags {
			all = append(all, "--"+f.Name)
		}
	}
	return all
}

// writeBash writes a function that follows the commands typed so far and completes the next
// word, or else files.
func writeBash(b *strings.Builder, app *kong.Application) {
	fmt.Fprintf(b,
		"_%[1]s() {\n\tlocal at=%[1]s word next\n\tfor word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n\t\tcase \"$at $word\" in\n", app.Name)
	all := append([]*kong.Node{app.Node}, nodesOf(app.Node)...)
	for _, n := range all[1:] {
		fmt.Fprintf(b, "\t\t%q) at=%q ;;\n", strings.TrimSpace(n.FullPath()), strings.TrimSpace(n.FullPath()))
	}
	b.WriteString("\t\tesac\n\tdone\n\tcase \"$at\" in\n")
	for _, n := range all {
		fmt.Fprintf(b, "\t%q) next=%q ;;\n", strings.TrimSpace(n.FullPath()), strings.Join(words(n), " "))
	}
	fmt.Fprintf(b,
		"\tesac\n\tCOMPREPLY=($(compgen -W \"$next\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n}\ncomplete -o default -F _%[1]s %[1]s\n", app.Name)
}

// nodesOf returns all commands below n, groups of commands too.
func nodesOf(n *kong.Node) (all []*kong.Node) {
	for _, child := range n.Children {
		if !child.Hidden {
			all = append(append(all, child), nodesOf(child)...)
		}
	}
	return all
}

func writeFish(b *strings.Builder, app *kong.Application) {
	quoted := func(text string) string {
		return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`, "\n", " ").Replace(text) + "'"
	}
	line := func(n *kong.Node, what, name, help string) {
		// The commands down to n have been typed, and, for commands, none below it.
		var when []string
		for at := n; at.Parent != nil; at = at.Parent {
			when = slices.Insert(when, 0, "__fish_seen_subcommand_from "+at.Name)
		}
		if what == "-a" {
			for _, child := range n.Children {
				when = append(when, "not __fish_seen_subcommand_from "+child.Name)
			}
		}
		command := "complete -c " + app.Name
		if len(when) > 0 {
			command += " -n " + quoted(strings.Join(when, "; and "))
		}
		fmt.Fprintln(b, command, what, name, "-d", quoted(help))
	}
	for _, n := range append([]*kong.Node{app.Node}, nodesOf(app.Node)...) {
		for _, child := range n.Children {
			if !child.Hidden {
				line(n, "-a", child.Name, child.Help)
			}
		}
		for _, f := range n.Flags {
			if !f.Hidden {
				line(n, "-l", f.Name, f.Help)
			}
		}
	}
}
