package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/redisconn"
	"orgops/internal/remedy"
	"orgops/internal/results"
	"orgops/internal/rowfile"
	"orgops/internal/untrusted"
	"orgops/internal/view"
	"orgops/internal/web"
)

// problem is an error as a client gets it: a problem document of RFC 9457.
type problem struct {
	Type     string          `json:"type"` // typePrefix and a name that programs may rely on
	Title    string          `json:"title"`
	Status   int             `json:"status"`
	Detail   string          `json:"detail,omitempty"`
	Instance string          `json:"instance"` // the request's id
	Invalid  *intake.BadRows `json:"invalid,omitempty"`

	retryAfter time.Duration // with 429, 503 and 507
	limit      string        // that is reached, for log and metrics
	cause      error         // for the log only
}

const typePrefix = "urn:orgops:problem:"

// retryAfter is when to repeat a request with status 503.
const retryAfter = 5 * time.Second

func (p *problem) Error() string {
	if p.cause != nil {
		return fmt.Sprintf("%s: %v", p.Title, p.cause)
	}
	return p.Title + ": " + p.Detail
}

func (p *problem) Unwrap() error { return p.cause }

// titles has all problems; openapi.yaml lists them too.
var titles = map[string]string{
	"bad-request":        "The request cannot be read",
	"unauthenticated":    "A valid token is required",
	"not-allowed":        "The token does not allow this",
	"not-found":          "Not found",
	"several-tenants":    "Several tenants have it",
	"no-links":           "This server makes no links",
	"method-not-allowed": "Method not allowed",
	"not-acceptable":     "Not available in this format",
	"body-timeout":       "The upload was too slow",
	"state":              "The state of the run does not allow this",
	"too-large":          "The request is too large",
	"unsupported-type":   "Unsupported media type",
	"bad-rows":           "Some rows are invalid; nothing was submitted",
	"bad-input":          "The rows cannot be read; nothing was submitted",
	"key-reused":         "The Idempotency-Key was used for another run",
	"busy":               "Too many concurrent requests",
	"store":              "Redis is not available",
	"rows-a-day":         "The rows of the day are used up; nothing was submitted",
	"too-many-checks":    "Too many checks of domains were requested",
	"full":               "There is no room for the rows; nothing was submitted",
	"internal":           "Internal server error",
}

func newProblem(status int, name, detail string, a ...any) *problem {
	return &problem{Type: typePrefix + name, Title: titles[name], Status: status, Detail: fmt.Sprintf(detail, a...)}
}

// because returns the problem with its cause, for the log.
func (p *problem) because(err error) *problem {
	p.cause = err
	return p
}

// after returns the problem with the time after which to repeat the request.
func (p *problem) after(d time.Duration) *problem {
	p.retryAfter = d
	return p
}

// at returns the problem with the limit that is reached.
func (p *problem) at(limit string) *problem {
	p.limit = limit
	return p
}

func badRequest(detail string, a ...any) *problem {
	return newProblem(http.StatusBadRequest, "bad-request", detail, a...)
}

func noSuchRun(id string) *problem {
	return newProblem(http.StatusNotFound, "not-found",
		"You have no run %s: it never existed, or it ended more than 30 days ago.", untrusted.Value(id))
}

// several says that several of the caller's tenants have what a request names by its id.
func several[Name ~string](what, id string, tenants []Name) *problem {
	var names []string
	for _, t := range tenants {
		names = append(names, string(t))
	}
	return newProblem(http.StatusConflict, "several-tenants",
		"Several tenants have %s %s: %s. Name one of them by the parameter tenant.", what, untrusted.Value(id),
		strings.Join(names, ", "))
}

