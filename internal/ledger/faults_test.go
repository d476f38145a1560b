package ledger_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// errFault is returned to a client whose process or connection was lost.
var errFault = errors.New("the connection was lost")

// faults lose the connection at a command: before Redis has it, or after, so that the answer is
// lost.
type faults struct {
	mu     sync.Mutex
	armed  bool
	after  int  // commands until then
	answer bool // the answer is lost, not the command
}

// arm makes the connection fail at the nth command from now on, from 0, and at each command
// after it until disarm.
func (f *faults) arm(n int, answer bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.after, f.answer = true, n, answer
}

// disarm reports whether the connection was lost.
func (f *faults) disarm() (lost bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	lost = f.armed && f.after < 0
	f.armed = false
	return lost
}

// strike reports whether this command is sent, and whether its answer arrives.
func (f *faults) strike() (send, arrive bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.armed {
		return true, true
	}
	f.after--
	switch {
	case f.after >= 0:
		return true, true
	case f.after == -1:
		return f.answer, false
	}
	return false, false
}

// faulty returns a ledger on the test's Redis whose connection the faults lose.
func faulty(t testing.TB) (*ledger.Ledger, *faults) {
	t.Helper()
	rdb, f := redistest.New(t), &faults{}
	rdb.AddHook(f.hook())
	return ledger.New(rdb), f
}

// hook is that of a client whose connection is lost.
func (f *faults) hook() redistest.Around {
	return func(_ context.Context, run func() error, cmds ...redis.Cmder) (err error) {
		send, arrive := f.strike()
		if send {
			err = run()
		}
		if arrive {
			return err
		}
		for _, cmd := range cmds {
			cmd.SetErr(errFault)
		}
		return errFault
	}
}

// interruption does something before the nth command, from 0, of the clients that have its hook.
type interruption struct {
	mu    sync.Mutex
	after int
	do    func()
}

// interrupted returns a ledger on the test's Redis that calls do before its nth command.
func interrupted(t testing.TB, n int, do func()) (*ledger.Ledger, *interruption) {
	t.Helper()
	rdb, i := redistest.New(t), &interruption{after: n, do: do}
	rdb.AddHook(i.hook())
	return ledger.New(rdb), i
}

func (i *interruption) hook() redistest.Around {
	return func(_ context.Context, run func() error, _ ...redis.Cmder) error {
		i.count()
		return run()
	}
}

func (i *interruption) count() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.after--; i.after == -1 {
		i.do()
	}
}

// done reports whether it was done.
func (i *interruption) done() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.after < 0
}
