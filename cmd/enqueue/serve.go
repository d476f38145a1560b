package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"orgops/internal/cli"
	"orgops/internal/httpapi"
	"orgops/internal/runs"
	"orgops/internal/serving"
)

type serveCommand struct {
	Addr            string        `default:"127.0.0.1:8082" placeholder:"HOST:PORT" help:"Address to listen on. Other than on loopback, --tls-cert or --plain-http is required."`
	Tokens          string        `placeholder:"FILE" help:"File of tokens and what each may submit, YAML or JSON. Reloaded when it changes."`
	NoAuth          bool          `noenv:"true" help:"Accept requests without a token. Only on loopback."`
	TLSCert         string        `name:"tls-cert" placeholder:"FILE" help:"Certificate chain, PEM. Reloaded when it changes."`
	TLSKey          string        `name:"tls-key" placeholder:"FILE" help:"Key of the certificate, PEM."`
	PlainHTTP       bool          `name:"plain-http" help:"Serve without TLS on an address that other machines can reach, behind a proxy that terminates TLS."`
	MaxBytes        int64         `default:"268435456" placeholder:"N" help:"Maximum size of a body in bytes, before and after decompression."`
	MaxRows         int64         `default:"1000000" placeholder:"N" help:"Maximum number of rows in a body."`
	MaxUploads      int           `default:"16" placeholder:"N" help:"Maximum number of bodies and retries stored at once."`
	UploadTimeout   time.Duration `default:"30m" placeholder:"DURATION" help:"Maximum time for receiving a body, or for a retry; 30 s without a byte always end a body."`
	ShutdownTimeout time.Duration `default:"25s" placeholder:"DURATION" help:"How long requests in progress may take to finish at shutdown."`
}

func (*serveCommand) Help() string {
	return `GET /v1/openapi.yaml describes the API.

Create a token with "openssl rand -hex 32". The file of tokens contains its hash, from

    printf %s "$TOKEN" | sha256sum

as an entry of the list "tokens" with name, sha256, kinds and tenants.

Example:

    enqueue serve --tokens tokens.yaml`
}

func (c *serveCommand) Run(ctx context.Context, t *tool) error {
	if err := c.check(); err != nil {
		return cli.Usage(err)
	}
	tokens, certificate, err := c.files(t)
	if err != nil {
		return cli.Usage(err)
	}
	limits := httpapi.Limits{MaxBytes: c.MaxBytes, MaxRows: c.MaxRows, Uploads: c.MaxUploads, Upload: c.UploadTimeout, Stop: c.ShutdownTimeout}
	t.connections = limits.Connections()
	if err := t.connect(ctx); err != nil {
		return err
	}
	server := httpapi.New(httpapi.Config{
		Redis: t.redis, Ledger: t.ledger, Tokens: tokens, Version: version, Logger: t.log,
		Intake: t.intake(), Trace: t.traces.Remote, Limits: limits,
	})
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Addr)
	if err != nil {
		return fmt.Errorf("addr: %w", err)
	}
	scheme := "http"
	if certificate != nil {
		listener, scheme = tls.NewListener(listener, certificate), "https"
	}
	t.log.InfoContext(ctx, "serving", "url", scheme+"://"+listener.Addr().String(), "auth", tokens != nil)
	if err := server.Run(ctx, listener); err != nil {
		return err
	}
	t.log.InfoContext(context.WithoutCancel(ctx), "stopped")
	return nil
}

// files reads the files that the settings name. A result is nil if no file is named.
func (c *serveCommand) files(t *tool) (tokens *httpapi.Tokens, certificate *tls.Config, err error) {
	if c.Tokens != "" {
		if tokens, err = httpapi.ReadTokens(c.Tokens, t.log, time.Now); err != nil {
			return nil, nil, fmt.Errorf("tokens: %w", err)
		}
	}
	if c.TLSCert != "" {
		if certificate, err = serving.TLS(c.TLSCert, c.TLSKey, t.log, time.Now); err != nil {
			return nil, nil, fmt.Errorf("tls-cert: %w", err)
		}
	}
	return tokens, certificate, nil
}

// check refuses settings that would serve without a token to others, or send tokens unencrypted.
func (c *serveCommand) check() error {
	local, err := serving.IsLoopback(c.Addr)
	switch {
	case err != nil:
		return fmt.Errorf("addr: %w", err)
	case c.Tokens == "" && !c.NoAuth:
		return errors.New("tokens: name a file of tokens and what each may submit; or, to try it on this machine only, add --no-auth")
	case c.Tokens != "" && c.NoAuth:
		return errors.New("--tokens and --no-auth do not go together")
	case c.NoAuth && !local:
		return fmt.Errorf("--no-auth is for loopback only, and %s can be reached from other machines", c.Addr)
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return errors.New("--tls-cert and --tls-key go together")
	case c.PlainHTTP && c.TLSCert != "":
		return errors.New("--plain-http and --tls-cert do not go together")
	case !local && c.TLSCert == "" && !c.PlainHTTP:
		return fmt.Errorf("%s can be reached from other machines, and tokens would be sent unencrypted: set --tls-cert and --tls-key; or --plain-http behind a proxy that terminates TLS", c.Addr)
	}
	return c.checkLimits()
}

func (c *serveCommand) checkLimits() error {
	switch {
	case c.MaxBytes < 1:
		return fmt.Errorf("max-bytes: want 1 or more, got %d", c.MaxBytes)
	case c.MaxRows < 1 || c.MaxRows > runs.MaxRows:
		return fmt.Errorf("max-rows: want 1 to %d, got %d", int64(runs.MaxRows), c.MaxRows)
	case c.MaxUploads < 1:
		return fmt.Errorf("max-uploads: want 1 or more, got %d", c.MaxUploads)
	case c.UploadTimeout <= 0:
		return fmt.Errorf("upload-timeout: want more than 0, got %s", c.UploadTimeout)
	case c.ShutdownTimeout <= 0:
		return fmt.Errorf("shutdown-timeout: want more than 0, got %s", c.ShutdownTimeout)
	}
	return nil
}
