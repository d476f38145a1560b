package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/user"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/activity"
	"orgops/internal/cli"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/redisconn"
	"orgops/internal/tracing"
)

// version and commit are set when a release is built, from sources without their history.
var (
	version = "dev"
	commit  string
)

// build is the version of this program, as the linker or Go has stamped it.
var build = cli.ReadBuild(version, commit)

// tool has the settings and connections that the commands share.
type tool struct {
	cli.Program
	at          redisconn.Config // Redis
	log         *slog.Logger
	connections int              // to Redis; 0: ten per CPU
	traces      *tracing.Tracing // nil: nothing is traced

	// These are set by connect and connectToRead.
	redis  redis.UniversalClient
	ledger *ledger.Ledger
	reads  bool // the command changes nothing
}

// connect opens Redis and makes sure that it answers, and that its ledger is
// one that this version understands. An empty Redis is marked with this version.
func (t *tool) connect(ctx context.Context) error {
	t.reads = false
	return t.openLedger(ctx, (*ledger.Ledger).CheckSchema)
}

// connectToRead is [tool.connect] for commands that change nothing: a user of Redis with
// read access is enough. It does not connect if one of the checks of the arguments has failed.
func (t *tool) connectToRead(ctx context.Context, checks ...error) error {
	if err := errors.Join(checks...); err != nil {
		return cli.Usage(err)
	}
	t.reads = true
	return t.openLedger(ctx, (*ledger.Ledger).ReadSchema)
}

func (t *tool) openLedger(ctx context.Context, check func(*ledger.Ledger, context.Context) error) error {
	if err := t.openRedis(); err != nil {
		return err
	}
	if err := redisconn.Ready(ctx, t.redis); err != nil {
		return err
	}
	t.ledger = ledger.New(t.redis)
	return check(t.ledger, ctx)
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
	i.Traceparent = t.traces.Submission
	i.By = t.author(whoAmI())
	return i
}

// openRedis creates the client, which does not connect yet.
func (t *tool) openRedis() error {
	if t.redis != nil {
		return nil
	}
	t.at.PoolSize = t.connections
	var err error
	t.redis, err = redisconn.Open(t.at)
	if err != nil {
		return cli.Usage(err)
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

// print writes v to stdout: by write as text, or as a line of JSON with --json.
func (t *tool) print(v any, write func(out io.Writer) error) error {
	if t.JSON {
		return t.printJSON(v)
	}
	return write(t.Stdout)
}

func (t *tool) printJSON(v any) error { return cli.WriteJSON(t.Stdout, v) }

// author returns the author of this command's actions. The name is not verified.
func (t *tool) author(name string) activity.Author {
	return activity.Author{Redis: t.redis, Logger: t.log, Name: name, Claimed: true}
}

func whoAmI() string {
	name := "unknown user"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return name + "@" + host
}

// endingReader returns a reader that ends with ctx or by end, also while r waits for a pipe or
// a terminal, which cannot be interrupted: that read is abandoned.
func endingReader(ctx context.Context, r io.Reader) (reader io.Reader, end func()) {
	reads, writes := io.Pipe()
	go func() {
		_, err := io.Copy(writes, r)
		_ = writes.CloseWithError(err) // nil: io.EOF
	}()
	stop := context.AfterFunc(ctx, func() { _ = writes.CloseWithError(ctx.Err()) })
	return reads, func() {
		stop()
		_ = reads.Close()
	}
}
