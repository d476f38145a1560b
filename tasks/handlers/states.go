package handlers

import (
	"context"

	"orgops/internal/events"
	"orgops/internal/sweep"
)

// NotifyStates returns a function for [VerifyConfig].Notify. The event of a domain that a
// revocation had set to pending says that it is restored.
func NotifyStates(s *sweep.States) func(context.Context, events.Event, []byte) error {
	return func(ctx context.Context, e events.Event, evidence []byte) error {
		e.Data.Tenant = s.Tenant
		switch {
		case e.Type == events.DomainVerified:
			return s.Verified(ctx, e, evidence)
		case s.Notifier == nil:
			return nil
		}
		return s.Notifier.Notify(ctx, e)
	}
}
