package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/dnscheck"
	"orgops/internal/cli"
	"orgops/internal/health"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/queues"
	"orgops/internal/redisconn"
	"orgops/internal/tenant"
)

// doctorCommand tests the systems that a worker with the same settings would use.
type doctorCommand struct {
	JSON bool `name:"json" help:"Write the findings as JSON, one a line." noenv:"true"`
	systems
}

// errFoundWrong is returned if a test found a problem, which was printed.
var errFoundWrong = errors.New("something is wrong: see above")

// run runs the tests and prints their results. An error is one of the settings, or errFoundWrong.
func (d doctorCommand) run(ctx context.Context, p cli.Program) error {
	tenants, _, err := d.tenants(p.Env.Get)
	if err != nil {
		return err
	}
	client, at, err := d.connect(p)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	limited, cancel := context.WithTimeout(ctx, testTime)
	defer cancel()
	found, err := examine(limited, p.Env, tenants, at, client)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	found = append(found, health.Ignored(d.ignored, d.Config)...)
	return d.write(p.Stdout, found)
}

// write writes the findings. The error is errFoundWrong if something is wrong.
func (d doctorCommand) write(out io.Writer, found []health.Finding) (err error) {
	if slices.ContainsFunc(found, func(f health.Finding) bool { return f.Level == health.Wrong }) {
		defer func() { err = cmp.Or(err, errFoundWrong) }()
	}
	if !d.JSON {
		for _, f := range forReading(found) {
			fmt.Fprintln(out, f)
		}
		return nil
	}
	for _, f := range found {
		if err := cli.WriteJSON(out, f); err != nil {
			return err
		}
	}
	return nil
}

// forReading returns the findings in the order in which a person wants them: those that are wrong
// last, next to the prompt. Equal findings of several tenants are one line.
func forReading(found []health.Finding) []health.Finding {
	var grouped []health.Finding
	for _, f := range found {
		same := slices.IndexFunc(grouped, func(g health.Finding) bool {
			return g.Level == f.Level && g.Text == f.Text && g.Fix == f.Fix
		})
		if same >= 0 {
			grouped[same].Subject += ", " + f.Subject
			continue
		}
		grouped = append(grouped, f)
	}
	worst := []health.Level{health.OK, health.Warning, health.Wrong}
	slices.SortStableFunc(grouped, func(a, b health.Finding) int {
		return slices.Index(worst, a.Level) - slices.Index(worst, b.Level)
	})
	return grouped
}

// examine runs all tests at the same time, and returns the findings in order.
func examine(ctx context.Context, env *cli.Environment, tenants []tenant.Settings, at redisconn.Config,
	client redis.UniversalClient) ([]health.Finding, error) {
	// All are built before the first test, so that an error closes nothing that is in use.
	tested := make([]health.Tenant, len(tenants))
	for i, t := range tenants {
		one, done, err := testedTenant(t, client)
		if err != nil {
			return nil, err
		}
		defer done() //nolint:revive // after the wait
		tested[i] = one
	}
	parts := make([][]health.Finding, 1+2*len(tenants))
	var all sync.WaitGroup
	all.Go(func() {
		parts[0] = health.Redis(ctx, health.RedisSettings{Client: client, URL: at.URL, Known: queues.Ours,
			Schema: ledger.New(client).ReadSchema})
	})
	files := []string{env.Get(cli.EnvName("redis-password") + "_FILE")}
	for i, t := range tenants {
		all.Go(func() { parts[1+2*i] = append(health.Identity(ctx, client, t), tested[i].Test(ctx)...) })
		all.Go(func() { parts[2+2*i] = receivers(ctx, t) })
		files = append(files, t.ClientSecretFile, t.ClientKeyFile, t.TokenFile)
	}
	all.Wait()
	files = slices.DeleteFunc(files, func(path string) bool { return path == "" })
	return slices.Concat(append(parts, health.Variables(env.Unknown()), health.Files(files),
		health.ReadLimits().Test(len(tenants)))...), nil
}

// testedTenant returns the tenant for its tests; done closes its connections.
func testedTenant(t tenant.Settings, client redis.UniversalClient) (health.Tenant, func(), error) {
	tokens, err := t.TokenSource()
	if err != nil {
		return health.Tenant{}, nil, err
	}
	headers := &health.Headers{
		Gate: permits{pace.New(pace.Config{Redis: client, Tenant: t.Name, Limit: t.Limit, MaxWait: longestWait(t.Limit),
			Writes: schema.Writes})},
	}
	api, err := apiclient.New(apiclient.Config{
		BaseURL: t.BaseURL, Tokens: tokens, Network: t.Network, Body: apiclient.BodyFormat(t.Body), Gate: headers,
		UserAgent: "orgops/" + build.Version,
	})
	if err != nil {
		return health.Tenant{}, nil, fmt.Errorf("tenant %s: %w", t.Name, err)
	}
	checker, err := dnscheck.New(dnscheck.Config{Resolvers: t.DNSResolvers, Quorum: t.ResolverQuorum, Mode: t.Mode})
	if err != nil {
		return health.Tenant{}, nil, fmt.Errorf("tenant %s: %w", t.Name, err)
	}
	done := func() {
		api.CloseIdle()
		checker.Close()
	}
	return health.Tenant{Settings: t, API: api, Headers: headers, Tokens: tokens, DNS: checker}, done, nil
}
