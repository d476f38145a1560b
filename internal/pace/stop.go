package pace

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"orgops/internal/stamp"
	"orgops/internal/untrusted"
)

const (
	// stopField is the field of the tenant's hash that holds its [Stop].
	stopField = "stopped"
	// StopEffective is the time after which a stored stop has reached every worker: a request
	// that got its permit before has been sent by then. Redis may lose the writes of its last
	// second, so a stop is read back after this time.
	StopEffective = 2 * time.Second
	// stoppedAgain is the time after which a stopped request is tried again.
	stoppedAgain = 30 * time.Second
	// maxReason bounds the reason of a stop or a block, in code points: it quotes a message of
	// the API, and is shown in logs and on pages.
	maxReason = 300
)

// Stop is an operator's stop of a tenant: no request that changes anything is sent until
// the tenant is started again. Requests that only read are sent.
type Stop struct {
	// At is Redis' time.
	At time.Time `json:"-"`
	// By is the user who stopped the tenant.
	By string `json:"by"`
	// Reason is for people; it may be empty.
	Reason string `json:"reason,omitempty"`
}

// String returns user, time and reason.
func (s Stop) String() string {
	text := "stopped by " + s.By + " at " + stamp.UTC(s.At)
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	return text
}

// StoppedError says that the tenant is stopped. Nothing was sent.
type StoppedError struct {
	Tenant string
	Stop   Stop
}

// Error names the user, and the command that starts the tenant.
func (e *StoppedError) Error() string {
	return fmt.Sprintf("tenant %s is %s (to start it: enqueue tenant start %s)", e.Tenant, e.Stop, e.Tenant)
}

// RetryIn returns when to try again.
func (e *StoppedError) RetryIn() time.Duration { return stoppedAgain }

// Blocked returns true, as that of a [BlockedError].
func (e *StoppedError) Blocked() bool { return true }

// Stop stops the tenant for the fleet, and returns the stop that applies: an earlier one
// stays. It returns after [StopEffective], when no worker that reaches Redis changes
// anything any more.
func (l *Limiter) Stop(ctx context.Context, by, reason string) (Stop, error) {
	// strings always encode
	about, _ := json.Marshal(Stop{By: untrusted.Plain(by, maxReason), Reason: untrusted.Plain(reason, maxReason)})
	stop, err := l.storeStop(ctx, about)
	if err != nil {
		return Stop{}, fmt.Errorf("stop tenant %s: %w", l.cfg.Tenant, err)
	}
	select {
	case <-ctx.Done():
		return stop, fmt.Errorf("tenant %s is stopped, but it was not checked that Redis has kept that: %w",
			l.cfg.Tenant, ctx.Err())
	case <-time.After(StopEffective):
	}
	if stop, err = l.storeStop(ctx, about); err != nil {
		return Stop{}, fmt.Errorf("tenant %s was stopped, but it was not checked that Redis has kept that: repeat it: %w",
			l.cfg.Tenant, err)
	}
	return stop, nil
}

// storeStop stores a stop unless there is one.
func (l *Limiter) storeStop(ctx context.Context, about []byte) (Stop, error) {
	stored, err := stopScript.Run(ctx, l.cfg.Redis, []string{l.key}, about).Text()
	if err != nil {
		return Stop{}, err
	}
	return parseStop(stored)
}

// Started describes the stop and the pauses that [Limiter.Start] has ended.
type Started struct {
	// Stop is the operator's stop; nil if there was none.
	Stop *Stop
	// Paused reports whether the API had asked for a pause that was not over, of the tenant or an
	// operation.
	Paused bool
	// Blocked reports whether an operation is blocked, which is tried now.
	Blocked bool
}

// Start ends the stop of the tenant, and pauses that the API has asked for: an answer may ask for
// an hour by mistake. That does no harm, since one request tries first, and the next 429 pauses
// again. The next probe of each block is due at once.
func (l *Limiter) Start(ctx context.Context) (s Started, err error) {
	answer, err := startScript.Run(ctx, l.cfg.Redis, []string{l.key}).Slice()
	if err != nil {
		return s, fmt.Errorf("start tenant %s: %w", l.cfg.Tenant, err)
	}
	s.Paused = answer[1] == int64(1)
	s.Blocked = answer[2] == int64(1)
	stored, _ := answer[0].(string)
	if stored == "" {
		return s, nil
	}
	stop, err := parseStop(stored)
	if err != nil {
		return s, fmt.Errorf("tenant %s is started; its stop was unreadable: %w", l.cfg.Tenant, err)
	}
	s.Stop = &stop
	return s, nil
}

// parseStop reads <time in µs>:<JSON>.
func parseStop(stored string) (s Stop, err error) {
	at, about, _ := strings.Cut(stored, ":")
	us, err := strconv.ParseInt(at, 10, 64)
	if err == nil {
		err = json.Unmarshal([]byte(about), &s)
	}
	if err != nil {
		return Stop{}, fmt.Errorf("stored stop %s: %w", untrusted.Quote(stored, 40), err)
	}
	s.At = time.UnixMicro(us).UTC()
	return s, nil
}

// stoppedError returns the error of a request that the tenant's stop refuses. An unreadable
// stop refuses requests too.
func (l *Limiter) stoppedError(stored string) error {
	stop, err := parseStop(stored)
	if err != nil {
		stop = Stop{By: "an unknown user"}
	}
	return &StoppedError{Tenant: l.cfg.Tenant, Stop: stop}
}
