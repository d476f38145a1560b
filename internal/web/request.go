package web

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Refusal is the reason why a request is refused: for its client, and for the log.
type Refusal struct {
	Status     int
	Text       string
	Reason     string // of the log, in one word; empty: it is only an information there
	About      []any  // further attributes of the log, in pairs
	RetryAfter time.Duration
	Limit      string // the limit that is reached, such as requests, or empty
}

func (r *Refusal) Error() string { return r.Text }

func forbidden(reason, text string, a ...any) *Refusal {
	return &Refusal{Status: http.StatusForbidden, Reason: reason, Text: fmt.Sprintf(text, a...)}
}

// Request has the facts about a request.
type Request struct {
	ID   string // the client's X-Request-Id, so that its log and ours match, or a new one
	User User
	// Admitted reports whether the user is still admitted, for requests that last. User is their
	// present entry then, which may have been narrowed. It is for the handler's goroutine alone.
	Admitted func() bool
	// About are further attributes of its line in the log, in pairs.
	About []any
	// Failed says that the line in the log is a warning.
	Failed bool
}

type requestKey struct{}

// Of returns the facts about the request of a context.
func Of(ctx context.Context) *Request {
	it, ok := ctx.Value(requestKey{}).(*Request)
	if !ok {
		return &Request{}
	}
	return it
}

// recorder records an answer, and gives a slow client a time for each write of it.
type recorder struct {
	http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration
	status   int // 0: nothing is written yet
	bytes    int64
}

// Unwrap is for [http.ResponseController].
func (a *recorder) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *recorder) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.wait()
	a.ResponseWriter.WriteHeader(status)
}

func (a *recorder) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	a.wait()
	n, err := a.ResponseWriter.Write(p)
	a.bytes += int64(n)
	return n, err
}

// wait sets until when the client has to receive the next write.
func (a *recorder) wait() { _ = a.control.SetWriteDeadline(time.Now().Add(a.patience)) }
