package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/redis/go-redis/v9"

	"orgops/internal/cli"
	"orgops/internal/redisconn"
	"orgops/internal/tracing"
	"orgops/tasks"
)

type grammar struct {
	redisconn.Flags

	JSON      bool             `name:"json" noenv:"true" help:"Print JSON instead of text and tables."`
	LogLevel  string           `default:"info" placeholder:"LEVEL" help:"Log level: debug, info, warn or error."`
	LogFormat string           `enum:"json,text," default:"" placeholder:"FORMAT" help:"Log format: json or text (default: text; for servers and --json off a terminal: json)."`
	Version   kong.VersionFlag `help:"Print the version and exit."`

	Domains struct {
		Verify       verifyCommand       `cmd:"" help:"${domains_verify}"`
		Update       updateCommand       `cmd:"" help:"${domains_update}"`
		Check        checkCommand        `cmd:"" help:"Check TXT records now and explain each fault; change nothing."`
		Show         domainCommand       `cmd:"" help:"Show a discovery domain: its last row, why it is open, and what sweeps found."`
		History      historyCommand      `cmd:"" help:"Show the results of sweeps for a discovery domain, and its revocations."`
		Instructions instructionsCommand `cmd:"" help:"Print the record for the owner of a domain to publish, with instructions."`
		Link         linkCommand         `cmd:"" help:"Print a link to a page for the customer, or revoke the links to a domain."`
		Sweep        sweepCommand        `cmd:"" help:"${domains_sweep}"`
		Revoke       revokeCommand       `cmd:"" help:"${domains_revoke}"`
	} `cmd:"" help:"Verify, update, check and inspect discovery domains."`
	Clients struct {
		Remove removeCommand `cmd:"" help:"${clients_remove}"`
	} `cmd:"" help:"Remove clients from organizations."`
	Templates struct {
		Create createCommand `cmd:"" help:"${templates_create}"`
	} `cmd:"" help:"Create verifiable-credential templates."`
	Evidence struct {
		Export exportCommand `cmd:"" help:"Write the proofs of verified domains to standard output as JSON Lines."`
	} `cmd:"" help:"Export the proofs of verified domains."`
	Runs struct {
		List    listCommand    `cmd:"" help:"List runs: open ones first, those in trouble before others, then the newest."`
		Show    showCommand    `cmd:"" help:"Show a run: its counts, open rows and failed rows."`
		Results resultsCommand `cmd:"" help:"Write every row with its result to standard output."`
		Follow  followCommand  `cmd:"" help:"Show the progress of runs until they have ended."`
		Pause   pauseCommand   `cmd:"" help:"Pause runs: rows in progress finish, no others start."`
		Resume  resumeCommand  `cmd:"" help:"Resume paused runs."`
		Cancel  cancelCommand  `cmd:"" help:"Cancel runs: settle their open rows as cancelled."`
		Delete  deleteCommand  `cmd:"" help:"Delete a run that has ended."`
		Failed  failedCommand  `cmd:"" help:"Write the failed rows to standard output, ready to be submitted again."`
		Retry   retryCommand   `cmd:"" help:"Submit the failed rows again, as a run of their own."`
	} `cmd:"" help:"Inspect and control runs."`
	Tenant struct {
		Show  tenantShowCommand `cmd:"" help:"Show tenants: their state, open rows, and obstacles with remedies."`
		Stop  stopCommand       `cmd:"" help:"Stop a tenant: send no PATCH, POST or DELETE until it is started again."`
		Start startCommand      `cmd:"" help:"Start a stopped tenant."`

		Deliver deliverCommand `cmd:"" help:"Send the webhook events that wait for an endpoint now."`

		Reassign reassignCommand `cmd:"" help:"Let the name of a tenant stand for another tenant of the platform, or for its new address."`
	} `cmd:"" help:"Show, stop, start and reassign tenants."`
	Activity activityCommand `cmd:"" help:"Print the activity of tenants: actions on runs and domains, with their users."`
	Access   struct {
		New accessCommand `cmd:"" help:"Print a new token, and its entry for the access file."`
	} `cmd:"" help:"Give people and programs access to the pages and the intake."`
	cli.Manual
	Serve        serveCommand `cmd:"" help:"Serve an HTTP API that accepts rows."`
	CustomerPage pageCommand  `cmd:"" help:"Serve the page for customers that the links to domains open."`
}

// labels returns the help of the commands of kinds, by their names: ${domains_verify}.
func labels() kong.Vars {
	vars := kong.Vars{}
	for _, kind := range tasks.All() {
		vars[strings.ReplaceAll(kind.Command, " ", "_")] = kind.Label
	}
	return vars
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	return newTool(args, stdin, stdout, stderr, environ).run(ctx)
}

func newTool(args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) *tool {
	return &tool{Program: cli.Program{
		Name: "enqueue", Description: "Submit rows and track their results.",
		Args: args, Stdin: stdin, Stdout: stdout, Stderr: stderr, Env: cli.NewEnvironment(environ),
		Version: build.String(), Vars: labels(),
	}}
}

// run runs the command that the arguments name, and returns the exit status.
func (t *tool) run(ctx context.Context) int {
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

// logFormat returns the format of the log. The command of a person logs for that person, also in a
// pipe. With --json, and of a server, a program reads the log unless it goes to a terminal.
func logFormat(g grammar, command string) string {
	forPrograms := g.JSON || command == "serve" || command == "customer-page"
	if g.LogFormat == "" && !forPrograms {
		return "text"
	}
	return g.LogFormat
}

func (t *tool) carryOut(ctx context.Context, selected *kong.Context, g grammar) error {
	log, level, err := cli.NewLogger(t.Stderr, g.LogLevel, logFormat(g, selected.Command()))
	if err != nil {
		return err
	}
	asSet := cli.SwitchLevelBySignal(ctx, log, level, signal.Notify, signal.Stop)
	defer asSet()
	t.log = log
	t.JSON = g.JSON
	t.WarnOfVariables(log, true)
	// go-redis has one log for the whole process, and would write to stderr.
	redis.SetLogger(cli.RedisLog{Logger: log})
	password := func() (string, error) { return cli.Secret(t.Env.Get, cli.EnvName("redis-password")) }
	if t.at, err = g.Config(cli.Given(selected, "redis-url"), password); err != nil {
		return cli.Usage(err)
	}
	if t.traces, err = tracing.New(ctx, os.Getenv, "orgops-enqueue", build.Version, log); err != nil {
		return cli.Usage(err)
	}
	defer t.traces.Close()
	defer t.disconnect()
	selected.BindTo(ctx, (*context.Context)(nil))
	return t.refused(selected.Command(), selected.Run(t))
}
