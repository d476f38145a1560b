package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"time"

	"orgops/dnscheck"
	"orgops/internal/cli"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/redisconn"
	"orgops/internal/sandbox"
	"orgops/internal/scan/progress"
	"orgops/internal/status"
	"orgops/internal/sweep"
	"orgops/internal/sweep/schedule"
	"orgops/internal/tenant"
	"orgops/internal/terminal"
	"orgops/tasks"
)

// The sandbox without flags.
const (
	sandboxRate   = 50 // requests per second, of the tenant's bucket
	sandboxRedis  = "127.0.0.1:16379"
	sandboxAPI    = "127.0.0.1:16380"
	sandboxGiveUp = 25 * time.Second
	// sandboxNegativeTTL is short, so that a record that appears late is found soon.
	sandboxNegativeTTL = time.Second
)

// workInSandbox works for a tenant inside the process, and submits a sample of each kind of run.
func workInSandbox(ctx context.Context, p cli.Program, s settings) error {
	if s.LogLevel == defaultLogLevel {
		s.LogLevel = "error" // so that the log does not hide the progress; the results are printed at the end
	}
	logger, level, err := cli.NewLogger(p.Stderr, s.LogLevel, s.LogFormat)
	if err != nil {
		return err
	}
	asSet := cli.SwitchLevelBySignal(ctx, logger, level, signal.Notify, signal.Stop)
	defer asSet()
	options := sandbox.Options{APIAddr: sandboxAPI, RedisAddr: sandboxRedis, Rate: sandboxRate, Burst: sandboxRate,
		NegativeTTL: sandboxNegativeTTL, Logger: logger}
	if s.Drain {
		// No pages are opened and no command connects, so no fixed address has to be free.
		options.APIAddr = ""
		options.RedisAddr = "127.0.0.1:0"
		s.HTTPAddr = off
		s.ProbeAddr = off
	}
	if err := s.check(); err != nil {
		return err
	}
	box, err := sandbox.Start(options)
	if err != nil {
		return err
	}
	t := sandboxTenant(box)
	if err := t.Complete(func(string) string { return box.ClientSecret() }); err != nil {
		return errors.Join(err, box.Close())
	}
	w, err := newWorker(ctx, s, redisconn.Config{URL: box.RedisURL()}, logger)
	if err != nil {
		return errors.Join(err, box.Close())
	}
	defer w.close()
	if !s.Drain {
		defer fmt.Fprintln(p.Stderr, "The sandbox has ended. It was all in memory; nothing is left.")
	}
	err = w.work(ctx, []tenant.Settings{t}, func(ctx context.Context) error {
		return w.showSample(ctx, p, box)
	})
	return errors.Join(err, box.Close())
}

func sandboxTenant(box *sandbox.Sandbox) tenant.Settings {
	t := tenant.Default()
	t.BaseURL = box.BaseURL()
	t.AuthURL = box.AuthURL()
	t.ClientID = box.ClientID()
	t.ClientSecretEnv = "the sandbox's"
	t.Rate = fmt.Sprintf("%d/s", sandboxRate)
	t.Burst = sandboxRate
	t.GiveUp = cli.Duration(sandboxGiveUp)
	t.Resolvers = box.DNSAddrs()
	t.DNSMode = dnscheck.ModeResolvers.String() // its zone has no name servers
	return t
}

