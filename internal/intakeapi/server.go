package intakeapi

import (
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

// Config is what a server works with.
type Config struct {
	Redis  redis.UniversalClient
	Ledger *runs.Ledger
	Intake intake.Intake
	// Tokens are who may ask; nil: anybody may. Then only requests that name this
	// machine as their host are answered, so that no page of another site can
	// have a browser here make them.
	Tokens *Tokens
	// Spool is the directory of what is received; empty: DefaultSpool.
	Spool  string
	Limits Limits
	// Trace returns the context for submitting what came with that header traceparent
	// (W3C Trace Context), whatever is in it. nil: it is not looked at.
	Trace func(ctx context.Context, traceparent string) context.Context
	// Version is told by /healthz.
	Version string
	Logger  *slog.Logger // nil: nobody is told
}

// Limits bound what clients can take. A zero means the default.
type Limits struct {
	MaxBytes int64 // of a body, and of what its gzip expands to; 256 MB
	MaxRows  int64 // of a submission; a million

	Uploads  int // bodies received at a time; 16
	Requests int // at a time, bodies and event streams among them; 256
	Streams  int // event streams at a time; 128
	Pending  int // submissions received and not submitted; 1000

	Request time.Duration // for a request without a body, and for each write of an answer; 30 s
	Idle    time.Duration // for the next bytes of a body; 30 s
	Upload  time.Duration // for a body, and the check of its rows; 30 min
	Stop    time.Duration // for requests under way when the server stops; 25 s

	Look      time.Duration // between looks at a run that is followed; 1 s
	Heartbeat time.Duration // between comments in a silent event stream; 15 s
	Again     time.Duration // before a submission that failed is tried again, doubled up to a minute; 1 s
}

// Others on the machine's processors: a check reads and hashes as fast as it
// can, and a submission keeps 32 connections to Redis busy.
const (
	checksAtOnce  = 2
	handInsAtOnce = 2
)

// Connections is how many connections to Redis a server uses at a time.
const Connections = handInsAtOnce*32 + 16

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute // between requests of a connection
	maxHeader     = 16 << 10
)

func (l Limits) withDefaults() Limits {
	set(&l.MaxBytes, 256<<20)
	set(&l.MaxRows, 1_000_000)
	set(&l.Uploads, 16)
	set(&l.Requests, 256)
	set(&l.Streams, 128)
	set(&l.Pending, 1000)
	set(&l.Request, 30*time.Second)
	set(&l.Idle, 30*time.Second)
	set(&l.Upload, 30*time.Minute)
	set(&l.Stop, 25*time.Second)
	set(&l.Look, time.Second)
	set(&l.Heartbeat, 15*time.Second)
	set(&l.Again, time.Second)
	return l
}

func set[T int | int64 | time.Duration](limit *T, otherwise T) {
	if *limit == 0 {
		*limit = otherwise
	}
}

// Server is the intake over HTTP.
type Server struct {
	cfg    Config
	limits Limits
	log    *slog.Logger
	spool  *spool
	left   []*job // by an earlier server on the same spool
	mux    *http.ServeMux

	requests, uploads, streams *semaphore.Weighted
	checks, handIns            *semaphore.Weighted

	work  context.Context // of submissions and event streams; ends when the server begins to stop
	stop  context.CancelFunc
	under sync.WaitGroup // requests under way

	jobs    sync.WaitGroup
	mu      sync.Mutex
	pending map[string]*job // by run: received, and not submitted whole
}

// New opens the spool. A server is for one [Server.Run].
func New(cfg Config) (*Server, error) {
	s := &Server{
		cfg: cfg, limits: cfg.Limits.withDefaults(), log: cfg.Logger,
		pending: map[string]*job{},
		checks:  semaphore.NewWeighted(checksAtOnce), handIns: semaphore.NewWeighted(handInsAtOnce),
	}
	s.work, s.stop = context.WithCancel(context.Background())
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.requests = semaphore.NewWeighted(int64(s.limits.Requests))
	s.uploads = semaphore.NewWeighted(int64(s.limits.Uploads))
	s.streams = semaphore.NewWeighted(int64(s.limits.Streams))
	s.mux = s.routes()
	dir := cfg.Spool
	if dir == "" {
		dir = DefaultSpool()
	}
	var err error
	if s.spool, err = openSpool(dir); err != nil {
		return nil, err
	}
	if s.left, err = s.spool.jobs(s.log); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Run serves on the listener, and first of all goes on with what an earlier
// server on the same spool has left. When ctx ends it lets the requests under
// way finish, for a time, and leaves what is not submitted to the next one.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	for _, j := range s.left {
		s.log.InfoContext(ctx, "submission from the spool resumed", "run", j.Run, "caller", j.Caller)
		s.start(j)
	}
	err := s.serve(ctx, listener)
	s.under.Wait()
	s.jobs.Wait()
	return errors.Join(err, s.Close())
}

func (s *Server) serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // handshakes that strangers broke off, and the like
		// Requests under way outlive the signal.
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		s.stop()
		return errors.Join(fmt.Errorf("serve: %w", err), server.Close())
	case <-ctx.Done():
	}
	s.stop()
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

// Close gives the spool back, of a server that is not run.
func (s *Server) Close() error {
	s.stop()
	return s.spool.close()
}
