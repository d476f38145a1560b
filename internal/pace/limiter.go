package pace

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// defaultMaxWait is well below the timeout of a task, which holds a worker's
	// place while it waits, and long enough not to come back for nothing.
	defaultMaxWait = 20 * time.Second
	// probeEvery is how often a blocked operation is tried: an operator who has
	// mended it sees it move within half a minute.
	probeEvery = 30 * time.Second
	// redisTimeout bounds a round trip that must not end with the caller's context.
	redisTimeout = 5 * time.Second
	// unhinderedFor is how long a process with an unlimited rate goes on without
	// asking whether another has paused or blocked the tenant.
	unhinderedFor = 100 * time.Millisecond
	// shortestRetry is what is told to those for whom no better time is known.
	shortestRetry = time.Second
)

// All is the operation to block when none works.
const All = "*"

// Config is what a Limiter needs.
type Config struct {
	Redis redis.UniversalClient
	// Tenant names the budget.
	Tenant string
	Limit  Limit
	// MaxWait is how long Wait waits at the most. 0: 20 s.
	MaxWait time.Duration
	// Stopping, once closed, ends all waiting. nil: never.
	Stopping <-chan struct{}
	// Logger is told of pauses and blocks. nil: nobody is.
	Logger *slog.Logger
}

// Limiter gives permits for requests. It is safe for concurrent use; one per
// tenant and process keeps the order of asking.
type Limiter struct {
	rdb      redis.UniversalClient
	tenant   string
	key      string
	rate     Rate
	gcra     gcra
	maxWait  time.Duration
	stopping <-chan struct{}
	log      *slog.Logger
	line     line

	mu sync.Mutex
	// unhindered is until when requests of an operation go without asking, where
	// the rate is unlimited.
	unhindered map[string]time.Time
	// blocked are the operations that this process knows to have been blocked: a
	// success of one of them clears the block, and others cost no round trip.
	blocked map[string]bool
}