// problemOf returns the problem that an error is to a client. All answers use it.
func problemOf(err error) *problem {
	// Errors that are problems, or have a form of their own.
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if why, ok := errors.AsType[*web.Refusal](err); ok {
		return refusedBy(why)
	}
	if bad, ok := errors.AsType[*intake.BadRows](err); ok {
		p := newProblem(http.StatusUnprocessableEntity, "bad-rows",
			"Correct the rows below and send all of them again, or send them with ?skip_invalid=1 to submit the valid ones.")
		p.Invalid = bad
		return p
	}

	// All others, by their type; the rest is the server's fault.
	_, header := errors.AsType[*rowfile.HeaderError](err)
	_, retried := errors.AsType[*intake.RetriedError](err)
	_, own := errors.AsType[*results.OwnRunError](err)
	_, room := errors.AsType[*intake.RoomError](err)
	none, hidden := errors.AsType[*view.NotFoundError](err)
	mismatch, differs := errors.AsType[*ledger.MismatchError](err)
	switch {
	case header, errors.Is(err, intake.ErrNoRows), errors.Is(err, intake.ErrTooManyBad):
		return newProblem(http.StatusUnprocessableEntity, "bad-input", "%s", err)
	case differs:
		return newProblem(http.StatusUnprocessableEntity, "key-reused",
			"You have used this key for run %[2]s with a different %[1]s. Use a new key for each submission.",
			mismatch.Member, mismatch.Run)
	case hidden:
		return newProblem(http.StatusNotFound, "not-found", "There is no %s %s, or your token does not include it.",
			none.What, untrusted.Value(none.Name))
	case errors.Is(err, ledger.ErrNotFound):
		return newProblem(http.StatusNotFound, "not-found", "The run no longer exists.")
	case errors.Is(err, ledger.ErrReplaced):
		return newProblem(http.StatusConflict, "state",
			"Another request with this Idempotency-Key has begun since, and stores the rows: its answer counts. "+
				"If it has none, repeat the request.").because(err)
	case retried, own, errors.Is(err, intake.ErrNothingToRetry), errors.Is(err, ledger.ErrOpen),
		errors.Is(err, ledger.ErrEnded), errors.Is(err, intake.ErrCancelled):
		return newProblem(http.StatusConflict, "state", "%s", withRemedy(err))
	case room, errors.Is(err, ledger.ErrNoMemory):
		return newProblem(http.StatusInsufficientStorage, "full",
			"Redis has no room for the rows while they wait. Submit fewer rows, or repeat the request when other runs have ended.").because(err).after(time.Minute)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), redisconn.Failed(err),
		errors.Is(err, ledger.ErrLost):
		return storeProblem(err)
	}
	return internal().because(err)
}

// withRemedy returns the text of an error with its remedy, whose commands on runs are requests
// here.
func withRemedy(err error) string {
	with, ok := errors.AsType[*remedy.Error](err)
	if !ok {
		return err.Error()
	}
	return with.Err.Error() + "; " + with.Fix.By(request)
}

// requests are the equivalents of commands on runs.
var requests = map[string]string{
	"runs follow": "GET /v1/runs/%s",
	"runs cancel": "POST /v1/runs/%s/cancel",
	"runs retry":  "POST /v1/runs/%s/retry",
	"runs show":   "GET /v1/runs/%s/failed", // of a caller: the reasons of failed rows
}

// request returns the request that is equivalent to a command, or the command if there is none.
func request(c remedy.Command) string {
	format, ok := requests[c.Name]
	if !ok {
		return c.String()
	}
	text := fmt.Sprintf(format, c.Run)
	if c.New != "" {
		text += " with its Idempotency-Key, and the same body"
	}
	return text
}

func internal() *problem {
	return newProblem(http.StatusInternalServerError, "internal",
		"The server's log has the details under this request's id.")
}

// storeProblem says that Redis failed.
func storeProblem(cause error) *problem {
	return newProblem(http.StatusServiceUnavailable, "store",
		"Repeat the request in a moment; with the same Idempotency-Key this is safe.").because(cause).after(retryAfter)
}

// fail answers with the problem of an error, and adds it to the request's line in the log.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	it := web.Of(r.Context())
	p := problemOf(err)
	it.About = append(it.About, "problem", strings.TrimPrefix(p.Type, typePrefix))
	if p.limit != "" {
		it.About = append(it.About, "limit", p.limit)
		s.metrics.refused.WithLabelValues(p.limit).Inc()
		// net/http reads the rest of a small body before it answers: not for longer than this.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Second))
	}
	if p.cause != nil {
		it.About = append(it.About, "error", p.cause)
	}
	p.write(w, it.ID)
}

// refuse answers a request that the guard refuses.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, why *web.Refusal) { s.fail(w, r, why) }

func refusedBy(why *web.Refusal) *problem {
	names := map[int]string{
		http.StatusUnauthorized: "unauthenticated", http.StatusForbidden: "not-allowed", http.StatusNotFound: "not-found",
		http.StatusMethodNotAllowed: "method-not-allowed", http.StatusServiceUnavailable: "busy",
		http.StatusTooManyRequests: "busy",
	}
	return newProblem(why.Status, cmp.Or(names[why.Status], "internal"), "%s", why.Text).after(why.RetryAfter).
		at(why.Limit)
}

// write answers with the problem.
func (p *problem) write(w http.ResponseWriter, request string) {
	p.Instance = request
	header := w.Header()
	header.Set("Content-Type", "application/problem+json")
	if p.retryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(int(p.retryAfter/time.Second)))
	}
	w.WriteHeader(p.Status)
	writeJSON(w, p)
}

func answerJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	writeJSON(w, v)
}

// writeJSON writes v on a line. Errors are ignored: the client has gone.
func writeJSON(w io.Writer, v any) {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
}