// showSample submits the sample and shows its progress and results. Then it waits for the end of
// ctx, unless the worker drains.
func (w *worker) showSample(ctx context.Context, p cli.Program, box *sandbox.Sandbox) error {
	fmt.Fprintf(p.Stderr, sandboxIntroduction, box.BaseURL(), box.DNSAddr(), box.RedisURL())
	if !w.settings.Drain {
		fmt.Fprintf(p.Stderr, sandboxPages, w.settings.HTTPAddr, box.RedisURL())
	}
	sample := box.Seed()
	ids, err := w.submitSample(ctx, sample)
	if err != nil {
		return fmt.Errorf("submit the sample: %w", err)
	}
	all, err := terminal.Follow(ctx, w.redis, tasks.DefaultTenant, ids, p.Stderr, cli.IsTerminal(p.Stderr))
	if err != nil {
		return err
	}
	if err := terminal.WriteRuns(p.Stdout, status.RunsOf(all)); err != nil {
		return err
	}
	const most = 100 // failed rows of a run
	for _, r := range all {
		if err := terminal.WriteFailedByReason(ctx, p.Stdout, w.ledger, r, most, expectedIn(box)); err != nil {
			return err
		}
	}
	if w.settings.Drain {
		if err := w.drained(ctx); err != nil {
			return err
		}
	}
	if err := w.reportSwept(ctx, p.Stdout, sample.Swept); err != nil {
		return err
	}
	if w.settings.Drain {
		_, err := fmt.Fprintf(p.Stderr, sandboxNext, defaultHTTPAddr)
		return err
	}
	fmt.Fprintf(p.Stderr,
		"\nThe sample runs have ended. The worker keeps running, with its pages at http://%s/; stop it with Ctrl-C.\n",
		w.settings.HTTPAddr)
	<-ctx.Done()
	return nil
}

// Texts of the sandbox at its start and end.
const (
	sandboxIntroduction = `This is a sandbox, all in memory: an identity platform's Management API at %s,
a DNS server at %s, and Redis at %s. Nothing else is queried or changed.

Four sample runs start now and take about half a minute:
  sample-domains    prove 200 discovery domains by DNS and set them to verified; for 20 the record is missing or wrong
  sample-clients    remove 230 client associations from organizations, in batches
  sample-templates  create 25 verifiable-credential templates, each exactly once
  sample-sweep      check four verified domains again

`
	sandboxPages = `Pages: http://%s/ (runs, domains, tenants, queues). From another shell:
  go run ./cmd/enqueue --redis-url %s runs list

`
	sandboxNext = `
Next: run it without --drain. It keeps running then, with its pages at http://%s/ (why did a row fail? what is a
domain waiting for?), and takes rows from go run ./cmd/enqueue: docs/tutorial.md has the commands.
`
)

// expectedIn returns the record that the row of a domain expects in the sandbox's DNS.
func expectedIn(box *sandbox.Sandbox) func(status.Row) string {
	return func(row status.Row) string {
		domain, ok := box.Domain(row.Organization, row.Domain)
		if !ok {
			return ""
		}
		return fmt.Sprintf("%s TXT %q", domain.Host, domain.TXT)
	}
}

// reportSwept writes the state that the sample's sweep has stored of each domain.
func (w *worker) reportSwept(ctx context.Context, out io.Writer, swept []sandbox.SweptDomain) error {
	fmt.Fprintf(out, "\nrun %s (%s), what each domain's next sweep goes by:\n", sampleSweep, tasks.TypeRecheck)
	for _, d := range swept {
		r, ok, err := status.SweptDomainOf(ctx, w.redis, tasks.DefaultTenant, d.Domain)
		if err != nil {
			return err
		}
		if ok {
			fmt.Fprintf(out, "  %s (%s %s): %s\n", status.Shown(r.Domain), d.Organization, d.Domain, r.Brief())
		}
	}
	return nil
}

// sampleSweep is the sample's sweep, of one organization.
const sampleSweep = "sample-sweep"

func (w *worker) submitSample(ctx context.Context, sample sandbox.Sample) (ids []string, err error) {
	in := w.intake()
	for _, one := range []struct {
		id, kind string
		rows     []byte
	}{
		{"sample-domains", tasks.TypeVerify, sample.Domains},
		{"sample-clients", tasks.TypeRemove, sample.Clients},
		{"sample-templates", tasks.TypeCreate, sample.Templates},
	} {
		input := intake.Input{Name: one.id, Kind: one.kind, Rows: bytes.NewReader(one.rows)}
		_, err := in.Submit(ctx, input, ledger.NewRun{ID: ledger.RunID(one.id), Tenant: tasks.DefaultTenant,
			Description: ledger.Description{Label: "the sandbox's sample"}})
		if err != nil {
			return nil, err
		}
		ids = append(ids, one.id)
	}
	sampleRun := ledger.NewRun{ID: sampleSweep, Tenant: tasks.DefaultTenant,
		Description: ledger.Description{Label: "the sandbox's sample"}}
	run, _, err := schedule.Now(ctx, in, sweep.NewStore(w.redis, tasks.DefaultTenant), sampleRun,
		progress.Scan{Organization: sample.Swept[0].Organization})
	return append(ids, string(run.ID)), err
}

