package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/semaphore"

	"orgops/internal/intake"
	"orgops/internal/runs"
)

// Config has the dependencies and settings of a server.
type Config struct {
	Redis  redis.UniversalClient
	Ledger *runs.Ledger
	Intake intake.Intake
	// Tokens are the callers; nil: every client may call. Then only requests that name this
	// machine as their host are answered, so that no page of another site can
	// have a browser here make them.
	Tokens *Tokens
	Limits Limits
	// Trace returns the context of a submission whose request has that header traceparent
	// (W3C Trace Context), whatever is in it. nil: the header is ignored.
	Trace func(ctx context.Context, traceparent string) context.Context
	// Version is reported by /healthz.
	Version string
	Logger  *slog.Logger // nil: nothing is logged
}

// Limits bound the resources that clients use. A zero means the default.
type Limits struct {
	MaxBytes int64 // of a body, and of what its gzip expands to; 256 MB
	MaxRows  int64 // of a submission; a million

	Uploads  int // submissions under way at a time, bodies and retries; 16
	Requests int // at a time, bodies and event streams among them; 256
	Streams  int // event streams at a time; 128

	Request time.Duration // for a request that submits nothing, and for each write of an answer; 30 s
	Idle    time.Duration // for the next bytes of a body; 30 s
	Upload  time.Duration // for a body, of which rows are stored meanwhile, and for a retry; 30 min
	Stop    time.Duration // for requests under way when the server stops; 25 s

	Poll      time.Duration // between two reads of a run that is followed; 1 s
	Heartbeat time.Duration // between comments in a silent event stream; 15 s
}

// Connections returns how many connections to Redis a server with these limits should have.
// A submission stores its rows over one, and reads back eight segments at a time when it
// commits them. The other requests share sixteen. A command waits for a connection if none
// is free, which takes milliseconds.
func (l Limits) Connections() int {
	const each, others = 4, 16
	return each*l.withDefaults().Uploads + others
}

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute // between requests of a connection
	maxHeader     = 16 << 10
)

func (l Limits) withDefaults() Limits {
	return Limits{
		MaxBytes: cmp.Or(l.MaxBytes, 256<<20), MaxRows: cmp.Or(l.MaxRows, 1_000_000),
		Uploads: cmp.Or(l.Uploads, 16), Requests: cmp.Or(l.Requests, 256), Streams: cmp.Or(l.Streams, 128),
		Request: cmp.Or(l.Request, 30*time.Second), Idle: cmp.Or(l.Idle, 30*time.Second),
		Upload: cmp.Or(l.Upload, 30*time.Minute), Stop: cmp.Or(l.Stop, 25*time.Second),
		Poll: cmp.Or(l.Poll, time.Second), Heartbeat: cmp.Or(l.Heartbeat, 15*time.Second),
	}
}

// Server is the intake over HTTP.
type Server struct {
	cfg    Config
	limits Limits
	log    *slog.Logger
	mux    *http.ServeMux

	requests, uploads, streams *semaphore.Weighted

	stopping chan struct{}  // closed when the server begins to stop: event streams end
	under    sync.WaitGroup // requests under way
}

// New returns a server, which is for one [Server.Run].
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, limits: cfg.Limits.withDefaults(), log: cfg.Logger, stopping: make(chan struct{})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.requests = semaphore.NewWeighted(int64(s.limits.Requests))
	s.uploads = semaphore.NewWeighted(int64(s.limits.Uploads))
	s.streams = semaphore.NewWeighted(int64(s.limits.Streams))
	s.mux = s.routes()
	return s
}

// Run serves on the listener. When ctx ends it lets the requests under way finish, for a
// time. It returns when no request is under way: submissions that were cut off have deleted
// their staged rows.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	err := s.serve(ctx, listener)
	s.under.Wait()
	return err
}

func (s *Server) serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // broken handshakes and the like
		// The signal does not cancel requests under way.
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		close(s.stopping)
		return errors.Join(fmt.Errorf("serve: %w", err), server.Close())
	case <-ctx.Done():
	}
	close(s.stopping)
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.limits.Stop)
	defer cancel()
	err := server.Shutdown(patience)
	if err != nil {
		s.log.WarnContext(ctx, "requests interrupted by the shutdown", "after", s.limits.Stop)
		err = server.Close()
	}
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
