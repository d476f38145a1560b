// Package workers computes the place of a worker among the living workers of a tenant, so that
// a tenant costs as much of Redis with fifty workers as with two.
//
// All workers order those of a tenant in the same way, by the sessions in the ledger and
// without a message to each other:
//
//	rank 0   dispatches the tenant's rows and serves its queues
//	rank 1   dispatches if rank 0 does not, and serves then, or while tasks are not fetched
//	rank n   serves while there are more tasks than n workers have places for
//
// The order is a hash of tenant and session (rendezvous hashing): tenants are spread over
// the workers, and one that joins or leaves changes the first place of its own tenants
// only. Ranks decide which worker begins new work, never which may write: two that both count
// as the first do no harm.
package workers

import (
	"cmp"
	"context"
	"hash/fnv"
	"log/slog"
	"sync"
	"time"

	"orgops/internal/ledger"
)

// readEvery is how often the sessions are read.
const readEvery = ledger.RenewEvery

// Place is a worker's place among those that serve a tenant.
type Place struct {
	Rank    int // 0: the first
	Workers int // of the tenant, this one among them
}

// Order is the order of the living workers of each tenant, as one of them knows it. It is
// safe for concurrent use.
type Order struct {
	own      func() ledger.Session
	sessions func(context.Context) ([]ledger.Session, error)
	logger   *slog.Logger

	mu     sync.Mutex
	places map[ledger.Tenant]Place
}

// New returns the order for a worker that knows of no other yet. own returns the worker's
// session, whose tenants may change; sessions is [ledger.Ledger.Sessions].
func New(own func() ledger.Session, sessions func(context.Context) ([]ledger.Session, error),
	logger *slog.Logger) *Order {
	return &Order{own: own, sessions: sessions, logger: logger}
}

// Place returns the worker's place for a tenant: until the sessions were read, that of the
// only worker.
func (o *Order) Place(t ledger.Tenant) Place {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p, ok := o.places[t]; ok {
		return p
	}
	return Place{Workers: 1}
}

// Run reads the sessions every five seconds until ctx ends, and calls read after each time.
func (o *Order) Run(ctx context.Context, read func()) {
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		switch err := o.Read(ctx); {
		case err == nil:
			read()
		case ctx.Err() == nil:
			o.logger.WarnContext(ctx, "living workers not read", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Read reads the sessions once. If it fails, places stay as they were.
func (o *Order) Read(ctx context.Context) error {
	all, err := o.sessions(ctx)
	if err != nil {
		return err
	}
	own := o.own()
	places := make(map[ledger.Tenant]Place, len(own.Tenants))
	for _, t := range own.Tenants {
		places[t] = Place{Workers: 1}
	}
	for _, other := range all {
		if other.ID == own.ID {
			continue
		}
		for _, t := range other.Tenants {
			p, ours := places[t]
			if !ours {
				continue
			}
			p.Workers++
			if before(t, other, own) {
				p.Rank++
			}
			places[t] = p
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.places = places
	return nil
}

// before reports whether a session is before another one in the order of a tenant. A worker
// of a newer protocol is before all older ones, which may not know its kinds of rows.
func before(t ledger.Tenant, s, other ledger.Session) bool {
	return cmp.Or(cmp.Compare(s.Protocol, other.Protocol), cmp.Compare(score(t, s.ID), score(t, other.ID))) > 0
}

// score is the place of a session in the order of a tenant. Sums of FNV differ little between
// texts that differ at their ends only, so its bits are mixed, as by splitmix64.
func score(t ledger.Tenant, s ledger.SessionID) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(string(t) + "\x00" + string(s))) // it never fails
	x := h.Sum64()
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
