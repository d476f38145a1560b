package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"time"

	"github.com/alecthomas/kong"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/internal/cli"
	"orgops/internal/intake"
	"orgops/internal/redisconn"
	"orgops/internal/runs"
	"orgops/internal/tracing"
)

// version and commit are set when a release is built.
var (
	version = "dev"
	commit  string
)

// grammar is what can be typed.
type grammar struct {
	RedisURL  string           `name:"redis-url" default:"redis://127.0.0.1:6379/0" placeholder:"URL" help:"Redis of the workers: redis://, rediss://, redis-sentinel:// or redis-cluster://. Its password goes into $$ORGOPS_REDIS_PASSWORD, or a file named by $$ORGOPS_REDIS_PASSWORD_FILE."`
	JSON      bool             `name:"json" noenv:"true" help:"Write JSON instead of text and tables."`
	LogLevel  string           `default:"info" placeholder:"LEVEL" help:"debug, info, warn or error."`
	LogFormat string           `enum:"json,text," default:"" placeholder:"FORMAT" help:"json or text; text on a terminal, json elsewhere."`
	Version   kong.VersionFlag `help:"Say which version this is."`

	OTLPEndpoint string  `name:"otlp-endpoint" placeholder:"URL" help:"Send traces to this OpenTelemetry collector, by OTLP over HTTP, such as http://127.0.0.1:4318. Without it nothing is traced."`
	OTLPRatio    float64 `name:"otlp-ratio" default:"1" placeholder:"N" help:"Share of rows to trace, 0 to 1."`

	Domains struct {
		Verify  verifyCommand  `cmd:"" help:"Prove by DNS that organizations own their discovery domains, and mark those verified."`
		Update  updateCommand  `cmd:"" help:"Set the status, or the use for discovery, of discovery domains."`
		Check   checkCommand   `cmd:"" help:"Ask the DNS now for TXT records, and say what is wrong where they are not there; change nothing."`
		Show    domainCommand  `cmd:"" help:"Show what became of one discovery domain in all runs: its open row, why it is open, and its history."`
		History historyCommand `cmd:"" help:"Show what sweeps have seen of one discovery domain, and what was done to it."`
		Sweep   sweepCommand   `cmd:"" help:"Look at all verified domains once more, now; or say what that would come to, or close the breaker."`
	} `cmd:"" help:"Discovery domains of organizations."`
	Clients struct {
		Remove removeCommand `cmd:"" help:"Remove clients from organizations."`
	} `cmd:"" help:"Clients of organizations."`
	Templates struct {
		Create createCommand `cmd:"" help:"Create verifiable-credential templates."`
	} `cmd:"" help:"Verifiable-credential templates."`
	Evidence struct {
		Export exportCommand `cmd:"" help:"Write the proofs by which domains were verified to stdout, as JSON Lines."`
	} `cmd:"" help:"Proofs by which domains were verified."`
	Runs struct {
		List   listCommand   `cmd:"" help:"List all runs, the newest first."`
		Show   showCommand   `cmd:"" help:"Show one run: its counts, its open rows, and those that did not settle well."`
		Follow followCommand `cmd:"" help:"Show progress until the runs have ended."`
		Pause  pauseCommand  `cmd:"" help:"Let what has not started of a run wait."`
		Resume resumeCommand `cmd:"" help:"Go on with a paused run."`
		Repair repairCommand `cmd:"" help:"Put rows back whose tasks were lost."`
		Cancel cancelCommand `cmd:"" help:"Settle all open rows of a run as cancelled."`
		Delete deleteCommand `cmd:"" help:"Forget a run that has ended."`
		Failed failedCommand `cmd:"" help:"Write the rows that did not settle well to stdout, ready to be handed in again."`
		Retry  retryCommand  `cmd:"" help:"Hand the rows that did not settle well in once more, as a run of their own."`
	} `cmd:"" help:"What was handed in before."`
	cli.Manual
	Serve serveCommand `cmd:"" help:"Take rows in over HTTP, from systems in any language."`
}

// tool is what the commands work with.
type tool struct {
	cli.Program
	json        bool
	redisURL    string
	urlFromArgs bool
	log         *slog.Logger
	connections int              // to Redis; 0: as many as a producer takes
	traces      *tracing.Tracing // nil: nothing is traced

	// Both are there after connect.
	redis  redis.UniversalClient
	ledger *runs.Ledger
}

