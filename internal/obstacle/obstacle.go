// Package obstacle has the reasons why rows of a tenant are not executed: an operator's stop, a
// pause that the API has asked for, a blocked operation, a token that is refused, a paused queue,
// no worker. [State.Obstacles] lists them, and [Obstacle.Holds] decides which work an obstacle
// holds: the plan of the dispatcher, the views, the checks of health and the metrics ask them,
// and have no rule of their own. What lasts for a fraction of a second, such as a place or a
// permit, is for the plan alone.
package obstacle

import (
	"fmt"
	"slices"
	"time"

	"orgops/internal/pace"
	"orgops/internal/remedy"
	"orgops/internal/stamp"
)

// Kind is a kind of obstacle.
type Kind string

// The kinds, the worst first.
const (
	NoWorker         Kind = "no worker"
	TenantStopped    Kind = "tenant stopped"
	OperationBlocked Kind = "operation blocked" // requests are refused for a fault
	QueuePaused      Kind = "queue paused"
	TenantPaused     Kind = "tenant paused"    // by the API; it ends by itself
	OperationPaused  Kind = "operation paused" // likewise
)

// Obstacle is a reason why rows of a tenant are not executed.
type Obstacle struct {
	Kind Kind   `json:"kind"`
	What string `json:"reason"`
	Fix  string `json:"fix"`
	// Act is the remedy in some words, for a list of many: the tenant's page has Fix.
	Act string `json:"-"`
	// Since is when it began; zero: not known.
	Since time.Time `json:"since,omitzero"`
	// Operation is the one that is blocked or paused, or [pace.All].
	Operation string `json:"-"`
	// Until is when it ends by itself; zero: not known.
	Until time.Time `json:"-"`
}

// String returns the obstacle and its remedy.
func (o Obstacle) String() string { return o.What + "; " + o.Fix }

// Work describes the needs of an execution.
type Work struct {
	// Operations are the operations of the API that each such execution needs. None: it needs none,
	// or they are not known, as those of a scan.
	Operations []string
	// Requests reports whether it sends requests.
	Requests bool
}

// needs reports whether the work needs an operation, or any one if it is [pace.All].
func (w Work) needs(operation string) bool {
	return len(w.Operations) > 0 && (operation == pace.All || slices.Contains(w.Operations, operation))
}

// Holds reports whether the obstacle holds the work. Work that needs no request, such as a DNS
// check, goes on while the API accepts none. If it sends one in the end, that needs a permit as
// all do. A scan goes on during a stop, since it changes nothing, and during a block, which
// refuses its requests itself. A blocked operation lets a row through from time to time, which
// finds out whether it works again.
func (o Obstacle) Holds(w Work) bool {
	switch o.Kind {
	case NoWorker, QueuePaused:
		return true
	case TenantStopped:
		return len(w.Operations) > 0
	case TenantPaused:
		return w.Requests
	case OperationPaused, OperationBlocked:
		return w.needs(o.Operation)
	}
	return false
}

// Passes reports whether the obstacle ends by itself, as the API has said when.
func (o Obstacle) Passes() bool { return o.Kind == TenantPaused || o.Kind == OperationPaused }

// Total reports whether the obstacle is of no single operation.
func (o Obstacle) Total() bool { return o.Operation == "" || o.Operation == pace.All }

// State is the state of a tenant as far as obstacles depend on it. An unknown part is zero.
type State struct {
	Tenant string
	// Absent says that no worker of the tenant lives.
	Absent *Absence
	// Pace is the state of the tenant's budget.
	Pace pace.State
	// Token says that this process has no valid token of the API. Redis has it only once a row needs
	// the token: then an operation is blocked.
	Token *NoToken
	// Queue is the tenant's queue of rows if it is paused.
	Queue *Queue
}

// Absence is the state of a tenant without a worker.
type Absence struct {
	// LastSeen is when a worker last announced the tenant's settings, which it does every minute;
	// zero: none ever has.
	LastSeen time.Time
}

// NoToken is the state of a process without a valid token of the API.
type NoToken struct {
	Why   error     // with its remedy
	Since time.Time // zero: not known
}

