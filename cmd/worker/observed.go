package main

import (
	"context"

	"orgops/dnscheck"
	"orgops/internal/metrics"
	"orgops/internal/tracing"
)

// observedDNS counts, and traces, the verdicts of a tenant's checker.
type observedDNS struct {
	*dnscheck.Checker
	metrics *metrics.Metrics
	traces  *tracing.Tracing
	tenant  string
}

// Look implements tasks.DNS, as do Prove and Disprove.
func (d observedDNS) Check(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	return d.observe(ctx, "look", d.Checker.Check, host, token)
}

func (d observedDNS) Prove(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	return d.observe(ctx, "prove", d.Checker.Prove, host, token)
}

func (d observedDNS) Disprove(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	return d.observe(ctx, "disprove", d.Checker.Disprove, host, token)
}

func (d observedDNS) observe(ctx context.Context, what string, ask func(ctx context.Context, host, token string) (dnscheck.Verdict, error), host, token string) (dnscheck.Verdict, error) {
	ctx, traced := d.traces.DNS(ctx, what)
	v, err := ask(ctx, host, token)
	traced(v, err)
	if err == nil {
		d.metrics.Verdict(d.tenant, v.State.String(), string(v.Reason))
	}
	return v, err
}
