package httpapi

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"orgops/internal/serving"
)

// about has the facts about a request for its log line and its answer.
type about struct {
	id     string
	caller Caller // without a name: unknown
	run    string
	fault  error // why it was refused; nil: it was not
}

type aboutKey struct{}

func aboutOf(ctx context.Context) *about {
	a, ok := ctx.Value(aboutKey{}).(*about)
	if !ok {
		return &about{}
	}
	return a
}

// callerOf returns the caller of a request that was authenticated.
func callerOf(ctx context.Context) Caller { return aboutOf(ctx).caller }

var requestIDPattern = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// requestID returns the id that the client gave, so that its log and ours match, else a new one.
func requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); requestIDPattern.MatchString(id) {
		return id
	}
	return strings.ToLower(rand.Text())
}

// ServeHTTP answers a request and logs it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.under.Add(1)
	defer s.under.Done()
	start := time.Now()
	it := &about{id: requestID(r)}
	r = r.WithContext(context.WithValue(r.Context(), aboutKey{}, it))
	out := &answer{ResponseWriter: w, rc: http.NewResponseController(w), patience: s.limits.Request}
	header := out.Header()
	header.Set("X-Request-Id", it.id)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	// Handlers of bodies and of event streams set another deadline.
	_ = out.rc.SetReadDeadline(start.Add(s.limits.Request))
	defer func() {
		broken := recover()
		if broken != nil {
			s.panicked(out, r, broken)
		}
		s.logLine(r, it, out, start)
		if broken != nil && out.cut {
			panic(http.ErrAbortHandler)
		}
	}()
	s.admit(out, r)
}

// panicked answers a request whose handler has panicked. If a part of the answer is written,
// or the panic is http.ErrAbortHandler, the connection is cut: the answer is incomplete.
func (s *Server) panicked(out *answer, r *http.Request, broken any) {
	err, _ := broken.(error)
	out.cut = out.status != 0 || errors.Is(err, http.ErrAbortHandler)
	if errors.Is(err, http.ErrAbortHandler) {
		return
	}
	s.log.ErrorContext(r.Context(), "panic", "request_id", aboutOf(r.Context()).id, "panic", fmt.Sprint(broken), "stack", string(debug.Stack()))
	if !out.cut {
		s.fail(out, r, internal())
	}
}

// admit refuses requests beyond the limit, and those of other sites' pages.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/healthz" {
		if !s.requests.TryAcquire(1) {
			s.fail(w, r, busy("requests"))
			return
		}
		defer s.requests.Release(1)
	}
	if s.cfg.Tokens == nil {
		if err := fromHere(r); err != nil {
			s.fail(w, r, err)
			return
		}
	}
	s.mux.ServeHTTP(w, r)
}

func busy(what string) *problem {
	return newProblem(http.StatusServiceUnavailable, "busy", "The server has reached its limit of %s. Try again in a moment.", what).after(retryAfter)
}

// fromHere protects a server without authentication from requests that a page of another
// site has a browser on this machine make: by a name of its own that resolves to this machine,
// or by a form that is sent here.
func fromHere(r *http.Request) error {
	if !serving.IsLocal(serving.Host(r)) {
		return newProblem(http.StatusForbidden, "not-allowed", "Without --tokens the server answers only requests to localhost, not to %s.", shown(r.Host))
	}
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		return newProblem(http.StatusForbidden, "not-allowed", "Without --tokens the server refuses requests from other sites' pages.")
	}
	return nil
}

// fail answers with the problem of an error, which is logged.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	it := aboutOf(r.Context())
	it.fault = err
	problemOf(err).write(w, it.id)
}

// logLine logs a request; of its path only the route, since a client chooses the rest.
func (s *Server) logLine(r *http.Request, it *about, out *answer, start time.Time) {
	level := slog.LevelInfo
	args := []any{
		"request_id", it.id, "method", fmt.Sprintf("%.16s", r.Method), "route", r.Pattern, "status", out.status, "bytes", out.bytes,
		"seconds", time.Since(start).Seconds(), "remote", r.RemoteAddr,
	}
	if it.caller.Name != "" {
		args = append(args, "caller", it.caller.Name)
	}
	if it.run != "" {
		args = append(args, "run", it.run)
	}
	if it.fault != nil {
		p := problemOf(it.fault)
		args = append(args, "problem", strings.TrimPrefix(p.Type, typePrefix))
		if p.cause != nil {
			args = append(args, "error", p.cause)
		}
		if p.Status >= http.StatusInternalServerError {
			level = slog.LevelWarn
		}
	}
	s.log.Log(r.Context(), level, "request", args...)
}

// answer gives a slow client a time for each write, and counts the bytes.
type answer struct {
	http.ResponseWriter
	rc       *http.ResponseController
	patience time.Duration
	status   int
	bytes    int64
	cut      bool // it is incomplete
}

// Unwrap is for [http.ResponseController].
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.wait()
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	a.wait()
	n, err := a.ResponseWriter.Write(p)
	a.bytes += int64(n)
	return n, err
}

// wait sets until when the client has to receive the next write.
func (a *answer) wait() { _ = a.rc.SetWriteDeadline(time.Now().Add(a.patience)) }
