package httpapi

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"orgops/internal/customer"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/view"
	"orgops/internal/web"
)

// Config has the dependencies and settings of a server.
type Config struct {
	// Redis, Ledger and Intake are those of [view.Config].
	Redis  redis.Cmdable
	Ledger *ledger.Ledger
	Intake intake.Intake
	// Access has the callers; nil: every client may call. Then only requests that name this
	// machine as their host are answered, so that no page of another site can
	// have a browser here make them.
	Access *web.Access
	Links  *customer.Links // to the page for customers; nil: none are made
	Limits Limits
	// Trace returns the context of a submission whose request has that header traceparent
	// (W3C Trace Context), whatever is in it. nil: the header is ignored.
	Trace func(ctx context.Context, traceparent string) context.Context
	// Registry has the metrics; nil: there are none.
	Registry prometheus.Registerer
	// Version is reported by /healthz.
	Version string
	Logger  *slog.Logger // nil: nothing is logged
}

// Limits bound the resources that clients use. A zero means the default. Of the uploads, requests,
// streams and downloads one caller gets a part, and some are reserved for callers that have none:
// see [web.Places].
type Limits struct {
	MaxBytes int64 // of a body, and of what its gzip expands to; 256 MB
	MaxRows  int64 // of a submission; a million

	Uploads  int // submissions under way at a time, bodies and retries; 16
	Requests int // at a time, bodies and event streams among them; 256
	Streams  int // event streams at a time; 128
	// Downloads are lists of rows at a time, each of which may be all rows of a run; 32.
	Downloads int

	Request time.Duration // for a request that submits nothing, and for each write of an answer; 30 s
	Idle    time.Duration // for the next bytes of a body, and for those of a slower one than 10 KiB/s; 30 s
	Upload  time.Duration // for a body, of which rows are stored meanwhile, and for a retry; 30 min
	// Slow is for how long the server has waited for a body that may be ended for another caller; 10
	// s.
	Slow time.Duration

	Poll      time.Duration // between two reads of a run that is followed; 1 s
	Heartbeat time.Duration // between comments in a silent event stream; 15 s
}

// heldBodies is how many bodies of the largest size all uploads in progress may hold in Redis: no
// caller fills it with rows that are never committed, and half of them are two such bodies.
const heldBodies = 4

// Connections returns how many connections to Redis a server with these limits should have.
// A submission stores its rows over one, and reads back eight segments at a time when it
// commits them. The other requests share sixteen. A command waits for a connection if none
// is free, which takes milliseconds.
func (l Limits) Connections() int {
	const each, others = 4, 16
	return each*l.withDefaults().Uploads + others
}

func (l Limits) withDefaults() Limits {
	return Limits{
		MaxBytes: cmp.Or(l.MaxBytes, 256<<20), MaxRows: cmp.Or(l.MaxRows, 1_000_000),
		Uploads: cmp.Or(l.Uploads, 16), Requests: cmp.Or(l.Requests, 256), Streams: cmp.Or(l.Streams, 128),
		Request: cmp.Or(l.Request, 30*time.Second), Idle: cmp.Or(l.Idle, 30*time.Second),
		Downloads: cmp.Or(l.Downloads, 32),
		Upload:    cmp.Or(l.Upload, 30*time.Minute), Slow: cmp.Or(l.Slow, 10*time.Second),
		Poll: cmp.Or(l.Poll, time.Second), Heartbeat: cmp.Or(l.Heartbeat, 15*time.Second),
	}
}

// Server is the intake over HTTP. Its handlers read and change data through the caller's view.
type Server struct {
	views   *view.Store
	daily   dailyRows
	links   *customer.Links // nil: none are made
	trace   func(ctx context.Context, traceparent string) context.Context
	version string
	limits  Limits
	log     *slog.Logger

	uploads   *web.Places
	arriving  arriving
	streams   *web.Places
	downloads *web.Places
	bytes     *web.Places // of rows that are stored and not committed; an upper bound, as Redis has them compressed
	metrics   metrics
}

// view returns the view of the caller of a request.
func (s *Server) view(ctx context.Context) view.View { return s.views.For(callerOf(ctx)) }

// callerOf returns the caller of a request.
func callerOf(ctx context.Context) web.User { return web.Of(ctx).User }

// New returns the handler of the intake.
func New(cfg Config) http.Handler {
	s := &Server{daily: dailyRows{cfg.Redis}, links: cfg.Links, trace: cfg.Trace, version: cfg.Version,
		limits: cfg.Limits.withDefaults(), log: cfg.Logger, metrics: newMetrics(cfg.Registry)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.views = view.NewStore(view.Config{Redis: cfg.Redis, Ledger: cfg.Ledger, Intake: cfg.Intake, Logger: s.log})
	s.bytes = web.NewAmount("bytes", int(heldBodies*s.limits.MaxBytes))
	s.uploads = web.NewPlaces("uploads", s.limits.Uploads)
	s.streams = web.NewPlaces("streams", s.limits.Streams)
	s.downloads = web.NewPlaces("downloads", s.limits.Downloads)
	front := web.Front{
		Routes: s.routes(), Access: cfg.Access, Unsigned: web.Submitter,
		Limit: s.limits.Requests, Patience: s.limits.Request, Refuse: s.refuse, Answered: s.metrics.answered, Logger: s.log,
	}
	return front.Handler()
}
