package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"orgops/internal/cli"
	"orgops/internal/intakeapi"
	"orgops/internal/runs"
)

type serveCommand struct {
	Addr            string        `default:"127.0.0.1:8082" placeholder:"HOST:PORT" help:"Where to serve. Elsewhere than on loopback it takes --tls-cert, or --plain-http."`
	Tokens          string        `placeholder:"FILE" help:"Who may hand in what, in YAML or JSON; read again when it changes."`
	NoAuth          bool          `noenv:"true" help:"Ask nobody who he is. On loopback only."`
	TLSCert         string        `name:"tls-cert" placeholder:"FILE" help:"Certificate chain in PEM; read again when it changes."`
	TLSKey          string        `name:"tls-key" placeholder:"FILE" help:"Its key in PEM."`
	PlainHTTP       bool          `name:"plain-http" help:"Serve without TLS where others than this machine can reach it: behind a proxy that ends TLS."`
	Spool           string        `placeholder:"DIR" help:"Directory of what was received and is not handed in yet, of this server alone; by default below the one for temporary files. On a disk that outlives the machine's restart it is what outlives it too."`
	MaxBytes        int64         `default:"268435456" placeholder:"N" help:"Most bytes of a body, and of what its gzip expands to."`
	MaxRows         int64         `default:"1000000" placeholder:"N" help:"Most rows of a body."`
	MaxUploads      int           `default:"16" placeholder:"N" help:"Bodies received at a time."`
	UploadTimeout   time.Duration `default:"30m" placeholder:"DURATION" help:"How long a body may take; and not more than 30 s for its next bytes."`
	ShutdownTimeout time.Duration `default:"25s" placeholder:"DURATION" help:"How long requests under way may take to finish at the end."`
}

// Help says where to go on.
func (*serveCommand) Help() string {
	return "What there is, GET /v1/openapi.yaml describes. " +
		"A token is made by: openssl rand -hex 32. The file has its hash, by: printf %s \"$TOKEN\" | sha256sum, as an entry of its list \"tokens\" with name, sha256, kinds and tenants."
}

// Run serves until ctx ends.
func (c *serveCommand) Run(ctx context.Context, t *tool) error {
	if err := c.check(); err != nil {
		return cli.Usage(err)
	}
	tokens, certificate, err := c.files(t)
	if err != nil {
		return cli.Usage(err)
	}
	t.connections = intakeapi.Connections
	if err := t.connect(ctx); err != nil {
		return err
	}
	server, err := intakeapi.New(intakeapi.Config{
		Redis: t.redis, Ledger: t.ledger, Tokens: tokens, Spool: c.Spool, Version: version, Logger: t.log,
		Intake: t.intake(), Trace: t.traces.Remote,
		Limits: intakeapi.Limits{MaxBytes: c.MaxBytes, MaxRows: c.MaxRows, Uploads: c.MaxUploads, Upload: c.UploadTimeout, Stop: c.ShutdownTimeout},
	})
	if err != nil {
		return cli.Usage(err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Addr)
	if err != nil {
		return errors.Join(fmt.Errorf("addr: %w", err), server.Close())
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

// files reads what the settings name. Either is nil where nothing is named.
func (c *serveCommand) files(t *tool) (tokens *intakeapi.Tokens, certificate *tls.Config, err error) {
	if c.Tokens != "" {
		if tokens, err = intakeapi.ReadTokens(c.Tokens, t.log); err != nil {
			return nil, nil, fmt.Errorf("tokens: %w", err)
		}
	}
	if c.TLSCert != "" {
		if certificate, err = intakeapi.TLS(c.TLSCert, c.TLSKey, t.log); err != nil {
			return nil, nil, fmt.Errorf("tls-cert: %w", err)
		}
	}
	return tokens, certificate, nil
}

// check refuses what would let strangers in, or tokens out.
func (c *serveCommand) check() error {
	local, err := isLoopback(c.Addr)
	switch {
	case err != nil:
		return fmt.Errorf("addr: %w", err)
	case c.Tokens == "" && !c.NoAuth:
		return errors.New("tokens: name a file that says who may hand in what; or, to try it on this machine alone, say --no-auth")
	case c.Tokens != "" && c.NoAuth:
		return errors.New("--tokens and --no-auth do not go together")
	case c.NoAuth && !local:
		return fmt.Errorf("--no-auth is for loopback only, and %s can be reached from elsewhere", c.Addr)
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return errors.New("--tls-cert and --tls-key go together")
	case c.PlainHTTP && c.TLSCert != "":
		return errors.New("--plain-http and --tls-cert do not go together")
	case !local && c.TLSCert == "" && !c.PlainHTTP:
		return fmt.Errorf("%s can be reached from elsewhere, and tokens would be read on the way: name --tls-cert and --tls-key; or say --plain-http where a proxy ends TLS", c.Addr)
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

// isLoopback says whether only this machine can reach an address. A name may
// come to stand for another one, so that of names only localhost is taken.
func isLoopback(addr string) (bool, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false, fmt.Errorf("%q: want host:port, such as 127.0.0.1:8082", addr)
	}
	if strings.EqualFold(host, "localhost") {
		return true, nil
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback(), nil
}
