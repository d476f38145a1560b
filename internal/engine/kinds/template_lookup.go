package kinds

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"orgops/apiclient"
	"orgops/internal/engine"
)

// lookup knows the names of templates that requests may have created which Redis has
// forgotten. A Redis that restarts or fails over may come back without its last writes:
// a row has no intent then, and only the tenant's templates show that it sent a POST.
// Redis has another identity afterwards than when the row was stored. A listing that
// begins once no POST from before can land any more shows all of them, so one listing
// serves every row.
//
// When Redis got its identity is not known, since clocks may be wrong: each worker
// counts from when it first saw it.
type lookup struct {
	api Templates
	// lands is how long after it was sent a request may have its effect.
	lands time.Duration

	mu    sync.Mutex
	seen  map[string]time.Time // identity -> when it was first seen
	begun time.Time            // when the last listing began
	names map[string]bool      // of that listing; nil: there is none
	busy  bool                 // an execution is listing
}

func newLookup(api Templates, lands time.Duration) *lookup {
	return &lookup{api: api, lands: lands, seen: map[string]time.Time{}}
}

// mayExist reports whether a template of the name may have been created by a forgotten
// request. It lists the templates if Redis may have forgotten one, and no listing shows
// that.
func (l *lookup) mayExist(ctx context.Context, x *engine.Execution, name string) (bool, error) {
	server, err := x.Server(ctx)
	if err != nil || server.Complete() {
		return false, err
	}
	if server.Identity == "" { // no listing is recent enough then
		return true, nil
	}
	names, err := l.listing(server.Identity)
	if err != nil {
		return false, err
	}
	if names == nil {
		if names, err = l.list(ctx); err != nil {
			return false, err
		}
	}
	return names[name], nil
}

// listing returns the names of a listing that shows the templates of requests which a
// Redis of that identity may have forgotten. If there is none it returns an error that
// says when to try again, or nil: then the caller must call list.
func (l *lookup) listing(identity string) (map[string]bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	seen, ok := l.seen[identity]
	if !ok {
		seen = now
		l.seen[identity] = now
	}
	from := seen.Add(l.lands)
	switch {
	case l.names != nil && !l.begun.Before(from):
		return l.names, nil
	case now.Before(from):
		return nil, engine.Later("redis may have forgotten requests to create templates; the templates are listed once none can land any more", from.Sub(now))
	case l.busy:
		return nil, engine.Later("the tenant's templates are being listed", time.Second)
	}
	l.busy = true
	return nil, nil
}

// list lists the templates.
func (l *lookup) list(ctx context.Context) (names map[string]bool, err error) {
	begun := time.Now()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.busy = false
		if err == nil && names != nil {
			l.begun, l.names = begun, names
		}
	}()
	all := map[string]bool{}
	for t, err := range l.api.Templates(ctx) {
		// A record without a name is ignored: it would keep every row from its first POST.
		if _, bad := errors.AsType[*apiclient.RecordError](err); err != nil && !bad {
			return nil, unanswered(fmt.Errorf("list the templates: %w", err))
		}
		all[t.Name] = true
	}
	return all, nil
}
