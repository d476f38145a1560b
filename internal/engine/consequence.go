package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/dnscheck"
	"orgops/internal/backoff"
	"orgops/internal/ledger"
)

const (
	// blockedFor is when a row of a blocked operation is due again. The dispatcher
	// releases one such row for each probe.
	blockedFor = 30 * time.Second
	// longestRetryAfter bounds the delay that a header or the pace asks for.
	longestRetryAfter = time.Hour
	// everyOperation blocks all that the tenant's credentials are for.
	everyOperation = "*"
)

// Decide returns the consequence of the error of an execution; without one the row is done.
// Everything that depends on an error depends on it through this function.
func Decide(err error) Consequence {
	if err == nil {
		return Consequence{Outcome: ledger.Done}
	}
	j := decide(err)
	if j.Reason == "" {
		j.Reason = err.Error()
	}
	return j
}

// Fail ends an execution with an error, which must not be nil. [Decide] says what becomes of the
// row: it may be repeated or settled, or be given back.
func Fail(err error) *Consequence {
	if err == nil {
		panic("an execution has failed without an error")
	}
	j := Decide(err)
	return &j
}

func decide(err error) Consequence {
	var (
		unknown *UnknownError
		retry   *retryError
		own     *RowError
		pace    interface {
			error
			RetryIn() time.Duration
		}
		api     *apiclient.Error
		odd     *apiclient.AnswerError
		token   *apiclient.TokenError
		proxy   *apiclient.ProxyError
		request *schema.ValidationError
		query   *dnscheck.QuestionError
	)
	switch {
	case errors.Is(err, ErrSuperseded):
		return Consequence{Outcome: ledger.Superseded}
	case errors.Is(err, ErrStopping):
		return Consequence{Outcome: ledger.Stopping}
	case errors.Is(err, ErrStopped):
		return Consequence{Outcome: ledger.Stopped}
	case errors.As(err, &unknown):
		return Consequence{Outcome: ledger.Unrecognized, After: unknownAgain}
	case errors.As(err, &retry):
		return Consequence{Outcome: ledger.Transient, Counts: true, After: retry.after}
	case errors.As(err, &own):
		return Consequence{Outcome: own.outcome}
	case errors.As(err, &pace):
		return decidePace(pace, pace.RetryIn())
	case errors.As(err, &token):
		return decideToken(token)
	case errors.As(err, &proxy) && proxy.Status < 500: // until somebody corrects its settings
		return Consequence{Outcome: ledger.Blocked, After: blockedFor, Operation: everyOperation,
			Cause: proxy.Error(), Fault: apiclient.FaultOfProxy}
	case errors.As(err, &api), errors.As(err, &odd):
		return decideAnswer(err)
	case errors.As(err, &request):
		return Consequence{Outcome: ledger.InvalidRow}
	case redisAway(err):
		return Consequence{Outcome: ledger.Transient, After: backoff.Spread(redisAgain)}
	case errors.As(err, &query):
		return Consequence{Outcome: ledger.Refused}
	}
	// Connections, timeouts, answers that are unreadable or not the API's, other errors of
	// Redis, a panic.
	return Consequence{Outcome: ledger.Transient, Counts: true}
}

func decidePace(err error, after time.Duration) Consequence {
	var stops interface{ Stopping() bool }
	if errors.As(err, &stops) && stops.Stopping() {
		return Consequence{Outcome: ledger.Stopping}
	}
	var blocks interface{ Blocked() bool }
	if errors.As(err, &blocks) && blocks.Blocked() {
		return Consequence{Outcome: ledger.Blocked, After: blockedFor}
	}
	return paced(min(after, blockedFor))
}

// paced leaves the row open until a permit is likely. While the pace has a pause the dispatcher
// holds rows that are due: they are due soon, since a person may end a pause that lasts for an
// hour.
func paced(after time.Duration) Consequence {
	return Consequence{Outcome: ledger.Paced, After: min(max(after, time.Second), longestRetryAfter)}
}

func decideToken(err *apiclient.TokenError) Consequence {
	fault := apiclient.FaultOf(err)
	switch {
	case err.Status == http.StatusTooManyRequests:
		return paced(err.RetryAfter)
	case fault == apiclient.FaultPassing: // the execution ended before there was an answer
		return Consequence{Outcome: ledger.Transient, Counts: true}
	}
	// Without a token no row can succeed, whatever the reason and however long it lasts.
	return Consequence{Outcome: ledger.Blocked, After: blockedFor, Operation: everyOperation, Cause: err.Error(),
		Fault: fault}
}

