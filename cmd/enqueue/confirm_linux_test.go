package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/pace"
	"orgops/internal/tenant"
)

// terminalWith returns a terminal at which somebody has typed the text.
func terminalWith(t *testing.T, typed string) *os.File {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminal: %v", err)
	}
	t.Cleanup(func() { _ = keyboard.Close() })
	// An ioctl unlocks the other side, and another one names it.
	var unlocked, number uint32
	for request, value := range map[uintptr]*uint32{syscall.TIOCSPTLCK: &unlocked, syscall.TIOCGPTN: &number} {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, keyboard.Fd(), request, uintptr(unsafe.Pointer(value)))
		if errno != 0 {
			t.Fatalf("ioctl %#x: %v", request, errno)
		}
	}
	screen, err := os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	if _, err := keyboard.WriteString(typed); err != nil {
		t.Fatal(err)
	}
	return screen
}

// TestQuestions checks that a command that takes something away asks on a terminal, and does it
// only after yes, or with --yes, which asks nothing.
func TestQuestions(t *testing.T) {
	mini := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: mini.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	do := func(args, typed string) string {
		var text bytes.Buffer
		run(t.Context(), strings.Fields(args), terminalWith(t, typed), &text, &text,
			[]string{"ORGOPS_REDIS_URL=redis://" + mini.Addr()})
		return text.String()
	}
	cancelled := func() bool {
		r, err := ledger.New(client).Get(t.Context(), "default", "job")
		return err == nil && r.Ended()
	}
	deleted := func() bool {
		_, err := ledger.New(client).Get(t.Context(), "default", "ended")
		return errors.Is(err, ledger.ErrNotFound)
	}
	stopped := func() bool {
		budget, err := pace.New(pace.Config{Redis: client, Tenant: "default"}).State(t.Context())
		return err == nil && budget.Stopped != nil
	}
	retried := func() bool {
		_, err := ledger.New(client).Get(t.Context(), "default", "again")
		return err == nil
	}
	id := tenant.Identity{BaseURL: "https://acme.example/api/v2", Audience: "urn:acme"}
	givenUp := func() bool {
		stored, err := tenant.ReadIdentity(t.Context(), client, "default")
		return err == nil && stored != nil && stored.GivenUp
	}
	const (
		cancel = "runs cancel job other --tenant default"
		remove = "runs delete ended"
		stop   = "tenant stop default --no-worker-yet"
		eof    = "\x04"

		reassign = "tenant reassign default --keep"
		retry    = "runs retry failed --reason timeout --run again"
	)
	for name, tc := range map[string]struct {
		args, typed, question string
		is                    func() bool
		done                  bool
	}{
		"cancel, no":          {cancel, "no\n", "Cancel job, other: open rows (1) settle as cancelled? [y/N] ", cancelled, false},
		"cancel, enter":       {cancel, "\n", "Cancel ", cancelled, false},
		"cancel, other word":  {cancel, "yesterday\n", "Cancel ", cancelled, false},
		"cancel, end of file": {cancel, eof, "Cancel ", cancelled, false},
		"cancel, y":           {cancel, "y\nwrong file\n", "Cancel ", cancelled, true},
		"cancel, yes":         {cancel, " Yes\n\n", "Cancel ", cancelled, true},
		"cancel, a reason":    {cancel + " --reason ticket", "y\n", "Cancel ", cancelled, true},
		"cancel --yes":        {cancel + " --yes", "no\n", "", cancelled, true},
		"delete, no":          {remove, "no\n", "Delete run ended, with the results of its rows (1)? [y/N] ", deleted, false},
		"delete, yes":         {remove, "y\n" + eof, "Delete run ended, ", deleted, true},
		"stop, no": {stop, "no\n",
			"Stop tenant default: send no PATCH, POST or DELETE for it until it is started again? [y/N] ", stopped, false},
		"stop, yes": {stop, "y\n\n", "Stop tenant default: ", stopped, true},
		"reassign, no": {reassign, "no\n",
			"Let the next worker decide the address of tenant default, and execute its rows there? [y/N] ", givenUp, false},
		"reassign, yes": {reassign, "y\n", "Let the next worker decide ", givenUp, true},
		"retry, no": {retry, "no\n", "Submit 1 of 1 failed rows of run failed again, as a new run? [y/N] ", retried,
			false},
		"retry, yes":     {retry, "y\n", "Submit 1 of 1 ", retried, true},
		"reassign --yes": {reassign + " --yes", "no\n", "", givenUp, true},
	} {
		t.Run(name, func(t *testing.T) {
			mini.FlushAll()
			for _, id := range []string{"job", "ended", "failed"} {
				do("domains verify --no-worker-yet --org org_1 --domain dom_1 --run "+id, "")
			}
			do("runs cancel ended --yes", "")
			ledgertest.Settle(t, ledger.New(client), "failed", "failed", "timeout", 0)
			_, err := tenant.Announce(t.Context(), client, tenant.Announced{Tenant: "default"})
			if err == nil {
				err = tenant.Claim(t.Context(), client, "default", id)
			}
			if err != nil {
				t.Fatal(err)
			}

			text := do(tc.args, tc.typed)
			if asks := strings.Contains(text, "[y/N]"); !strings.HasPrefix(text, tc.question) || asks != (tc.question != "") {
				t.Errorf("the command asks %q, want %q", text, tc.question)
			}
			if tc.is() != tc.done {
				t.Errorf("it was done %t, want %t: %s", !tc.done, tc.done, text)
			}
			if refused := strings.Contains(text, "nothing was changed: the answer was not yes"); refused == tc.done {
				t.Errorf("the command says %q", text)
			}
		})
	}
}
