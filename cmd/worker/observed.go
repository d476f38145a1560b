package main

import (
	"context"

	"orgops/dnscheck"
)

// observedDNS counts the verdicts of a tenant's checker.
type observedDNS struct {
	*dnscheck.Checker
	metrics interface {
		Verdict(tenant, state, reason string)
	}
	tenant string
}

// Look implements tasks.DNS, as do Prove and Disprove.
func (d observedDNS) Look(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	return d.observe(d.Checker.Look(ctx, host, token))
}

func (d observedDNS) Prove(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	return d.observe(d.Checker.Prove(ctx, host, token))
}

func (d observedDNS) Disprove(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	return d.observe(d.Checker.Disprove(ctx, host, token))
}

func (d observedDNS) observe(v dnscheck.Verdict, err error) (dnscheck.Verdict, error) {
	if err == nil {
		d.metrics.Verdict(d.tenant, v.State.String(), string(v.Reason))
	}
	return v, err
}
