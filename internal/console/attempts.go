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

// Bounds of sign-ins.
const (
	// afterFailure is how long an address waits after a wrong password.
	afterFailure = time.Second
	// attemptPatience bounds the wait of a sign-in for its turn.
	attemptPatience = 10 * time.Second
	// maxWaiting is how many sign-ins of one address wait: the connections of a browser.
	maxWaiting = 8
	// maxAddresses is how many addresses have sign-ins in progress.
	maxAddresses = 1024
)

// attempts compares passwords: one at a time for each address, and none for a second after a
// wrong one; and at most GOMAXPROCS/4 at once, so that tasks have processors. The password of a
// user who has signed in is not compared again (userList.verified). Other sign-ins wait only
// for those of their own address, of which too many wrong ones are refused.
type attempts struct {
	processors *semaphore.Weighted

	mu        sync.Mutex
	addresses map[netip.Prefix]*turns
}

// turns is the queue of one address.
type turns struct {
	one     *semaphore.Weighted
	waiting int // those in progress included
}

func newAttempts() *attempts {
	share := max(1, runtime.GOMAXPROCS(0)/4)
	return &attempts{processors: semaphore.NewWeighted(int64(share)), addresses: map[netip.Prefix]*turns{}}
}

// errTooMany refuses a sign-in.
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

// compare runs verify once a processor is free for it.
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

// network returns the addresses that count as one: an IPv4 address, or an IPv6 /64.
func network(from netip.Addr) netip.Prefix {
	bits := 32
	if from = from.Unmap().WithZone(""); from.Is6() {
		bits = 64
	}
	prefix, _ := from.Prefix(bits) // an invalid address has the invalid one
	return prefix
}
