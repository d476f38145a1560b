package tasks

import (
	"context"

	"github.com/hibiken/asynq"
)

// Deliver is ProcessTask with what asynq would have put into the context.
func (m *Mux) Deliver(ctx context.Context, t *asynq.Task, id, queue string, retried int) error {
	return m.deliver(ctx, t, delivery{taskID: id, queue: queue, retried: retried})
}

// ReadEnvelope reads the envelope of a task that is a row.
func ReadEnvelope(payload []byte) (Envelope, error) { return readEnvelope(TypeVerify, payload) }

var (
	WalkTaskID     = walkTaskID
	RetryDelay     = retryDelay
	IsFailure      = isFailure
	NextLook       = nextLook
	Backoff        = backoff
	RowTaskID      = rowTaskID
	BatchTaskID    = batchTaskID
	ConfirmTaskID  = confirmTaskID
	NextLookTaskID = nextLookTaskID
	LaneOf         = laneOf
	DecodeStrict   = decodeStrict
	PackVerdict    = packVerdict
	PackProof      = packProof
	InWholeSeconds = inWholeSeconds

	NotYetError    = notYet
	LaterError     = later
	RefusedError   = refused
	InvalidError   = invalid
	ExpiredError   = expired
	TransientError = transient
	NoEffect       = noEffect
)

// VerdictError is the error that the middleware returns for j.
func VerdictError(j Judgement) error { return &verdictError{j} }

// IsFailure is the servers' IsFailure.
func (r *Refusals) IsFailure(err error) bool { return r.isFailure(err) }

// PanicError is the error that a panic with the value becomes.
func PanicError(value string) error { return &panicError{value: value} }

const (
	LongestBackoff     = longestBackoff
	LongestNegativeTTL = longestNegativeTTL
	MaxRetry           = maxRetry
	Young              = young
	MoreForUnknown     = moreForUnknown
	UnknownFor         = unknownFor
	WindowRows         = windowRows
	RedisAgain         = redisAgain
)
