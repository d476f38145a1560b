package handlers

import (
	"context"
	"time"

	"orgops/dnscheck"
	"orgops/internal/discovery"
	"orgops/internal/engine"
	"orgops/tasks"
)

var NextCheck = nextCheck

const MaxNegativeTTL = maxNegativeTTL

// Sending has the arguments of [SendVerified].
type Sending struct {
	Record  discovery.Domain
	Age     time.Duration // of the record
	Flag    *bool         // of the row
	BySweep bool
	Row     tasks.VerifyRow // names the record
	Proof   dnscheck.Proof
	Before  func() // is called before
}

// SendVerified returns a handler whose rows, of that domain, send status verified at once.
func SendVerified(cfg VerifyConfig, organization, domain string, s Sending) engine.Handler {
	return engine.One(func(ctx context.Context, x *engine.Execution, row *engine.Row) *engine.Consequence {
		v, err := newVerifier(cfg, x, row, organization, domain)
		if err != nil {
			return engine.Fail(err)
		}
		v.record = s.Record
		v.readAt = x.Now().Add(-s.Age)
		v.flag = s.Flag
		v.bySweep = s.BySweep
		v.named = named{domain: s.Row.Domain, host: s.Row.VerificationHost, token: s.Row.VerificationTXT}
		if s.Before != nil {
			s.Before()
		}
		return v.sendVerified(ctx, s.Proof)
	})
}
