package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/dnscheck"
)

// Executions at a time of a worker for a tenant without a limit; see cmd/worker.
const (
	dnsConcurrency = 250
	apiConcurrency = 100
)

// calls are clients that make a row's calls as a worker does, without its pace and metrics.
type calls struct {
	api *apiclient.Client
	dns *dnscheck.Checker
}

// callsTo returns new clients.
func callsTo(to endpoint) (calls, error) {
	audience, err := apiclient.DefaultAudience(to.BaseURL)
	if err != nil {
		return calls{}, err
	}
	var resolvers []dnscheck.Resolver
	for _, address := range to.Resolvers {
		r, err := dnscheck.ParseResolver(address)
		if err != nil {
			return calls{}, err
		}
		resolvers = append(resolvers, r)
	}
	api, err := apiclient.New(apiclient.Config{BaseURL: to.BaseURL,
		Tokens: apiclient.ClientCredentials(apiclient.ClientCredentialsConfig{
			TokenURL: apiclient.DefaultTokenURL(to.AuthURL), Audience: audience, ClientID: to.ClientID,
			ClientSecret: apiclient.NewSecret(to.ClientSecret),
		})})
	if err != nil {
		return calls{}, err
	}
	checker, err := dnscheck.New(dnscheck.Config{Resolvers: resolvers})
	return calls{api: api, dns: checker}, err
}

// loop is as many goroutines as the worker has handlers, without queue,
// ledger, pace and metrics.
type loop struct {
	calls calls
	rows  []row
}

func prepareLoop(_ context.Context, _ *store, t *tenant, file []byte) (contender, error) {
	rows, err := rowsOf(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	c, err := callsTo(t.endpoint)
	return &loop{calls: c, rows: rows}, err
}

func (l *loop) close() error {
	l.calls.api.CloseIdle()
	return nil
}

func (l *loop) carryOut(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, tooLong)
	defer cancel()
	next := make(chan row, len(l.rows))
	for _, r := range l.rows {
		next <- r
	}
	close(next)
	start := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for range dnsConcurrency + apiConcurrency {
		g.Go(func() error {
			for r := range next {
				if err := l.calls.verify(ctx, r); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := g.Wait()
	return time.Since(start), err
}

// verify makes the calls that a row costs: read, look; read again, prove,
// PATCH.
func (c calls) verify(ctx context.Context, r row) error {
	d, err := c.api.DiscoveryDomain(ctx, r.organization, r.domain)
	if err != nil {
		return err
	}
	if err := present(c.dns.Check(ctx, d.VerificationHost, d.VerificationTXT)); err != nil {
		return err
	}
	if d, err = c.api.DiscoveryDomain(ctx, r.organization, r.domain); err != nil {
		return err
	}
	if err := present(c.dns.Prove(ctx, d.VerificationHost, d.VerificationTXT)); err != nil {
		return err
	}
	verified := schema.StatusVerified
	d, err = c.api.UpdateDiscoveryDomain(ctx, r.organization, r.domain, schema.DiscoveryDomainUpdate{
		Status: &verified, UseForOrganizationDiscovery: d.UseForOrganizationDiscovery,
	}, nil)
	if err == nil && d.Status != verified {
		err = fmt.Errorf("domain %s is %s after its PATCH", d.ID, d.Status)
	}
	return err
}

func present(v dnscheck.Verdict, err error) error {
	if err == nil && v.State != dnscheck.Present {
		err = fmt.Errorf("%s: the token is %s (%s), though it is published", v.Host, v.State, v.Reason)
	}
	return err
}
