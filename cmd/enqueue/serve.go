package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"orgops/internal/cli"
	"orgops/internal/customer"
	"orgops/internal/health"
	"orgops/internal/httpapi"
	"orgops/internal/ledger"
	"orgops/internal/remedy"
	"orgops/internal/web"
)

type serveCommand struct {
	Addr      string `default:"127.0.0.1:8082" placeholder:"HOST:PORT" help:"Address to listen on. Other than on loopback, --access, --tls-cert and --tls-key are required."`
	ProbeAddr string `default:"off" placeholder:"HOST:PORT" help:"Address of /healthz, /readyz and /metrics, or off."`
	NoAuth    bool   `noenv:"true" help:"Accept requests without a token. Only on loopback."`
	web.Settings
	Links           customer.Settings `embed:""`
	MaxBytes        int64             `default:"268435456" placeholder:"N" help:"Maximum size of a body in bytes, before and after decompression."`
	MaxRows         int64             `default:"1000000" placeholder:"N" help:"Maximum number of rows in a body."`
	MaxUploads      int               `default:"16" placeholder:"N" help:"Maximum number of bodies and retries stored at once."`
	ShutdownTimeout time.Duration     `default:"25s" placeholder:"DURATION" help:"How long requests in progress may take to finish at shutdown."`
}

func (*serveCommand) Help() string {
	return `GET /v1/openapi.yaml describes the API. Callers are the submitters of the access file; they send their tokens in the header
"Authorization: Bearer TOKEN".

Example:

    enqueue access new crm --role submitter --kinds domain:verify >>access.yaml
    enqueue serve --access access.yaml`
}

func (c *serveCommand) Run(ctx context.Context, t *tool) error {
	if err := c.check(); err != nil {
		return cli.Usage(err)
	}
	access, certificate, err := c.Open("addr", c.Addr, false, t.log)
	if err != nil {
		return cli.Usage(err)
	}
	limits := httpapi.Limits{MaxBytes: c.MaxBytes, MaxRows: c.MaxRows, Uploads: c.MaxUploads}
	t.connections = limits.Connections()
	if err := t.connect(ctx); err != nil {
		return err
	}
	var links *customer.Links
	if len(c.Links.LinkKeys) > 0 {
		if links, err = c.Links.Open(t.redis, t.ledger, t.log); err != nil {
			return cli.Usage(err)
		}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	handler := httpapi.New(httpapi.Config{
		Redis: t.redis, Ledger: t.ledger, Access: access, Version: build.Version, Logger: t.log, Links: links,
		Intake: t.intake(), Trace: t.traces.Remote, Limits: limits,
		Registry: registry,
	})
	if c.ProbeAddr != "off" {
		probes := health.Probes(health.OfIntake(t.redis).Findings,
			promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
		url, _, stop, err := web.Serve(ctx, c.ProbeAddr, nil, probes, t.log)
		if err != nil {
			return cli.Usage(fmt.Errorf("probe-addr: %w", err))
		}
		defer func() { _ = stop(ctx) }() // ctx has ended: at once
		t.log.InfoContext(ctx, "serving probes", "at", url)
	}
	return t.serve(ctx, c.Addr, certificate, handler, c.ShutdownTimeout)
}

// serve serves the handler until the context ends, and lets requests in progress finish within the
// patience.
func (t *tool) serve(ctx context.Context, addr string, certificate *tls.Config, handler http.Handler,
	patience time.Duration) error {
	url, ended, stop, err := web.Serve(ctx, addr, certificate, handler, t.log)
	if err != nil {
		return remedy.With(fmt.Errorf("addr: %w", err), "set --addr to another address")
	}
	t.log.InfoContext(ctx, "serving", "url", url)
	var failed error
	select {
	case <-ctx.Done():
	case failed = <-ended:
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if err := stop(ctx); err != nil {
		t.log.WarnContext(ctx, "requests interrupted by the shutdown", "after", patience, "error", err)
	}
	t.log.InfoContext(ctx, "stopped")
	return failed
}

// check refuses settings that would serve without a token by mistake.
func (c *serveCommand) check() error {
	switch {
	case c.Access == "" && !c.NoAuth:
		return errors.New(
			"access: name a file of entries by enqueue access new; or, to try it on this machine only, add --no-auth")
	case c.Access != "" && c.NoAuth:
		return errors.New("--access and --no-auth do not go together")
	}
	return c.checkLimits()
}

func (c *serveCommand) checkLimits() error {
	switch {
	case c.MaxBytes < 1:
		return fmt.Errorf("max-bytes: want 1 or more, got %d", c.MaxBytes)
	case c.MaxRows < 1 || c.MaxRows > ledger.MaxRows:
		return fmt.Errorf("max-rows: want 1 to %d, got %d", int64(ledger.MaxRows), c.MaxRows)
	case c.MaxUploads < 1:
		return fmt.Errorf("max-uploads: want 1 or more, got %d", c.MaxUploads)
	case c.ShutdownTimeout <= 0:
		return fmt.Errorf("shutdown-timeout: want more than 0, got %s", c.ShutdownTimeout)
	}
	return nil
}

type accessCommand struct {
	Name          string   `arg:"" help:"Name of the user, for the log and for runs."`
	Role          string   `required:"true" noenv:"true" placeholder:"ROLE" help:"reader, support, operator, submitter or customer."`
	Tenants       []string `default:"*" noenv:"true" placeholder:"NAME" help:"Tenants that the user is limited to."`
	Organizations []string `noenv:"true" placeholder:"ID" help:"Organizations that a submitter, customer or user of support is limited to."`
	Kinds         []string `noenv:"true" placeholder:"KIND" help:"Kinds of rows that a submitter may submit, such as domain:verify, or *."`
	RowsADay      int64    `noenv:"true" placeholder:"N" help:"Rows that a submitter may submit in a day (UTC)."`
}

func (*accessCommand) Help() string {
	return `The entry goes to standard output, to be appended to the access file of "worker" or "enqueue serve", and the token to standard error:
give it to the user now: it cannot be shown again. The file has only its SHA-256.

    reader     sees the operator pages
    support    finds one domain on them, and checks it
    operator   sees the pages and acts
    submitter  submits rows to "enqueue serve"
    customer   reads the domains of its organizations through "enqueue serve", and has them checked

To take access away, delete the entry: it ends within a second.

Example:

    enqueue access new alice --role operator >>access.yaml`
}

func (c *accessCommand) Run(_ context.Context, t *tool) error {
	token, entry, err := web.NewEntry(web.User{
		Name: c.Name, Role: web.Role(c.Role), Tenants: c.Tenants, Organizations: c.Organizations,
		Kinds: c.Kinds, RowsADay: c.RowsADay,
	})
	if err != nil {
		return cli.Usage(err)
	}
	if _, err := fmt.Fprint(t.Stdout, entry); err != nil {
		return err
	}
	_, err = fmt.Fprintf(t.Stderr, "token of %s: %s\n", c.Name, token)
	return err
}
