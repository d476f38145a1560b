package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"time"

	"github.com/alecthomas/kong"
	"github.com/redis/go-redis/v9"

	"orgops/internal/cli"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/redisconn"
	"orgops/internal/runs"
	"orgops/internal/tracing"
)

// version and commit are set when a release is built.
var (
	version = "dev"
	commit  string
)

// grammar is the commands and their flags.
type grammar struct {
	RedisURL  string           `name:"redis-url" default:"redis://127.0.0.1:6379/0" placeholder:"URL" help:"Redis of the workers: redis://, rediss://, redis-sentinel:// or redis-cluster://. Set its password in $$ORGOPS_REDIS_PASSWORD or in a file named by $$ORGOPS_REDIS_PASSWORD_FILE."`
	JSON      bool             `name:"json" noenv:"true" help:"Print JSON instead of text and tables."`
	LogLevel  string           `default:"info" placeholder:"LEVEL" help:"Log level: debug, info, warn or error."`
	LogFormat string           `enum:"json,text," default:"" placeholder:"FORMAT" help:"Log format: json or text (default: text on a terminal, else json)."`
	Version   kong.VersionFlag `help:"Print the version and exit."`

	OTLPEndpoint string  `name:"otlp-endpoint" placeholder:"URL" help:"Send traces to this OpenTelemetry collector by OTLP over HTTP, such as http://127.0.0.1:4318 (default: no tracing)."`
	OTLPRatio    float64 `name:"otlp-ratio" default:"1" placeholder:"N" help:"Fraction of rows to trace, 0 to 1."`

	Domains struct {
		Verify  verifyCommand  `cmd:"" help:"Prove by DNS that organizations own their discovery domains, and set them to verified."`
		Update  updateCommand  `cmd:"" help:"Set the status or use_for_organization_discovery of discovery domains."`
		Check   checkCommand   `cmd:"" help:"Check TXT records now and explain each fault; change nothing."`
		Show    domainCommand  `cmd:"" help:"Show a discovery domain: its rows in all runs, why one is open, and what sweeps found."`
		History historyCommand `cmd:"" help:"Show the results of sweeps for a discovery domain, and their changes to it."`
		Sweep   sweepCommand   `cmd:"" help:"Check all verified domains again now, preview that, or confirm a sweep that was held back."`
	} `cmd:"" help:"Verify, update, check and inspect discovery domains."`
	Clients struct {
		Remove removeCommand `cmd:"" help:"Remove client associations from organizations."`
	} `cmd:"" help:"Remove clients from organizations."`
	Templates struct {
		Create createCommand `cmd:"" help:"Create verifiable-credential templates, each exactly once."`
	} `cmd:"" help:"Create verifiable-credential templates."`
	Evidence struct {
		Export exportCommand `cmd:"" help:"Write the proofs of verified domains to standard output as JSON Lines."`
	} `cmd:"" help:"Export the proofs of verified domains."`
	Runs struct {
		List   listCommand   `cmd:"" help:"List runs, newest first."`
		Show   showCommand   `cmd:"" help:"Show a run: its counts, open rows and failed rows."`
		Follow followCommand `cmd:"" help:"Show the progress of runs until they have ended."`
		Pause  pauseCommand  `cmd:"" help:"Pause a run: rows in progress finish, no others start."`
		Resume resumeCommand `cmd:"" help:"Resume a paused run."`
		Cancel cancelCommand `cmd:"" help:"Cancel a run: settle its open rows as cancelled."`
		Delete deleteCommand `cmd:"" help:"Delete a run that has ended."`
		Failed failedCommand `cmd:"" help:"Write the failed rows to standard output, ready to be submitted again."`
		Retry  retryCommand  `cmd:"" help:"Submit the failed rows again, as a run of their own."`
	} `cmd:"" help:"Inspect and control runs."`
	Tenant struct {
		Stop  stopCommand  `cmd:"" help:"Stop a tenant: send no PATCH, POST or DELETE until it is started again."`
		Start startCommand `cmd:"" help:"Start a stopped tenant."`
	} `cmd:"" help:"Stop and start tenants."`
	cli.Manual
	Serve serveCommand `cmd:"" help:"Serve an HTTP API that accepts rows."`
}

// tool has the settings and connections that the commands share.
type tool struct {
	cli.Program
	json        bool
	redisURL    string
	urlFromArgs bool
	log         *slog.Logger
	connections int              // to Redis; 0: ten per CPU
	traces      *tracing.Tracing // nil: nothing is traced

	// Both are set by connect and connectToRead.
	redis  redis.UniversalClient
	ledger *runs.Ledger
}

// run is the command without the process around it.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	t := &tool{Program: cli.Program{
		Name: "enqueue", Description: "Submit rows and track their results.",
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
	// go-redis has one log for the whole process, and would write to stderr.
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

// connect opens Redis and makes sure that it answers, and that its ledger is
// one that this version understands. An empty Redis is marked with this version.
func (t *tool) connect(ctx context.Context) error {
	return t.openLedger(ctx, (*ledger.Ledger).CheckSchema)
}

// connectToRead is [tool.connect] for commands that change nothing: a user of Redis with
// read access is enough.
func (t *tool) connectToRead(ctx context.Context) error {
	return t.openLedger(ctx, (*ledger.Ledger).ReadSchema)
}

// readRun connects to read, and returns the run of that id.
func (t *tool) readRun(ctx context.Context, id string) (ledger.Run, error) {
	if err := t.connectToRead(ctx); err != nil {
		return ledger.Run{}, err
	}
	return t.ledger.Get(ctx, ledger.RunID(id))
}

func (t *tool) openLedger(ctx context.Context, check func(*ledger.Ledger, context.Context) error) error {
	if err := t.openRedis(); err != nil {
		return err
	}
	if err := redisconn.Ready(ctx, t.redis); err != nil {
		return err
	}
	t.ledger = runs.New(t.redis)
	return check(t.ledger.Core(), ctx)
}

// outage is how long Redis may be unavailable while rows are submitted: a restart that reads a
// large AOF, and a failover by Sentinels, take less.
const outage = 2 * time.Minute

// connectToSubmit connects to submit rows. From then on commands are retried during an outage.
func (t *tool) connectToSubmit(ctx context.Context) error {
	if err := t.connect(ctx); err != nil {
		return err
	}
	redisconn.Retry(t.redis, outage, func(err error) {
		t.log.WarnContext(ctx, "Redis unavailable: retrying", "for", outage, "error", err)
	})
	return nil
}

// intake returns the intake. Call it after connect.
func (t *tool) intake() intake.Intake {
	i := intake.New(t.redis, t.ledger)
	i.Traceparent = t.submission
	return i
}

// submission returns the W3C traceparent of a span for a submission, to which the
// executions of its rows link.
func (t *tool) submission(ctx context.Context) string {
	ctx, end := t.traces.Begin(ctx, "submit")
	defer end(nil)
	return t.traces.Traceparent(ctx)
}

// openRedis creates the client, which does not connect yet.
func (t *tool) openRedis() error {
	if t.redis != nil {
		return nil
	}
	password, err := cli.Secret(t.Env.Get, cli.EnvName("redis-password"))
	if err != nil {
		return err
	}
	t.redis, err = redisconn.Open(redisconn.Config{
		URL: t.redisURL, Password: password, AllowURLPassword: !t.urlFromArgs, PoolSize: t.connections,
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
func (t *tool) printJSON(v any) error { return cli.WriteJSON(t.Stdout, v) }
