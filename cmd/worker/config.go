package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/redis/go-redis/v9"

	"orgops/internal/cli"
	"orgops/internal/customer"
	"orgops/internal/redisconn"
	"orgops/internal/tenant"
	"orgops/internal/untrusted"
)

// systems are the flags of the systems that a worker connects to: Redis and tenants.
type systems struct {
	redisconn.Flags

	origin `kong:"-"`

	Config string `help:"YAML file of tenants, instead of the tenant's flags. Reloaded when it changes, and by SIGHUP." placeholder:"FILE"`

	tenant.Settings `group:"The tenant"` // tenantGroup
}

// origin says where the values of the flags come from.
type origin struct {
	redisFromArgs bool // --redis-url
	// ignored are the variables of the environment that would describe the tenant if there were no
	// --config. They are reported, and not refused as flags are: a machine that has one for another
	// command would not start its worker any more.
	ignored []string
}

// originOf returns the origin of the flags that were selected.
func originOf(selected *kong.Context, config string) origin {
	from := origin{redisFromArgs: cli.Given(selected, "redis-url")}
	if config == "" {
		return from
	}
	for _, name := range cli.VariablesIn(selected, tenantGroup) {
		if name != cli.EnvName("tenant") { // the tenant that enqueue uses
			from.ignored = append(from.ignored, name)
		}
	}
	return from
}

// settings are the worker's flags; each has an environment variable.
type settings struct {
	systems
	HTTPAddr        string        `name:"http-addr" help:"Address of the operator pages (including asynqmon), or off. Other than on loopback, --tls-cert and --tls-key are required, and --access or --ops-proxy-header." default:"127.0.0.1:8080"`
	ProbeAddr       string        `help:"Address of /healthz, /readyz and /metrics, or off." default:"127.0.0.1:8081"`
	ShutdownTimeout time.Duration `help:"How long running tasks may take to finish at shutdown." default:"25s"`
	LogLevel        string        `help:"Log level: debug, info, warn or error." default:"info"`
	LogFormat       string        `help:"Log format: json or text (default: text on a terminal, else json)." enum:"json,text," default:""`
	DebugHTTP       bool          `name:"debug-http" help:"Log each request to the API and the token endpoint at debug level: method, path, status, time and request id."`

	CheckConfig bool `help:"Print the effective configuration and exit." noenv:"true"`
	Sandbox     bool `help:"Run an embedded tenant, DNS server and Redis, with a sample run of each kind." noenv:"true"`
	Drain       bool `help:"Exit with status 0 once all submitted runs and sweeps of the tenants have ended, apart from runs that are paused or not due yet." noenv:"true"`

	accessFlags `group:"Access to the operator pages"`

	Links customer.Settings `embed:"" group:"Links for customers"`
}

// tenantGroup is the group of the flags that describe one tenant.
const tenantGroup = "The tenant"

// checkTogether refuses flags that would be ignored. Variables of the environment are not refused:
// see [origin].
func checkTogether(selected *kong.Context, s systems, sandbox bool) error {
	given := cli.GivenIn(selected, tenantGroup)
	switch {
	case sandbox && cli.Given(selected, "config"):
		given = append(given, "config")
	case sandbox && cli.Given(selected, "redis-url"):
		given = append(given, "redis-url")
	}
	switch {
	case len(given) == 0:
		return nil
	case sandbox:
		return cli.Usage(fmt.Errorf("--%s and --sandbox do not go together: the sandbox brings its own tenant and Redis",
			given[0]))
	case s.Config != "":
		return cli.Usage(fmt.Errorf("--%s and --config do not go together: with a file, the tenants' settings are in it",
			given[0]))
	}
	return nil
}

// tenants returns the tenants, and the digest of their file; empty: there is none.
func (s systems) tenants(env func(string) string) (all []tenant.Settings, digest string, err error) {
	proxy, err := tenant.Proxies(env)
	if err != nil {
		return nil, "", cli.Usage(err)
	}
	all, digest, err = s.named(env)
	for i := range all {
		all[i].Network.Proxy = proxy
	}
	return all, digest, err
}

func (s systems) named(env func(string) string) (all []tenant.Settings, digest string, err error) {
	if s.Config != "" && s.BaseURL != "" {
		return nil, "", cli.Usage(errors.New("base-url and config are both set: with a file, the tenants are in it"))
	}
	if s.Config != "" {
		all, digest, err = tenant.ReadFile(s.Config, env)
		return all, digest, cli.Usage(err)
	}
	t := s.WithSecrets(env)
	if err := t.Complete(env); err != nil {
		return nil, "", cli.Usage(err)
	}
	return []tenant.Settings{t}, "", nil
}

func (s systems) redis(p cli.Program) (redisconn.Config, error) {
	password := func() (string, error) { return cli.Secret(p.Env.Get, cli.EnvName("redis-password")) }
	at, err := s.Flags.Config(s.redisFromArgs, password)
	if err == nil {
		_, err = password() // a fault of its file is one of the settings
	}
	return at, cli.Usage(err)
}

// connect connects to Redis for a command that is not a worker: go-redis logs nothing, and each
// error is returned.
func (s systems) connect(p cli.Program) (redis.UniversalClient, redisconn.Config, error) {
	at, err := s.redis(p)
	if err != nil {
		return nil, at, err
	}
	redis.SetLogger(cli.RedisLog{Logger: slog.New(slog.DiscardHandler)})
	client, err := redisconn.Open(at)
	return client, at, cli.Usage(err)
}

// check checks the settings that are not of a tenant.
func (s settings) check() (err error) {
	if s.HTTPAddr != off {
		_, _, err = s.open(s.HTTPAddr, slog.New(slog.DiscardHandler))
	}
	if err == nil && s.ProbeAddr != off {
		if _, _, err = net.SplitHostPort(s.ProbeAddr); err != nil {
			err = fmt.Errorf("probe-addr: %w: want host:port, such as 127.0.0.1:8081", err)
		}
	}
	switch {
	case err != nil:
	case s.DebugHTTP && s.LogLevel != "debug":
		err = fmt.Errorf("debug-http: it logs at debug level, and log-level is %s: set log-level to debug",
			untrusted.Value(s.LogLevel))
	case s.ShutdownTimeout < time.Second:
		err = fmt.Errorf("shutdown-timeout: want at least 1s, got %s", s.ShutdownTimeout)
	}
	return cli.Usage(err)
}

const (
	// off turns a listener, or the schedule, off.
	off = "off"
	// defaultHTTPAddr is the default of --http-addr.
	defaultHTTPAddr = "127.0.0.1:8080"
	// defaultLogLevel is the default of --log-level.
	defaultLogLevel = "info"
)

// print writes the effective settings. Secrets are masked by their type.
func (s settings) print(out io.Writer, all []tenant.Settings, redis redisconn.Config) {
	fmt.Fprintf(out, "redis-url: %s\nhttp-addr: %s\n", redisconn.Mask(redis.URL), s.HTTPAddr)
	if s.HTTPAddr != off {
		s.accessFlags.print(out)
		if len(s.Links.LinkKeys) > 0 {
			fmt.Fprintf(out, "link-keys: %s\nlink-url: %s\n", strings.Join(s.Links.LinkKeys, ", "), s.Links.LinkURL)
		}
	}
	fmt.Fprintf(out, "probe-addr: %s\nshutdown-timeout: %s\n", s.ProbeAddr, s.ShutdownTimeout)
	for _, t := range all {
		t.Print(out)
	}
}