// Queue is a queue that is paused in asynqmon, so that no row is released.
type Queue struct {
	Name  string
	Since time.Time // zero: not known
}

// Obstacles returns the obstacles of the tenant, the worst first.
func (s State) Obstacles() (all []Obstacle) {
	// No worker.
	if s.Absent != nil {
		o := Obstacle{Kind: NoWorker, What: fmt.Sprintf("no worker of tenant %s has been seen on this Redis", s.Tenant),
			Fix: "start a worker that serves it; rows wait until then", Act: "start a worker"}
		if at := s.Absent.LastSeen; !at.IsZero() {
			o.What = fmt.Sprintf("no worker of tenant %s runs%s", s.Tenant, since(at))
			o.Since = at
		}
		all = append(all, o)
	}

	// An operator's stop.
	if s.Pace.Stopped != nil {
		all = append(all, Obstacle{
			Kind: TenantStopped, Since: s.Pace.Stopped.At, What: "the tenant is " + s.Pace.Stopped.String(),
			Fix: "nothing is changed there, and rows stay open; to start it: enqueue tenant start " + s.Tenant,
			Act: "start it",
		})
	}

	// Operations that do not work, and a token that is refused before a row has needed it.
	for _, b := range s.Pace.Blocks {
		what := "the operation " + b.Operation
		if b.Operation == pace.All {
			what = "every operation"
		}
		all = append(all, Obstacle{
			Kind: OperationBlocked, Operation: b.Operation, Since: b.Since,
			What: what + " is blocked" + since(b.Since) + ": " + b.Reason,
			Fix: b.Fix + "; a request tests it within five minutes, or within 30 seconds after: enqueue tenant start " +
				s.Tenant + ", or Try now on its page",
			Act: "correct this, then try now",
		})
	}
	if s.Token != nil && len(s.Pace.Blocks) == 0 {
		fix, why := remedy.Of(s.Token.Why)
		what := why.Error()
		if !s.Token.Since.IsZero() {
			what += " (since " + stamp.UTC(s.Token.Since) + ")"
		}
		all = append(all, Obstacle{
			Kind: OperationBlocked, Operation: pace.All, Since: s.Token.Since, What: what,
			Fix: fix + "; until then all work that needs the API waits",
			Act: "correct this",
		})
	}

	// The queue.
	if s.Queue != nil {
		all = append(all, Obstacle{
			Kind: QueuePaused, Since: s.Queue.Since,
			What: "the queue " + s.Queue.Name + " is paused" + since(s.Queue.Since) + ": no row is released",
			Fix:  "resume it on the page Queues",
			Act:  "resume it",
		})
	}

	// Pauses that the API has asked for.
	if !s.Pace.PausedUntil.IsZero() {
		until := s.Pace.PausedUntil
		all = append(all, Obstacle{
			Kind: TenantPaused, Until: until, Since: s.Pace.RefusedSince,
			What: "the API has asked this tenant to pause (429) until " + stamp.UTC(until) + refused(s.Pace.RefusedSince),
			Fix: "work resumes by itself; to try one request now: enqueue tenant start " + s.Tenant +
				", or Try now on its page; if this happens often, lower --rate or raise --reserve",
			Act: "nothing, work resumes by itself",
		})
	}
	for _, p := range s.Pace.Pauses {
		all = append(all, Obstacle{
			Kind: OperationPaused, Operation: p.Operation, Until: p.Until, Since: p.RefusedSince,
			What: "the API has asked to pause " + p.Operation + " (429) until " + stamp.UTC(p.Until) + refused(p.RefusedSince),
			Fix: "other operations go on, and work resumes by itself; to try one request now: enqueue tenant start " +
				s.Tenant + ", or Try now on its page",
			Act: "nothing, work resumes by itself",
		})
	}
	return all
}

// since returns the beginning of an obstacle as a part of a sentence; "": it is not known.
func since(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return " since " + stamp.UTC(at)
}

// refused returns since when the API has accepted no request, as a part of a sentence.
func refused(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return " and has accepted no request" + since(at)
}
