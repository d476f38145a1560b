package kinds

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"orgops/apiclient"
	"orgops/internal/engine"
	"orgops/internal/ledger"
)

// Templates is the part of the API's client that creations need.
type Templates interface {
	CreateTemplate(ctx context.Context, r apiclient.TemplateRequest) (apiclient.Template, error)
	Templates(ctx context.Context) iter.Seq2[apiclient.Template, error]
}

// lookup knows the names of templates that requests may have created which Redis has
// forgotten. A Redis that restarts or fails over may come back without its last writes:
// a row has no intent then, or its run is unknown and submitted again, and only the
// tenant's templates show that a POST was sent. Redis has another identity afterwards. A
// listing that begins after the last earlier POST can land shows all of them, so one
// listing serves every row.
type lookup struct {
	api Templates
	// lands is how long after it was sent a request may have its effect.
	lands time.Duration

	since   sync.Map // ledger.Server -> the time.Time since when its templates show all
	last    atomic.Pointer[listing]
	listing sync.Mutex // held while an execution lists
}

// listing has the names of the tenant's templates.
type listing struct {
	begun time.Time
	names map[string]bool
}

// mayExist reports whether a template of the name may have been created by a forgotten
// request. It lists the templates if Redis may have forgotten one, and no listing shows
// that.
func (l *lookup) mayExist(ctx context.Context, x *engine.Execution, name string) (bool, error) {
	server, err := x.Server(ctx)
	if err != nil {
		return false, err
	}
	if server == "" { // no listing is recent enough then
		return true, nil
	}
	from, err := l.showsAll(ctx, x, server)
	if err != nil || from.IsZero() {
		return false, err
	}
	if left := time.Until(from); left > 0 {
		return false, engine.Later("redis may have forgotten requests to create templates; the templates are listed once none can land any more", left)
	}
	if last := l.last.Load(); last != nil && !last.begun.Before(from) {
		return last.names[name], nil
	}
	if !l.listing.TryLock() {
		return false, engine.Later("the tenant's templates are being listed", time.Second)
	}
	defer l.listing.Unlock()
	now, err := l.list(ctx)
	if err != nil {
		return false, err
	}
	l.last.Store(now)
	return now.names[name], nil
}

// showsAll returns the time from which on a listing shows all that earlier servers have
// forgotten, by the clock of this process: lands after the fleet first saw this server. It
// is zero if there is no earlier server.
func (l *lookup) showsAll(ctx context.Context, x *engine.Execution, server ledger.Server) (time.Time, error) {
	if from, ok := l.since.Load(server); ok {
		return from.(time.Time), nil
	}
	seen, err := x.FirstSeen(ctx, server)
	if err != nil {
		return time.Time{}, err
	}
	var from time.Time
	if !seen.IsZero() { // Redis' clock may have gone back since
		from = time.Now().Add(min(0, seen.Sub(x.Now())) + l.lands)
	}
	first, _ := l.since.LoadOrStore(server, from)
	return first.(time.Time), nil
}

// list lists the templates.
func (l *lookup) list(ctx context.Context) (*listing, error) {
	all := &listing{begun: time.Now(), names: map[string]bool{}}
	for t, err := range l.api.Templates(ctx) {
		// A record without a name is ignored: it would keep every row from its first POST.
		if _, bad := errors.AsType[*apiclient.RecordError](err); err != nil && !bad {
			return nil, retryRefused(fmt.Errorf("list the templates: %w", err))
		}
		all.names[t.Name] = true
	}
	return all, nil
}
