package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"orgops/internal/cli"
)

type grammar struct {
	Do struct {
		Rate  string `default:"2/s" help:"How fast." orenv:"RATE"`
		Plain bool   `noenv:"true" help:"As it is."`
	} `cmd:"" default:"withargs"`
}

func program(env map[string]string, args ...string) (cli.Program, *bytes.Buffer, *bytes.Buffer) {
	var out, err bytes.Buffer
	return cli.Program{
		Name: "prog", Args: args, Stdout: &out, Stderr: &err, Version: "v9",
		Env: cli.NewEnvironment(environ(env)),
	}, &out, &err
}

func TestFlagBeforeEnvironmentBeforeDefault(t *testing.T) {
	for _, tt := range []struct {
		name  string
		env   map[string]string
		args  []string
		want  string
		given bool
	}{
		{"default", nil, nil, "2/s", false},
		{"environment", map[string]string{"ORGOPS_RATE": "16/s"}, nil, "16/s", false},
		{"second variable", map[string]string{"RATE": "3/s"}, nil, "3/s", false},
		{"both variables", map[string]string{"RATE": "3/s", "ORGOPS_RATE": "16/s"}, nil, "16/s", false},
		{"empty environment", map[string]string{"ORGOPS_RATE": ""}, nil, "2/s", false},
		{"flag", map[string]string{"ORGOPS_RATE": "16/s"}, []string{"--rate", "50/s"}, "50/s", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, _, _ := program(tt.env, tt.args...)
			var g grammar
			selected, done, err := p.Parse(&g)
			if done || err != nil {
				t.Fatal(done, err)
			}
			if g.Do.Rate != tt.want || cli.Given(selected, "rate") != tt.given {
				t.Errorf("rate %q, given %t; want %q, %t", g.Do.Rate, cli.Given(selected, "rate"), tt.want, tt.given)
			}
		})
	}
}

func TestFlagsWithoutEnvironment(t *testing.T) {
	p, _, _ := program(map[string]string{"ORGOPS_PLAIN": "true"})
	var g grammar
	if _, _, err := p.Parse(&g); err != nil || g.Do.Plain {
		t.Errorf("plain is %t, %v: its environment variable should not count", g.Do.Plain, err)
	}
}

func TestHelpNamesTheVariables(t *testing.T) {
	p, out, _ := program(map[string]string{"ORGOPS_RATE": "a value"}, "do", "--help")
	var g grammar
	if _, done, err := p.Parse(&g); !done || err != nil {
		t.Fatal(done, err)
	}
	if text := out.String(); !strings.Contains(text, "$ORGOPS_RATE") || strings.Contains(text, "ORGOPS_PLAIN") ||
		strings.Contains(text, "a value") {
		t.Errorf("help:\n%s", text)
	}
}

func TestStatus(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want int
		says string
	}{
		{nil, 0, ""},
		{errors.New("no"), 1, "prog: no\n"},
		{cli.Usage(errors.New("what?")), 2, "prog: what?\n"},
		{fmt.Errorf("row 7: %w", &cli.StatusError{Status: cli.StatusRejected, Err: errors.New("bad")}),
			3, "prog: row 7: bad\n"},
		{fmt.Errorf("asked redis: %w", context.Canceled), 130, ""},
		{&cli.StatusError{Status: cli.StatusInterrupted, Err: errors.New("the run goes on")}, 130, "prog: the run goes on\n"},
	} {
		p, _, stderr := program(nil)
		if got := p.Fail(tt.err); got != tt.want || stderr.String() != tt.says {
			t.Errorf("%v: status %d, said %q; want %d, %q", tt.err, got, stderr, tt.want, tt.says)
		}
	}
}

func TestParseErrorsAreUsage(t *testing.T) {
	p, _, _ := program(nil, "--rat", "1")
	var g grammar
	if _, _, err := p.Parse(&g); cli.Status(err) != cli.StatusUsage || !strings.Contains(err.Error(), "prog --help") {
		t.Errorf("got %v, status %d", err, cli.Status(err))
	}
}
