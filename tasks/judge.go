package tasks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
)

// Level is the level at which an execution that ended so is logged: at info a row has
// one line, when it settles, and whatever leaves it open and is as it should be is at
// debug.
func (o Outcome) Level() slog.Level {
	switch o {
	case Done, Unchanged, Cancelled:
		return slog.LevelInfo
	case HandedOn, NotYet, Paced, Stopping, Paused, Superseded:
		return slog.LevelDebug
	case Failed:
		return slog.LevelError
	}
	return slog.LevelWarn
}

// Judgement is what the queue and the ledger do about an error.
type Judgement struct {
	Outcome   Outcome
	Reason    string        // for people; of errors that hold no secret
	After     time.Duration // when the task runs again; where Counts not before its backoff
	Counts    bool          // an attempt was used up
	Operation string        // of Blocked: the API operation, "*" for all; "" when the pace has blocked it itself
	Cause     string        // of Blocked with an Operation: why, without the row's identifiers
}

// settledError settles the rows.
type settledError struct {
	outcome Outcome
	reason  string
}

// laterError leaves the rows open, mostly without using up an attempt.
type laterError struct {
	outcome Outcome // NotYet, or Paced; Transient where it counts
	reason  string
	after   time.Duration
	counts  bool // it uses up an attempt all the same
}

func (e *laterError) Error() string   { return e.reason }
func (e *settledError) Error() string { return e.reason }

func notYet(reason string, after time.Duration) error {
	return &laterError{outcome: NotYet, reason: reason, after: after}
}

func later(reason string, after time.Duration) error {
	return &laterError{outcome: Paced, reason: reason, after: after}
}

func refused(format string, a ...any) error {
	return &settledError{outcome: Refused, reason: fmt.Sprintf(format, a...)}
}

func cancelled(reason string) error {
	return &settledError{outcome: Cancelled, reason: reason}
}

func invalid(err error) error {
	return &settledError{outcome: Invalid, reason: err.Error()}
}

func expired(reason string) error {
	return &settledError{outcome: Expired, reason: reason}
}

// transientError makes trouble of what would otherwise be an answer: a 404
// on a record that may be too young to be read, say.
type transientError struct{ err error }

func (e *transientError) Error() string { return e.err.Error() }

func transient(err error) error { return &transientError{err} }

// ErrStopping is returned where a handler leaves because the worker stops.
var ErrStopping = errors.New("the worker is stopping")

// ErrCancelled is returned where a handler finds that its run was cancelled.
var ErrCancelled = errors.New("the run was cancelled")

// Why a task is dropped although its rows are open.
var (
	errPaused     = errors.New("the run is paused")
	errSuperseded = errors.New("the run was resumed, and has another task for these rows")
)

// Bounds of waiting for what others say.
const (
	// blockedFor is when a task looks again whether its operation is still
	// blocked: each time may cost requests before the blocked one.
	blockedFor = 2 * time.Minute
	// longestRetryAfter bounds what a header or the pace can ask for: a task asks
	// again after an hour, even if its permit takes longer (a rate of 1/h) or the
	// pace was wrong. The tenant's pause has the same bound.
	longestRetryAfter = time.Hour
)

// Judge turns the error of an execution into its outcome. Everything that
// depends on an error depends on it through this function.
func Judge(err error) Judgement {
	if err == nil {
		return Judgement{Outcome: Done}
	}
	j := judge(err)
	if j.Reason == "" {
		j.Reason = err.Error()
	}
	return j
}

func judge(err error) Judgement {
	var (
		soon    *laterError
		settled *settledError
		trouble *transientError
		pace    interface {
			error
			RetryIn() time.Duration
		}
		api     *apiclient.Error
		token   *apiclient.TokenError
		request *apiclient.ValidationError
		missing interface{ NotFound() bool }
		query   *dnscheck.QuestionError
		row     refusedRow
	)
	switch {
	case errors.Is(err, ErrStopping):
		return Judgement{Outcome: Stopping}
	case errors.Is(err, errPaused):
		return Judgement{Outcome: Paused}
	case errors.Is(err, errSuperseded):
		return Judgement{Outcome: Superseded}
	case errors.Is(err, ErrCancelled):
		return Judgement{Outcome: Cancelled}
	case errors.As(err, &settled):
		return Judgement{Outcome: settled.outcome}
	case errors.As(err, &soon):
		return Judgement{Outcome: soon.outcome, After: soon.after, Counts: soon.counts}
	case errors.As(err, &trouble):
		return Judgement{Outcome: Transient, Counts: true}
	case errors.As(err, &pace):
		return judgePace(pace, pace.RetryIn())
	case errors.As(err, &token):
		return judgeToken(token)
	case errors.As(err, &api):
		return judgeAnswer(api)
	case errors.As(err, &request):
		return Judgement{Outcome: Invalid}
	case errors.As(err, &missing) && missing.NotFound():
		return Judgement{Outcome: Invalid}
	case redisAway(err):
		return Judgement{Outcome: Transient, After: spread(redisAgain)}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Judgement{Outcome: Transient, Counts: true}
	case errors.As(err, &query), errors.As(err, &row):
		return Judgement{Outcome: Refused}
	}
	// Connections, answers that cannot be read, other errors of Redis, a lost lease, a panic.
	return Judgement{Outcome: Transient, Counts: true}
}

func judgePace(err error, after time.Duration) Judgement {
	var stops interface{ Stopping() bool }
	if errors.As(err, &stops) && stops.Stopping() {
		return Judgement{Outcome: Stopping}
	}
	var blocks interface{ Blocked() bool }
	if errors.As(err, &blocks) && blocks.Blocked() {
		return Judgement{Outcome: Blocked, After: min(max(after, blockedFor), longestRetryAfter)}
	}
	return Judgement{Outcome: Paced, After: min(max(after, time.Second), longestRetryAfter)}
}

func judgeToken(err *apiclient.TokenError) Judgement {
	switch {
	case err.Status == http.StatusTooManyRequests:
		return Judgement{Outcome: Paced, After: min(max(err.RetryAfter, time.Second), longestRetryAfter)}
	case err.Status == 0, err.Status == http.StatusRequestTimeout, err.Status >= 500:
		return Judgement{Outcome: Transient, Counts: true, After: min(err.RetryAfter, longestRetryAfter)}
	case err.Status < 300:
		return Judgement{Outcome: Transient, Counts: true} // an answer that is no token
	}
	return Judgement{Outcome: Blocked, After: blockedFor, Operation: everyOperation, Cause: err.Error()}
}

// everyOperation blocks all that the tenant's credentials are for.
const everyOperation = "*"

func judgeAnswer(err *apiclient.Error) Judgement {
	switch {
	case err.Status == http.StatusUnauthorized:
		return Judgement{Outcome: Blocked, After: blockedFor, Operation: everyOperation, Cause: cause(err)}
	case err.LacksScope():
		return Judgement{Outcome: Blocked, After: blockedFor, Operation: err.Operation, Cause: cause(err)}
	case err.Status == http.StatusTooManyRequests:
		return Judgement{Outcome: Paced, After: min(max(err.RetryAfter, time.Second), longestRetryAfter)}
	case err.Status == http.StatusRequestTimeout, err.Status >= 500:
		return Judgement{Outcome: Transient, Counts: true, After: min(err.RetryAfter, longestRetryAfter)}
	}
	return Judgement{Outcome: Refused}
}

// cause is an answer without the path: what blocks an operation is shown where
// no row belongs.
func cause(err *apiclient.Error) string {
	return fmt.Sprintf("%d %s: %s", err.Status, http.StatusText(err.Status), err.Message)
}
