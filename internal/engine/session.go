package engine

import (
	"context"
	"log/slog"
	"time"

	"orgops/internal/ledger"
)

// KeepSession registers the session and renews it every [ledger.RenewEvery], until ctx
// ends. registered is closed after the first renewal: no execution may begin before. A
// renewal that fails is repeated after a second. ended is closed after the last one. Each
// renewal stores the session that own returns, whose tenants may change.
//
// It does not end the session: call [ledger.Ledger.EndSession] after ended, once no row
// belongs to the session any more. The rows of a session that is not ended are due again
// 15 s later.
func KeepSession(ctx context.Context, l Sessions, own func() ledger.Session,
	log *slog.Logger) (registered, ended <-chan struct{}) {
	first := make(chan struct{})
	last := make(chan struct{})
	go func() {
		defer close(last)
		for open := first; ; {
			next := ledger.RenewEvery
			s := own()
			switch _, err := l.Renew(ctx, s); {
			case ctx.Err() != nil:
				return
			case err != nil:
				log.WarnContext(ctx, "session not renewed", "session", s.ID, "error", err)
				next = redisPause
			case open != nil:
				close(open)
				open = nil
			}
			if Sleep(ctx, next) != nil {
				return
			}
		}
	}()
	return first, last
}

// redisPause is the shortest wait after an error of Redis.
const redisPause = time.Second

// Sleep waits until d has passed, or returns the error of a context that ends meanwhile.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
