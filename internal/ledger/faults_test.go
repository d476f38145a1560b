package ledger_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"orgops/internal/redistest"
)

// errFault is returned to a client whose process or connection was lost.
var errFault = errors.New("the connection was lost")

// faults is a hook that loses the connection at a command: before Redis has it, or
// after, so that the answer is lost.
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

func (f *faults) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (f *faults) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return f.around(func() error { return next(ctx, cmd) }, cmd)
	}
}

func (f *faults) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return f.around(func() error { return next(ctx, cmds) }, cmds...)
	}
}

func (f *faults) around(do func() error, cmds ...redis.Cmder) error {
	if slices.Contains(redistest.Handshake, cmds[0].Name()) {
		return do()
	}
	send, arrive := f.strike()
	var err error
	if send {
		err = do()
	}
	if arrive {
		return err
	}
	for _, cmd := range cmds {
		cmd.SetErr(errFault)
	}
	return errFault
}

// interruption is a hook that does something before the nth command.
type interruption struct {
	mu    sync.Mutex
	after int
	do    func()
}

func (i *interruption) DialHook(next redis.DialHook) redis.DialHook { return next }

func (i *interruption) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !slices.Contains(redistest.Handshake, cmd.Name()) {
			i.count()
		}
		return next(ctx, cmd)
	}
}

func (i *interruption) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !slices.Contains(redistest.Handshake, cmds[0].Name()) {
			i.count()
		}
		return next(ctx, cmds)
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