// run is the command without the process around it.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	t := &tool{Program: cli.Program{
		Name: "enqueue", Description: "Hands rows to the workers and tells what became of them.",
		Args: args, Stdin: stdin, Stdout: stdout, Stderr: stderr, Env: cli.NewEnvironment(environ), Version: cli.ReadBuild(version, commit).String(),
	}}
	var g grammar
	selected, done, err := t.Parse(&g)
	if done {
		return cli.StatusOK
	}
	if err == nil {
		err = t.carryOut(ctx, selected, g)
	}
	return t.Fail(err)
}

func (t *tool) carryOut(ctx context.Context, selected *kong.Context, g grammar) error {
	log, level, err := cli.NewLogger(t.Stderr, g.LogLevel, g.LogFormat)
	if err != nil {
		return err
	}
	asSet := cli.SwitchLevelBySignal(ctx, log, level, signal.Notify, signal.Stop)
	defer asSet()
	t.log, t.json = log, g.JSON
	t.WarnOfMisspeltVariables(log)
	// It has one log for the whole process, and would write to stderr itself.
	redis.SetLogger(cli.RedisLog{Logger: log})
	t.redisURL, t.urlFromArgs = g.RedisURL, cli.Given(selected, "redis-url")
	if err := redisconn.Check(t.redisURL, !t.urlFromArgs); err != nil {
		return cli.Usage(fmt.Errorf("redis-url: %w", err))
	}
	if t.traces, err = tracing.New(ctx, tracing.Config{Endpoint: g.OTLPEndpoint, Ratio: g.OTLPRatio, Service: "orgops-enqueue", Version: version, Logger: log}); err != nil {
		return cli.Usage(err)
	}
	defer t.traces.Close()
	defer t.disconnect()
	selected.BindTo(ctx, (*context.Context)(nil))
	return selected.Run(t)
}

// connections is the most connections to Redis: what the producer enqueues shares
// a few, and what does not go through there is tried again over more.
const connections = 40

// connect opens Redis and makes sure that it answers, and that its ledger is
// one that this version understands.
func (t *tool) connect(ctx context.Context) error {
	if err := t.openRedis(); err != nil {
		return err
	}
	if err := redisconn.Ready(ctx, t.redis); err != nil {
		return err
	}
	t.ledger = runs.New(t.redis)
	return t.ledger.CheckSchema(ctx)
}

// outage is how long Redis may be away while rows are handed in: a restart that
// reads a large AOF, or Sentinels that choose another master, take less.
const outage = 2 * time.Minute

// connectToHandIn connects for what enqueues rows, and outlasts an outage from
// there on.
func (t *tool) connectToHandIn(ctx context.Context) error {
	if err := t.connect(ctx); err != nil {
		return err
	}
	redisconn.Outlast(t.redis, outage, func(err error) {
		t.log.WarnContext(ctx, "Redis is away: trying again", "for", outage, "error", err)
	})
	return nil
}

// intake is what hands rows in; it is there after connect.
func (t *tool) intake() intake.Intake {
	return intake.NewBy(t.traces.Around(asynq.NewClientFromRedisClient(t.redis)), t.redis, t.ledger)
}

// openRedis makes the client, which does not connect yet.
func (t *tool) openRedis() error {
	if t.redis != nil {
		return nil
	}
	password, err := cli.Secret(t.Env.Get, cli.EnvName("redis-password"))
	if err != nil {
		return err
	}
	t.redis, err = redisconn.ForProducer(redisconn.Config{
		URL: t.redisURL, Password: password, AllowURLPassword: !t.urlFromArgs, PoolSize: cmp.Or(t.connections, connections),
	})
	if err != nil {
		return cli.Usage(fmt.Errorf("redis-url: %w", err))
	}
	return nil
}

func (t *tool) disconnect() {
	if t.redis == nil {
		return
	}
	if err := t.redis.Close(); err != nil {
		t.log.Debug("close redis", "error", err)
	}
}

// printJSON writes v to stdout as one line.
func (t *tool) printJSON(v any) error { return writeJSON(t.Stdout, v) }

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