// New returns a limiter, without asking Redis yet.
func New(c Config) *Limiter {
	rate, burst := c.Limit.Effective()
	l := &Limiter{
		rdb: c.Redis, tenant: c.Tenant, key: key(c.Tenant, "pace"), rate: rate, gcra: newGCRA(rate, burst),
		maxWait: c.MaxWait, stopping: c.Stopping, log: c.Logger, blocked: map[string]bool{}, unhindered: map[string]time.Time{},
	}
	if l.maxWait == 0 {
		l.maxWait = defaultMaxWait
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	return l
}

// Wait returns nil when one request of the operation may be sent now. Otherwise
// nothing may be sent, and the error is a [NoPermitError], a [BlockedError],
// ctx's own, or tells that Redis could not be asked. Who gives up takes no permit.
//
// Where the rate is unlimited only pauses and blocks are asked for, and not for
// each request: the permits are not counted.
func (l *Limiter) Wait(ctx context.Context, operation string) error {
	if l.rate.IsUnlimited() && l.isUnhindered(operation) {
		return l.interrupted(ctx, operation)
	}
	deadline := time.Now().Add(l.maxWait)
	timer := time.NewTimer(l.maxWait)
	defer timer.Stop()
	place := l.line.enter()
	defer place.leave()
	select {
	case <-place.turn:
	case <-timer.C:
		ahead := place.ahead()
		after := max(time.Duration(int64(ahead)*l.gcra.interval)*time.Microsecond, shortestRetry)
		return &NoPermitError{After: after, Why: fmt.Sprintf("%d requests of this process were before it", ahead)}
	case <-l.stopping:
		return errStopping()
	case <-ctx.Done():
		return ended(ctx, operation)
	}
	for {
		if err := l.interrupted(ctx, operation); err != nil {
			return err
		}
		taken, err := l.take(ctx, operation)
		if err != nil || taken.ok {
			return err
		}
		left := time.Until(deadline)
		if taken.wait > left {
			return &NoPermitError{After: taken.wait, Why: taken.why}
		}
		timer.Reset(min(taken.wait+l.jitter(), left))
		select {
		case <-timer.C:
		case <-l.stopping:
		case <-ctx.Done():
		}
	}
}

// interrupted tells of the ends of waiting that come from outside.
func (l *Limiter) interrupted(ctx context.Context, operation string) error {
	select {
	case <-l.stopping:
		return errStopping()
	case <-ctx.Done():
		return ended(ctx, operation)
	default:
		return nil
	}
}

func errStopping() error { return &NoPermitError{Why: "this worker is stopping", stopping: true} }

func ended(ctx context.Context, operation string) error {
	return fmt.Errorf("wait for a permit to %s: %w", operation, ctx.Err())
}

// jitter keeps the process nearest to Redis from winning each permit. Where the
// bucket holds more than one, nothing is lost by coming a little late; where it
// does not, a fiftieth costs 1 % of the rate at the most.
func (l *Limiter) jitter() time.Duration {
	share := l.gcra.interval / 4
	if l.gcra.burst == 1 {
		share = l.gcra.interval / 50
	}
	const most = 50_000 // 50 ms: more than round trips differ
	return time.Duration(rand.Int64N(min(share, most)+1)) * time.Microsecond
}

// attempt is what one step in Redis came to.
type attempt struct {
	ok   bool
	wait time.Duration // not ok: no permit before this
	why  string
}

// take asks for a permit once. The script runs to its end whatever becomes of
// ctx: a permit whose answer nobody waited for would be lost. If ctx has ended
// when it is there, it is given back.
func (l *Limiter) take(ctx context.Context, operation string) (attempt, error) {
	own, cancel := detached(ctx)
	defer cancel()
	answer, err := takeScript.Run(own, l.rdb, []string{l.key},
		operation, l.gcra.interval, l.gcra.burst, probeEvery.Microseconds()).Slice()
	if err != nil {
		return attempt{}, fmt.Errorf("ask redis for a permit to %s: %w", operation, err)
	}
	status, _ := answer[0].(string)
	us, _ := answer[1].(int64)
	wait := time.Duration(us) * time.Microsecond
	switch status {
	case "taken":
		probed := strings.Fields(answer[2].(string))
		l.remember(probed...)
		if ctx.Err() != nil {
			return attempt{}, l.giveBack(ctx, operation, probed)
		}
		if len(probed) == 0 {
			l.setUnhindered(operation)
		}
		return attempt{ok: true}, nil
	case "blocked":
		l.remember(answer[2].(string))
		return attempt{}, &BlockedError{Operation: operation, Reason: answer[3].(string), After: wait}
	case "paused":
		return attempt{wait: wait, why: "the API has asked this tenant to pause"}, nil
	}
	return attempt{wait: wait, why: fmt.Sprintf("the budget of %v is spent", l.rate)}, nil
}

func (l *Limiter) giveBack(ctx context.Context, operation string, probed []string) error {
	own, cancel := detached(ctx)
	defer cancel()
	args := []any{l.gcra.interval, l.gcra.burst}
	for _, p := range probed {
		args = append(args, p)
	}
	if err := refundScript.Run(own, l.rdb, []string{l.key}, args...).Err(); err != nil {
		l.log.WarnContext(ctx, "permit not given back", "tenant", l.tenant, "operation", operation, "error", err)
	}
	return ended(ctx, operation)
}

// Answered learns from the answer to a request: a 429 pauses the tenant for the
// fleet, a 2xx clears the block of its operation. ctx may have ended.
func (l *Limiter) Answered(ctx context.Context, operation string, status int, header http.Header) {
	switch {
	case status == http.StatusTooManyRequests:
		l.pause(ctx, operation, pauseOf(header))
	case status >= 200 && status < 300:
		l.clear(ctx, operation)
	}
}

func (l *Limiter) pause(ctx context.Context, operation string, pause time.Duration) {
	l.hinder()
	own, cancel := detached(ctx)
	defer cancel()
	fresh, err := pauseScript.Run(own, l.rdb, []string{l.key}, l.gcra.interval, l.gcra.burst, pause.Microseconds()).Bool()
	if err != nil {
		l.log.ErrorContext(ctx, "pause not stored", "tenant", l.tenant, "operation", operation, "error", err)
		return
	}
	if fresh {
		l.log.WarnContext(ctx, "tenant paused", "tenant", l.tenant, "operation", operation, "pause_seconds", pause.Seconds())
	}
}

// Block stops an operation, or with [All] every one, for the fleet, until a
// request of it succeeds; every 30 s one is let through. The reason is shown to
// operators; 300 characters of it are kept.
func (l *Limiter) Block(ctx context.Context, operation, reason string) error {
	l.hinder()
	fresh, err := blockScript.Run(ctx, l.rdb, []string{l.key}, operation, quote(reason, maxReason), probeEvery.Microseconds()).Bool()
	if err != nil {
		return fmt.Errorf("block %s of tenant %s: %w", operation, l.tenant, err)
	}
	l.remember(operation)
	if fresh {
		l.log.WarnContext(ctx, "operation blocked", "tenant", l.tenant, "operation", operation, "reason", quote(reason, maxReason))
	}
	return nil
}

func (l *Limiter) clear(ctx context.Context, operation string) {
	fields := l.recall(operation, All)
	if len(fields) == 0 {
		return
	}
	own, cancel := detached(ctx)
	defer cancel()
	n, err := l.rdb.HDel(own, l.key, fields...).Result()
	if err != nil {
		l.remember(operation, All) // the next success tries again
		l.log.ErrorContext(ctx, "block not cleared", "tenant", l.tenant, "operation", operation, "error", err)
		return
	}
	if n > 0 {
		l.log.InfoContext(ctx, "operation works again", "tenant", l.tenant, "operation", operation)
	}
}

func (l *Limiter) isUnhindered(operation string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.unhindered[operation])
}

func (l *Limiter) setUnhindered(operation string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unhindered[operation] = time.Now().Add(unhinderedFor)
}

// hinder has every request ask again.
func (l *Limiter) hinder() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.unhindered)
}

func (l *Limiter) remember(operations ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, operation := range operations {
		l.blocked[operation] = true
	}
}

// recall returns the fields of those among the operations that were remembered,
// and forgets them.
func (l *Limiter) recall(operations ...string) (fields []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, operation := range operations {
		if l.blocked[operation] {
			delete(l.blocked, operation)
			fields = append(fields, blockField+operation)
		}
	}
	return fields
}

// detached is ctx without its end, and with one of its own.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), redisTimeout)
}
