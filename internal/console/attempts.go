package console

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// What guessing is given.
const (
	// afterFailure is how long the address of a wrong password is then not heard.
	afterFailure = time.Second
	// attemptPatience is how long a sign-in waits for its turn.
	attemptPatience = 10 * time.Second
	// maxWaiting is how many of one address wait: what a browser opens at once.
	maxWaiting = 8
	// maxAddresses is how many addresses are under way at a time.
	maxAddresses = 1024
)

// attempts has passwords compared: of each address one at a time, and that not for a
// second after a wrong one; of all no more at a time than leaves the processors to
// the tasks. Who has signed in is not compared again
// (userList.remembers), and who has not waits behind his own address's alone: too many
// wrong ones from there may have him told to try again.
type attempts struct {
	processors *semaphore.Weighted

	mu        sync.Mutex
	addresses map[netip.Prefix]*turns
}

// turns is the line of one address.
type turns struct {
	one     *semaphore.Weighted
	waiting int // those under way among them
}

func newAttempts() *attempts {
	share := max(1, runtime.GOMAXPROCS(0)/4)
	return &attempts{processors: semaphore.NewWeighted(int64(share)), addresses: map[netip.Prefix]*turns{}}
}

// errTooMany says that too much is tried to hear this one.
var errTooMany = errors.New("too many wrong passwords from this address, or too many sign-ins at once: try again in a few seconds")

// try runs verify in its turn, for a client at that address. The error is errTooMany, or
// ctx's.
func (a *attempts) try(ctx context.Context, from netip.Addr, verify func() bool) (bool, error) {
	address := network(from)
	line, err := a.enter(address)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, attemptPatience, errTooMany)
	defer cancel()
	if line.one.Acquire(ctx, 1) != nil {
		a.leave(address, line)
		return false, context.Cause(ctx)
	}
	right, err := a.compare(ctx, verify)
	next := func() {
		line.one.Release(1)
		a.leave(address, line)
	}
	if right || err != nil {
		next()
	} else {
		time.AfterFunc(afterFailure, next)
	}
	return right, err
}

// compare runs verify on a processor that is for it.
func (a *attempts) compare(ctx context.Context, verify func() bool) (bool, error) {
	if a.processors.Acquire(ctx, 1) != nil {
		return false, context.Cause(ctx)
	}
	defer a.processors.Release(1)
	return verify(), nil
}

func (a *attempts) enter(address netip.Prefix) (*turns, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	line := a.addresses[address]
	if line == nil {
		if len(a.addresses) >= maxAddresses {
			return nil, errTooMany
		}
		line = &turns{one: semaphore.NewWeighted(1)}
		a.addresses[address] = line
	}
	if line.waiting >= maxWaiting {
		return nil, errTooMany
	}
	line.waiting++
	return line, nil
}

func (a *attempts) leave(address netip.Prefix, line *turns) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if line.waiting--; line.waiting == 0 {
		delete(a.addresses, address)
	}
}

// network is who counts as one: an address, or of IPv6 what one customer is given.
func network(from netip.Addr) netip.Prefix {
	bits := 32
	if from = from.Unmap().WithZone(""); from.Is6() {
		bits = 64
	}
	prefix, _ := from.Prefix(bits) // of an invalid address the invalid one
	return prefix
}
