package deliveries

import (
	"errors"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"
)

type outcome string

const (
	done    outcome = "done"
	failed  outcome = "failed"  // given up
	invalid outcome = "invalid" // the payload cannot be read

	transient outcome = "transient" // an attempt failed, and is repeated
	paced     outcome = "paced"     // no attempt was made; the delivery waits
	stopping  outcome = "stopping"  // the worker stops; another one delivers
)

func (o outcome) ends() bool { return o == done || o == failed || o == invalid }

func (o outcome) level() slog.Level {
	switch o {
	case done:
		return slog.LevelInfo
	case paced, stopping:
		return slog.LevelDebug
	case failed:
		return slog.LevelError
	}
	return slog.LevelWarn
}

// verdict is the error by which asynq archives or repeats a task: its server calls
// retryDelay and isFailure with it.
type verdict struct {
	outcome outcome
	reason  string        // for people
	after   time.Duration // when the task is due again
	counts  bool          // an attempt was used up
	gone    bool          // the receiver wants no more events
}

func (v *verdict) Error() string { return string(v.outcome) + ": " + v.reason }

// Is has asynq archive a delivery that ended badly.
func (v *verdict) Is(target error) bool { return target == asynq.SkipRetry && v.outcome.ends() }

// retryDelay is asynq's RetryDelayFunc. Other errors are asynq's own: a lost lease or a
// timeout.
func retryDelay(retried int, err error, _ *asynq.Task) time.Duration {
	if v, ok := errors.AsType[*verdict](err); ok {
		return v.after
	}
	return wholeSeconds(delayAfter(retried + 1))
}

func isFailure(err error) bool {
	v, ok := errors.AsType[*verdict](err)
	return !ok || v.counts
}
