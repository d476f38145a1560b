package ledger

import (
	"context"
	"fmt"
)

// wakeChannel is the channel on which tenants with work that is due now are published.
const wakeChannel = prefix + "wake"

// Wake notifies the dispatchers that the tenant has due rows. A commit and
// [Ledger.Resume] call it; if it is lost, the next poll finds the rows within a second.
func (l *Ledger) Wake(ctx context.Context, t Tenant) error {
	if err := l.rdb.Publish(ctx, wakeChannel, string(t)).Err(); err != nil {
		return fmt.Errorf("wake the dispatchers of %s: %w", t, err)
	}
	return nil
}

// Wakes calls f with the tenant of each [Ledger.Wake], until ctx ends. One subscription
// serves all tenants of a process. f must not block. What is published while Redis cannot
// be reached is lost.
func (l *Ledger) Wakes(ctx context.Context, f func(Tenant)) {
	sub := l.rdb.Subscribe(ctx, wakeChannel)
	defer func() { _ = sub.Close() }()
	messages := sub.Channel()
	for {
		select {
		case <-ctx.Done():
			return
		case m, open := <-messages:
			if !open {
				return
			}
			if t := Tenant(m.Payload); t.Validate() == nil {
				f(t)
			}
		}
	}
}
