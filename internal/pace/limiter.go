package pace

import (
	"cmp"
	"context"
	cryptorand "crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/untrusted"
)

const (
	// defaultMaxWait is well below the timeout of a task, which holds a place of the worker
	// while it waits, and long enough that few tasks return without a permit.
	defaultMaxWait = 20 * time.Second
	// redisTimeout bounds a round trip that must not end with the caller's context.
	redisTimeout = 5 * time.Second
	// unhinderedFor is how long a process with an unlimited rate sends requests without
	// reading whether the tenant is paused or the operation blocked.
	unhinderedFor = 100 * time.Millisecond
	// shortestRetry is the time to the next attempt if no better one is known, and if Redis
	// has failed.
	shortestRetry = time.Second
)

// Config configures a [Limiter].
type Config struct {
	Redis redis.Cmdable
	// Tenant names the budget.
	Tenant string
	Limit  Limit
	// MaxWait bounds the time of Wait. 0: 20 s.
	MaxWait time.Duration
	// Stopping, once closed, ends all waiting. nil: never.
	Stopping <-chan struct{}
	// Writes reports whether a request of the operation changes something: none is sent
	// while the tenant is stopped. nil: requests of all operations do.
	Writes func(operation string) bool
	// Changed is called once in the fleet with "blocked", operation and reason, and when an answer or
	// [Limiter.Expire] has ended that block with "unblocked" and the operation. nil: not called.
	Changed func(ctx context.Context, how, what string)
	// Logger logs pauses and blocks. nil: none.
	Logger *slog.Logger
}

// Limiter gives permits for requests. It is safe for concurrent use. One limiter for each
// tenant and process keeps the order of requests.
type Limiter struct {
	cfg     Config
	key     string
	members string // the key of the set of workers
	id      string // of this one
	rate    Rate
	gcra    gcra // of the rate after the reserve
	sweep   gcra // of the share of sweeps
	api     gcra // of the API's bucket without its untouched permits
	line    line

	mu     sync.Mutex
	seen   seen
	failed bool      // Redis gave no answer to the last request for a permit
	paused time.Time // the end of the API's pause, as far as this process knows
	owed   time.Time // the same, if Redis may not have it: the next request for a permit stores it
	// workers is how many share the pace, this one among them, as last counted; 0: unknown.
	workers int64
	// unanswered counts the requests that got a permit and have no answer yet.
	unanswered int64
	answered   chan struct{} // receives after an answer
	// unhindered is until when requests of an operation need no command of Redis, if the rate
	// is unlimited.
	unhindered map[string]time.Time
	// blocked are the operations that this process knows to be blocked: the success of one
	// clears its block, and other successes cost no round trip.
	blocked map[string]bool
	// trials has the times of the trials after a pause whose answers are not there yet, by operation.
	trials map[string]string
	// stopped is why the tenant is stopped, as far as this process knows; empty if it is
	// not.
	stopped string
}

