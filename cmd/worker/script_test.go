package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// The tests wait most of the time: for workers, retries and leases.
	if err := flag.Set("test.parallel", "12"); err != nil { // -parallel is parsed later
		panic(err)
	}
	testscript.Main(leakless{m}, map[string]func(){"worker": main})
}

// leakless fails the tests if a goroutine is left when all have ended. A single test cannot
// check this, since tests run in parallel. It also removes the built commands.
type leakless struct{ *testing.M }

func (m leakless) Run() int {
	status := m.M.Run()
	if dir := commandsDir.Load(); dir != nil {
		if err := os.RemoveAll(*dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	if status != 0 {
		return status
	}
	// A worker that has ended while Redis was away tries its last writes for some seconds more.
	err := goleak.Find()
	for i := 0; i < 20 && err != nil; i++ {
		err = goleak.Find()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// TestScripts runs the scripts of the command.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits runs a program and checks its exit status.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS PROGRAM [ARG...]")
	}
	status := 0
	err := ts.Exec(args[1], args[2:]...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		status = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(status) != args[0] {
		ts.Fatalf("exit status %d, want %s", status, args[0])
	}
}