// sandboxCommand serves a tenant and its DNS without a worker.
type sandboxCommand struct {
	APIAddr   string        `help:"Address of the API; port 0: any free port." default:"127.0.0.1:0" placeholder:"ADDR" noenv:"true"`
	CAFile    string        `help:"Serve the API over TLS, and write its certificate to this file for clients to trust (default: without TLS)." placeholder:"FILE" noenv:"true"`
	DNSAddr   string        `help:"Address of the DNS server; port 0: any free port." default:"127.0.0.1:0" placeholder:"ADDR" noenv:"true"`
	RedisAddr string        `help:"Address of an embedded Redis (default: none)." placeholder:"ADDR" noenv:"true"`
	Rate      float64       `help:"Rate limit of the tenant in requests per second; 0: none." default:"50" noenv:"true"`
	Burst     int           `help:"Burst of the rate limit; 0: one second's worth." default:"0" noenv:"true"`
	ReadLag   time.Duration `help:"How long reads lag behind writes." default:"0s" noenv:"true"`

	Seed          uint64  `help:"Seed of identifiers and tokens: the same seed gives the same names." default:"0" noenv:"true"`
	Organizations int     `help:"Organizations to create, with one to three verified domains each." default:"0" noenv:"true"`
	Absent        float64 `help:"Percentage of their domains without a TXT record." default:"0" noenv:"true"`
	Servfail      float64 `help:"Percentage of their domains for which DNS answers SERVFAIL." default:"0" noenv:"true"`

	LogLevel string `help:"Log level: debug, info, warn or error." default:"warn" noenv:"true"`
}

func (c sandboxCommand) check() error {
	switch {
	case c.Organizations < 0:
		return cli.Usage(fmt.Errorf("organizations: want 0 or more, got %d", c.Organizations))
	case !(c.Absent >= 0 && c.Servfail >= 0 && c.Absent+c.Servfail <= 100):
		return cli.Usage(fmt.Errorf("absent and servfail: want 0 to 100 percent, and no more in all, got %v and %v", c.Absent,
			c.Servfail))
	}
	return nil
}

func (c sandboxCommand) run(ctx context.Context, p cli.Program) error {
	if err := c.check(); err != nil {
		return err
	}
	logger, _, err := cli.NewLogger(p.Stderr, c.LogLevel, "")
	if err != nil {
		return err
	}
	box, err := sandbox.Start(sandbox.Options{
		APIAddr: c.APIAddr, CAFile: c.CAFile, DNSAddr: c.DNSAddr, RedisAddr: c.RedisAddr, Rate: c.Rate, Burst: c.Burst,
		ReadLag: c.ReadLag, NegativeTTL: sandboxNegativeTTL, Logger: logger,
		Seed: c.Seed,
	})
	if err != nil {
		return cli.Usage(err)
	}
	if c.Organizations > 0 {
		crowd := box.SeedBulk(sandbox.BulkOptions{Organizations: c.Organizations, Absent: c.Absent / 100,
			Servfail: c.Servfail / 100})
		fmt.Fprintf(p.Stderr,
			"%d organizations have %d verified domains; %d have no TXT record, DNS answers SERVFAIL for %d\n",
			crowd.Organizations, crowd.Domains, crowd.Absent, crowd.Servfail)
	}
	for _, line := range box.Settings() {
		fmt.Fprintln(p.Stdout, line)
	}
	fmt.Fprintf(p.Stderr,
		"Sample rows: %[1]s/_sandbox/rows/domains.csv?n=1000 (clients.csv, updates.csv, templates.jsonl); requests received: %[1]s/_sandbox/requests and %[1]s/_sandbox/counts\n", box.AuthURL())
	fmt.Fprintln(p.Stderr,
		"Serving until Ctrl-C. No worker and no Redis run here; worker --sandbox starts everything in one process.")
	<-ctx.Done()
	return box.Close()
}