// New returns a limiter. It sends no command.
func New(c Config) *Limiter {
	if c.Writes == nil {
		c.Writes = func(string) bool { return true }
	}
	if c.Changed == nil {
		c.Changed = func(context.Context, string, string) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With("tenant", c.Tenant)
	c.MaxWait = cmp.Or(c.MaxWait, defaultMaxWait)
	rate, burst := c.Limit.Effective()
	sweepRate, sweepBurst := c.Limit.Sweeps()
	return &Limiter{
		cfg: c, key: key(c.Tenant, "pace"), members: key(c.Tenant, "workers"), id: cryptorand.Text(),
		rate: rate, gcra: newGCRA("tat", rate, burst), sweep: newGCRA("sweep_tat", sweepRate, sweepBurst),
		api:      newGCRA("api_tat", c.Limit.Rate, c.Limit.Burst-c.Limit.untouched()),
		answered: make(chan struct{}, 1), blocked: map[string]bool{},
		trials: map[string]string{}, unhindered: map[string]time.Time{}, seen: seen{limits: map[string]int64{}},
	}
}

// Request is a request that needs a permit.
type Request struct {
	Operation string
	Class     Class
	// Again says that it had a permit before and repeats itself with a fresh token: no block
	// holds it up, since it may be the probe.
	Again bool
}

// Wait returns nil when the request may be sent now. Otherwise
// nothing may be sent, and the error is a [NoPermitError], a [BlockedError], a
// [StoppedError], or ctx's own. The result of each request that got one must be reported by
// [Limiter.Answered]: while the API leaves as many unanswered as it allows at once, or in a second,
// no more are sent.
//
// With an unlimited rate only pauses and blocks are read, not for each request, and permits are
// not counted.
func (l *Limiter) Wait(ctx context.Context, r Request) error {
	if l.rate.IsUnlimited() {
		l.mu.Lock()
		unhindered := time.Now().Before(l.unhindered[r.Operation])
		l.mu.Unlock()
		if unhindered {
			return l.interrupted(ctx, r.Operation)
		}
	}
	w := wait{Limiter: l, request: r, until: time.Now().Add(l.cfg.MaxWait)}
	w.place = l.line.enter(r.Class)
	err := w.permit(ctx)
	w.place.leave(err == nil)
	return err
}

// Ahead estimates how long a request of the class would wait in the line: for the requests
// before it in this process, for as many in each other worker, and for the end of a pause. The
// first of them gets the next permit and is no line yet: at a low rate there is nearly always
// one, and it would stand for a second in each worker. Ahead sends no command, so it does not
// know the level of the bucket.
func (l *Limiter) Ahead(c Class) time.Duration {
	l.mu.Lock()
	workers := max(l.workers, 1)
	paused := l.paused
	l.mu.Unlock()
	behind := max(l.line.entering(c)-1, 0)
	permits := int64(behind) * workers
	return max(time.Duration(permits*l.gcra.Interval)*time.Microsecond, time.Until(paused), 0)
}

// wait is the wait of one request.
type wait struct {
	*Limiter
	request Request
	until   time.Time
	place   *place
}

// permit waits for the turn, and with it for the budget. After each wait the turn goes to the place
// that should have it then, this one or another.
func (w *wait) permit(ctx context.Context) error {
	for {
		// Wait for the turn of this process's requests, no longer than the caller.
		select {
		case <-w.place.turn:
		case <-time.After(time.Until(w.until)):
			return &NoPermitError{After: max(w.Ahead(w.request.Class), shortestRetry), Why: "other requests of this process were before it"}
		case <-w.cfg.Stopping:
		case <-ctx.Done():
		}
		if err := w.interrupted(ctx, w.request.Operation); err != nil {
			return err
		}

		// Ask Redis, unless the API has not answered enough of the requests before.
		a := attempt{wait: shortestRetry, why: "the API has not answered the last requests yet"}
		answered := w.busy()
		if answered == nil {
			var err error
			if a, err = w.take(ctx, w.request); err != nil || a.ok {
				return err
			}
		}

		// Wait as long as Redis says, if there is time for it. Others may go ahead meanwhile.
		left := time.Until(w.until)
		if a.wait > left {
			return &NoPermitError{After: a.wait, Why: a.why}
		}
		if !a.share || !w.line.inVain(a.wait) {
			select {
			case <-time.After(min(a.wait+w.jitter(), left)):
			case <-answered:
			case <-w.place.yield:
			case <-w.cfg.Stopping:
			case <-ctx.Done():
			}
		}
		w.place.giveWay()
	}
}

// interrupted returns an error if the process stops or ctx has ended.
func (l *Limiter) interrupted(ctx context.Context, operation string) error {
	select {
	case <-l.cfg.Stopping:
		return &NoPermitError{Why: "this worker is stopping", stopping: true}
	case <-ctx.Done():
		return ended(ctx, operation)
	default:
		return nil
	}
}

func ended(ctx context.Context, operation string) error {
	return fmt.Errorf("wait for a permit to %s: %w", operation, ctx.Err())
}

// jitter returns a delay that keeps the process nearest to Redis from winning each permit. If
// the bucket holds more than one, a small delay costs nothing; otherwise a fiftieth of the
// interval costs at most 1 % of the rate.
func (l *Limiter) jitter() time.Duration {
	share := l.gcra.Interval / 4
	if l.gcra.Burst == 1 || l.api.Burst == 1 {
		share = l.gcra.Interval / 50
	}
	const most = 50_000 // 50 ms: more than round trips differ
	return time.Duration(rand.Int64N(min(share, most)+1)) * time.Microsecond
}

// busy returns a channel that receives after the next answer, if this process has its share
// of the tenant's unanswered requests; else nil.
func (l *Limiter) busy() <-chan struct{} {
	// An API that answers within a second, as it usually does, gets the whole rate.
	most := max(float64(l.cfg.Limit.Burst), l.cfg.Limit.Rate.PerSecond())
	l.mu.Lock()
	defer l.mu.Unlock()
	if float64(l.unanswered) < max(most/float64(max(l.workers, 1)), 1) {
		return nil
	}
	return l.answered
}

// argument is that of take.lua and, with the last three members, of pause.lua and spent.lua: what
// they need to know of a request. Times are microseconds from now; 0: there is none.
type argument struct {
	Operation string `json:"operation"`
	Buckets   []gcra `json:"buckets"` // the tenant's after the reserve, the API's, and for a sweep that of its share
	Missing   int64  `json:"missing"` // how long the API's bucket needs to be full, as last seen
	Empty     bool   `json:"empty"`   // the tenant's bucket is to be emptied first
	Worker    string `json:"worker"`  // the worker to count
	Paused    int64  `json:"paused"`  // a pause that could not be stored before
	Writes    bool   `json:"writes"`  // it changes something
	Again     bool   `json:"again"`   // no block holds it up
	Pause     int64  `json:"pause"`   // that a 429 asks for
	Alone     bool   `json:"alone"`   // the operation is paused instead of the tenant
	Holds     int    `json:"holds"`   // permits of the API's bucket
}

// until returns the time until then, as the scripts take it.
func until(then time.Time) int64 { return max(time.Until(then), 0).Microseconds() }

// asks returns an argument with the facts that Redis may not have, and the end of the pause among
// them.
func (l *Limiter) asks(operation string) (a argument, owed time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return argument{Operation: operation, Buckets: []gcra{l.gcra, l.api}, Missing: until(l.seen.full), Empty: l.failed,
		Worker: l.id, Paused: until(l.owed)}, l.owed
}

// take requests a permit of Redis once. The script also completes if ctx ends, and the request then
// has its permit.
func (l *Limiter) take(ctx context.Context, r Request) (attempt, error) {
	own, cancel := l.detached(ctx)
	defer cancel()

	// The input of the script: buckets, pauses that Redis may have lost, and the class.
	operation := r.Operation
	asks, owed := l.asks(operation)
	asks.Writes = l.cfg.Writes(operation)
	asks.Again = r.Again
	if r.Class == Sweep {
		asks.Buckets = append(asks.Buckets, l.sweep)
	}
	ask, _ := json.Marshal(asks) // numbers and strings always encode

	// Without Redis there is no permit.
	answer, err := takeScript.Run(own, l.cfg.Redis, []string{l.key, l.members}, ask).Slice()
	if err != nil {
		l.mu.Lock()
		if !l.failed { // the log has the first of several failures
			l.cfg.Logger.ErrorContext(ctx, "Redis gives no permits: no request is sent", "error", err)
		}
		l.failed = true
		l.owed = l.paused // it may have lost both the permits and the pause
		l.mu.Unlock()
		return attempt{wait: shortestRetry, why: fmt.Sprintf("ask redis for a permit to %s: %v", operation, err)}, nil
	}
	status, _ := answer[0].(string)
	us, _ := answer[1].(int64)
	operations := answer[2].(string)
	why := answer[3].(string)
	workers, _ := answer[4].(int64)
	wait := time.Duration(us) * time.Microsecond
	if status == "stopped" {
		err := l.stoppedError(why)
		l.setStopped(err.Error())
		return attempt{}, err
	}
	if asks.Writes {
		l.setStopped("")
	}
	if status == "blocked" {
		l.remember(operations)
		return attempt{}, &BlockedError{Operation: operation, Reason: why, After: wait}
	}
	l.mu.Lock()
	if l.owed.Equal(owed) { // else a longer pause has begun meanwhile
		l.owed = time.Time{}
	}
	if status != "paused" { // before which nothing else is stored
		l.failed = false
		l.workers = workers
	}
	l.mu.Unlock()
	switch status {
	case "taken":
		l.taken(operation, strings.Fields(operations), why)
		return attempt{ok: true}, nil
	case "paused":
		if operations != "" { // at once: the requests behind it may be of another one
			return attempt{}, &NoPermitError{After: wait, Why: "the API has asked to pause " + operation}
		}
		return attempt{wait: wait, why: "the API has asked this tenant to pause"}, nil
	}
	switch why {
	case l.sweep.Field:
		return attempt{wait: wait, share: true, why: "the sweeps' share of the budget is spent"}, nil
	case l.api.Field:
		return attempt{wait: wait, why: "the rest of the tenant's bucket is reserved for others"}, nil
	}
	return attempt{wait: wait, why: fmt.Sprintf("the budget of %v is spent", l.rate)}, nil
}

// Answered records the result of a request that got a permit; status is 0 if the API gave no
// answer, and after is how long the answer asks to wait; 0: it does not say. A 429 pauses the
// tenant for the fleet, or the operation alone if the limit is not the tenant's
// (refusal.ofTenant). An answer that only a client with the right scope gets clears the block of
// its operation, and the headers have the level of the API's bucket, which other callers use too.
// ctx may have ended.
func (l *Limiter) Answered(ctx context.Context, operation string, status int, header http.Header, after time.Duration) {
	l.mu.Lock()
	l.unanswered = max(l.unanswered-1, 0)
	l.mu.Unlock()
	select {
	case l.answered <- struct{}{}:
	default: // it was sent before
	}
	l.observe(ctx, operation, status, header)
	if status != 0 && status != http.StatusTooManyRequests {
		l.accepted(ctx, operation)
	}
	switch {
	case status == http.StatusTooManyRequests:
		l.pause(ctx, operation, min(max(after, shortestPause), longestPause), l.refusal(ctx, operation, header).ofTenant())
	case status >= 200 && status < 300, slices.Contains([]int{http.StatusBadRequest, http.StatusNotFound,
		http.StatusConflict, http.StatusUnprocessableEntity}, status): // the API refuses the request, and not the client
		l.clear(ctx, operation)
	}
}

// accepted ends the pause after which a request of the operation was the one to try.
func (l *Limiter) accepted(ctx context.Context, operation string) {
	l.mu.Lock()
	trial, tried := l.trials[operation]
	delete(l.trials, operation)
	l.mu.Unlock()
	if !tried {
		return
	}
	own, cancel := l.detached(ctx)
	defer cancel()
	if err := acceptedScript.Run(own, l.cfg.Redis, []string{l.key}, operation, trial).Err(); err != nil {
		l.cfg.Logger.WarnContext(ctx, "end of a pause not stored: another request tries", "operation", operation, "error", err)
	}
}

func (l *Limiter) pause(ctx context.Context, operation string, pause time.Duration, ofTenant bool) {
	end := time.Now().Add(pause)
	own, cancel := l.detached(ctx)
	defer cancel()
	asks, _ := l.asks(operation)
	asks.Pause = pause.Microseconds()
	asks.Alone = !ofTenant
	about, _ := json.Marshal(asks)
	fresh, err := pauseScript.Run(own, l.cfg.Redis, []string{l.key}, about).Bool()
	l.mu.Lock()
	clear(l.unhindered) // the next request of each operation reads Redis again
	if ofTenant || err != nil {
		l.paused = later(l.paused, end)
	}
	if err != nil {
		l.owed = l.paused
	}
	l.mu.Unlock()
	if err != nil {
		l.cfg.Logger.ErrorContext(ctx, "storing a pause failed: retrying with the next permit", "operation",
			operation, "error", err)
		return
	}
	switch logger := l.cfg.Logger.With("operation", operation, "pause_seconds", pause.Seconds()); {
	case fresh && !ofTenant:
		logger.WarnContext(ctx, "operation paused")
	case fresh:
		logger.WarnContext(ctx, "tenant paused")
	}
}

// Block stops an operation, or with [All] every one, for the fleet, until an answer proves
// that it works: see [Limiter.Answered]. One request is let through after 30 s, and more
// seldom the longer the block lasts. A block of which nobody probes any more expires. The
// first 300 characters of the reason are shown to operators, and fix as what they should do. ctx
// may have ended.
func (l *Limiter) Block(ctx context.Context, operation, reason, fix string) error {
	own, cancel := l.detached(ctx)
	defer cancel()
	reason = untrusted.Plain(reason, maxReason)
	fresh, err := blockScript.Run(own, l.cfg.Redis, []string{l.key}, operation, reason, fix).Bool()
	if err != nil {
		return fmt.Errorf("block %s of tenant %s: %w", operation, l.cfg.Tenant, err)
	}
	l.remember(operation)
	if fresh {
		l.cfg.Logger.WarnContext(ctx, "operation blocked", "operation", operation, "reason", reason)
		l.cfg.Changed(ctx, "blocked", operation+": "+reason)
	}
	return nil
}

func (l *Limiter) clear(ctx context.Context, operation string) {
	for _, blocked := range l.recall(operation, All) {
		own, cancel := l.detached(ctx)
		n, err := l.cfg.Redis.HDel(own, l.key, blockField+blocked, sinceField+blocked, fixField+blocked).Result()
		cancel()
		if err != nil {
			l.remember(blocked) // the next success tries again
			l.cfg.Logger.ErrorContext(ctx, "clearing a block failed", "operation", blocked, "error", err)
		} else if n > 0 {
			l.cfg.Logger.InfoContext(ctx, "operation works again", "operation", operation)
			l.cfg.Changed(ctx, "unblocked", blocked)
		}
	}
}

// Expire removes the blocks that have expired, which apply no more: nobody tests them, since no row
// needs the operation.
func (l *Limiter) Expire(ctx context.Context) error {
	operations, err := expireScript.Run(ctx, l.cfg.Redis, []string{l.key}).StringSlice()
	if err != nil {
		return fmt.Errorf("expire the blocks of tenant %s: %w", l.cfg.Tenant, err)
	}
	for _, operation := range operations {
		l.cfg.Logger.InfoContext(ctx, "block expired", "operation", operation)
		l.cfg.Changed(ctx, "unblocked", operation+": no row needs it any more, so nothing tests it")
	}
	return nil
}

// taken records that a request of the operation got a permit, past the blocks of these, and in a
// trial after a pause; "": it is none.
func (l *Limiter) taken(operation string, past []string, trial string) {
	l.remember(past...)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unanswered++
	if trial != "" {
		l.trials[operation] = trial
	}
	if len(past) == 0 && trial == "" {
		l.unhindered[operation] = time.Now().Add(unhinderedFor)
	}
}

// setStopped records why the tenant is stopped; empty: it is not. Each process logs a change
// once, so that its log has the user who stopped the tenant, and when it was started.
func (l *Limiter) setStopped(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.stopped == why:
	case why == "":
		l.cfg.Logger.Warn("tenant started again")
	default:
		l.cfg.Logger.Warn("tenant stopped", "reason", why)
	}
	l.stopped = why
}

// remember records that operations are blocked. The next request of each operation reads Redis
// again.
func (l *Limiter) remember(operations ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, operation := range operations {
		l.blocked[operation] = true
		clear(l.unhindered)
	}
}

// recall returns those of the operations that are recorded as blocked, and clears them.
func (l *Limiter) recall(operations ...string) (blocked []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, operation := range operations {
		if l.blocked[operation] {
			delete(l.blocked, operation)
			blocked = append(blocked, operation)
		}
	}
	return blocked
}

// detached returns ctx without its end but with a timeout.
func (l *Limiter) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), redisTimeout)
}
