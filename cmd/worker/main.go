package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"orgops/internal/cli"
	"orgops/internal/engine"
	"orgops/internal/redisconn"
	"orgops/internal/tenant"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once, like a crash
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}

type grammar struct {
	Work    settings       `cmd:"" default:"withargs" help:"Process tasks (the default command)."`
	Sandbox sandboxCommand `cmd:"" help:"Serve a sandbox tenant and its DNS, without a worker, and print the settings to connect to them."`
	Doctor  doctorCommand  `cmd:"" help:"Test Redis, credentials, API and resolvers with these settings, and print each fault with its remedy. Exit status 1 if anything is wrong."`
	cli.Manual
	Version kong.VersionFlag `help:"Print the version and exit." noenv:"true"`
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	p := cli.Program{
		Name: "worker", Description: "Process bulk operations on an identity platform's Management API.",
		Args: args, Stdin: stdin, Stdout: stdout, Stderr: stderr, Env: cli.NewEnvironment(environ),
		Version: build.String(),
	}
	var g grammar
	selected, done, err := p.Parse(&g)
	if done && len(args) == 1 && (args[0] == "--help" || args[0] == "-h") {
		// The default command is work, so its flags are shown too.
		fmt.Fprintln(stdout)
		p.Args = []string{"work", "--help"}
		_, _, err = p.Parse(&g)
	}
	if err != nil || done {
		return p.Fail(err)
	}
	g.Work.origin = originOf(selected, g.Work.Config)
	g.Doctor.origin = originOf(selected, g.Doctor.Config)
	switch selected.Command() {
	case "sandbox":
		err = g.Sandbox.run(ctx, p)
	case "doctor":
		if err = checkTogether(selected, g.Doctor.systems, false); err == nil {
			err = g.Doctor.run(ctx, p)
		}
	case "work":
		if err = checkTogether(selected, g.Work.systems, g.Work.Sandbox); err == nil {
			err = g.Work.run(ctx, p)
		}
	default:
		err = selected.Run()
	}
	return p.Fail(err)
}

func (s settings) run(ctx context.Context, p cli.Program) error {
	if s.Sandbox {
		return workInSandbox(ctx, p, s)
	}

	// The settings. A file of them that is missing is awaited.
	logger, level, err := cli.NewLogger(p.Stderr, s.LogLevel, s.LogFormat)
	if err != nil {
		return err
	}
	read := func() ([]tenant.Settings, string, error) { return s.tenants(p.Env.Get) }
	var content string
	var tenants []tenant.Settings
	var redis redisconn.Config
	err = s.awaitFiles(ctx, logger, func() (err error) {
		if tenants, content, err = read(); err != nil {
			return err
		}
		redis, err = s.redis(p)
		return err
	})
	if err != nil {
		return stopped(ctx, err)
	}
	if err := s.check(); err != nil {
		return err
	}
	p.WarnOfVariables(logger, false)
	if len(s.ignored) > 0 {
		logger.WarnContext(ctx, "variables of the environment ignored: with --config, the tenants' settings are in its file",
			"file", s.Config, "variables", s.ignored)
	}
	if s.CheckConfig {
		s.print(p.Stdout, tenants, redis)
		return nil
	}

	// The worker. SIGHUP has it read its file of tenants at once.
	asSet := cli.SwitchLevelBySignal(ctx, logger, level, signal.Notify, signal.Stop)
	defer asSet()
	w, err := newWorker(ctx, s, redis, logger)
	if err != nil {
		return err
	}
	defer w.close()
	if s.Config != "" {
		hangups := make(chan os.Signal, 1)
		signal.Notify(hangups, syscall.SIGHUP)
		defer signal.Stop(hangups)
		w.file = &settingsFile{path: s.Config, read: read, content: content, hangups: hangups, every: readFileEvery}
	}

	// It runs until a signal stops it or, with --drain, until all runs have ended.
	return w.work(ctx, tenants, func(ctx context.Context) error {
		if s.Drain {
			return w.drained(ctx)
		}
		<-ctx.Done()
		return nil
	})
}

// fileAgain is how long a worker waits before it reads settings again of which a file is missing.
const fileAgain = 5 * time.Second

// awaitFiles reads the settings, and again while a file that they name is missing: an
// orchestrator may write secrets after the start of a worker, and may not restart one that has
// ended. The file of the settings itself has to exist, and a worker that only checks its
// settings, or ends by itself, does not wait.
func (s settings) awaitFiles(ctx context.Context, logger *slog.Logger, read func() error) error {
	for {
		err := read()
		if !errors.Is(err, fs.ErrNotExist) || s.CheckConfig || s.Drain {
			return err
		}
		if _, missing := os.Stat(s.Config); s.Config != "" && missing != nil {
			return err
		}
		logger.ErrorContext(ctx, "waiting for a file that the settings name", "error", err, "again_in", fileAgain)
		if err := engine.Sleep(ctx, fileAgain); err != nil {
			return err
		}
	}
}