// decideAnswer returns the consequence of an answer of the API, or of something before it.
// [apiclient.FaultOf] decides whose fault it is.
func decideAnswer(err error) Consequence {
	var (
		refused *apiclient.Error
		odd     *apiclient.AnswerError
	)
	// The cause of a block has no path, which names a row.
	var operation, cause string
	var retryAfter time.Duration
	var limited bool
	switch {
	case errors.As(err, &refused):
		operation = refused.Operation
		cause = fmt.Sprintf("%d %s: %s", refused.Status, http.StatusText(refused.Status), refused.Message)
		retryAfter = refused.RetryAfter
		limited = refused.Status == http.StatusTooManyRequests
	case errors.As(err, &odd):
		cause = fmt.Sprintf("%d %s: %s", odd.Status, http.StatusText(odd.Status), odd.Err)
	}
	switch fault := apiclient.FaultOf(err); fault {
	case apiclient.FaultOfToken, apiclient.FaultOfTenant:
		return Consequence{Outcome: ledger.Blocked, After: blockedFor, Operation: everyOperation, Cause: cause, Fault: fault}
	case apiclient.FaultOfScope, apiclient.FaultOfOperation:
		return Consequence{Outcome: ledger.Blocked, After: blockedFor, Operation: operation, Cause: cause, Fault: fault}
	case apiclient.FaultOfRow:
		return Consequence{Outcome: ledger.Refused}
	}
	if limited {
		return paced(min(retryAfter, blockedFor))
	}
	return Consequence{Outcome: ledger.Transient, Counts: true, After: min(retryAfter, longestRetryAfter)}
}

// refusals are the codes with which Redis refuses any client's write. DENIED is that of the
// ledger's scripts: the user may not run one of their commands.
var refusals = []string{"DENIED", "OOM", "MISCONF", "READONLY", "NOREPLICAS", "LOADING", "CLUSTERDOWN", "MASTERDOWN"}

// redisAgain is when a row is due again after Redis refused a write: a failover takes
// some seconds.
const redisAgain = 10 * time.Second

// redisRefuses reports whether Redis refused the write: it surely had no effect.
func redisRefuses(err error) bool {
	if errors.Is(err, ledger.ErrNoMemory) {
		return true
	}
	answer, ok := errors.AsType[redis.Error](err)
	return ok && slices.ContainsFunc(refusals, func(code string) bool {
		// Redis 6.2 puts the code of an error in a script behind the script's line.
		return strings.HasPrefix(answer.Error(), code+" ") || strings.Contains(answer.Error(), ": -"+code+" ")
	})
}

// redisDenies reports whether the user may not run a command. If the command is one of a
// script, those before it had their effect.
func redisDenies(err error) bool {
	answer, ok := errors.AsType[redis.Error](err)
	return ok && (redis.IsPermissionError(answer) ||
		strings.Contains(answer.Error(), "The user executing the script can't"))
}

// redisAway reports whether Redis refused the write or could not be reached: the row is
// not the cause.
func redisAway(err error) bool {
	if redisRefuses(err) || redisDenies(err) {
		return true
	}
	_, api := errors.AsType[*apiclient.TransportError](err)
	network, ok := errors.AsType[*net.OpError](err)
	return ok && network.Op == "dial" && !api && !errors.Is(err, context.Canceled)
}

// NoEffect reports whether the error of a request that writes proves that it had no
// effect: it was not sent, or the API refused it. A 408, a 5xx, a lost or unreadable answer
// or that of a proxy proves nothing.
func NoEffect(err error) bool {
	var (
		answer *apiclient.Error
		lost   *apiclient.TransportError
		odd    *apiclient.AnswerError
	)
	switch {
	case errors.As(err, &answer):
		return answer.Status >= 300 && answer.Status < 500 && answer.Status != http.StatusRequestTimeout
	case errors.As(err, &lost):
		return !lost.Sent
	case errors.As(err, &odd):
		return false
	}
	return true // no permit, no token, not valid, not wanted any more
}

const (
	// MaxAttempts is how often an execution of a row may fail before the row settles as
	// failed: with the delays of [Backoff], an outage of about three hours.
	MaxAttempts = 17
	// longestBackoff bounds the wait between two attempts.
	longestBackoff = 30 * time.Minute
	// unknownAgain is when a row is due again that a newer worker has to execute.
	unknownAgain = 5 * time.Second
)

// Backoff returns the wait after the n-th failure, from 0: 1 s, 2 s, 4 s and so on, each spread.
func Backoff(n int) time.Duration {
	return backoff.Spread(backoff.Doubled(time.Second, longestBackoff, n))
}
