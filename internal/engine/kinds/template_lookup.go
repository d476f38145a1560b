package kinds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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
// counts from when it first saw it. A row that has waited for that in one worker does not
// wait again in another: its memo has the time.
type lookup struct {
	api Templates
	// lands is how long after it was sent a request may have its effect.
	lands time.Duration

	seen    sync.Map // identity -> when it was first seen, a time.Time
	last    atomic.Pointer[listing]
	listing sync.Mutex // held while an execution lists
}

// listing has the names of the tenant's templates.
type listing struct {
	begun time.Time
	names map[string]bool
}

func newLookup(api Templates, lands time.Duration) *lookup {
	return &lookup{api: api, lands: lands}
}

// mayExist reports whether a template of the name may have been created by a forgotten
// request. It lists the templates if Redis may have forgotten one, and no listing shows
// that.
func (l *lookup) mayExist(ctx context.Context, x *engine.Execution, row *engine.Row, name string) (bool, error) {
	server, err := x.Server(ctx)
	if err != nil || server.Complete() {
		return false, err
	}
	if server.Identity == "" { // no listing is recent enough then
		return true, nil
	}
	from := l.firstSeen(x, row, server.Identity).Add(l.lands)
	if left := time.Until(from); left > 0 {
		if row.Note.Memo, err = packIntent(post{Server: server.Identity, Seen: x.Now().Add(left - l.lands)}); err != nil {
			return false, err
		}
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

// firstSeen returns when this worker first saw the identity, or another one in which the row
// has waited, if that is earlier.
func (l *lookup) firstSeen(x *engine.Execution, row *engine.Row, identity string) time.Time {
	seen, _ := l.seen.LoadOrStore(identity, time.Now())
	first := seen.(time.Time)
	var memo post
	if json.Unmarshal(row.Note.Memo, &memo) == nil && memo.Server == identity {
		if there := time.Now().Add(memo.Seen.Sub(x.Now())); there.Before(first) {
			return there
		}
	}
	return first
}

// list lists the templates.
func (l *lookup) list(ctx context.Context) (*listing, error) {
	all := &listing{begun: time.Now(), names: map[string]bool{}}
	for t, err := range l.api.Templates(ctx) {
		// A record without a name is ignored: it would keep every row from its first POST.
		if _, bad := errors.AsType[*apiclient.RecordError](err); err != nil && !bad {
			return nil, unanswered(fmt.Errorf("list the templates: %w", err))
		}
		all.names[t.Name] = true
	}
	return all, nil
}
