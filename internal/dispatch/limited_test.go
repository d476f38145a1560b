package dispatch_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/internal/engine"
	"orgops/internal/enginetest"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/tasks/handlers"
)

// TestOneRowTriesAfterAPause: the API answers 429 to all requests for more than a minute. After
// each pause one row tries, instead of all that the workers have places for. Then the API accepts
// requests, and the rows are done at the rate.
func TestOneRowTriesAfterAPause(t *testing.T) {
	for name, headers := range map[string]http.Header{
		"of the tenant": {},
		// The other operations have the tenant's bucket.
		"of an operation": {"X-Ratelimit-Limit": {"5"}, "X-Ratelimit-Remaining": {"0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onSite(t, func(t *testing.T, s *site) { oneRowTries(t, s, headers) })
		})
	}
}

func oneRowTries(t *testing.T, s *site, headers http.Header) {
	const rows, perSecond = 600, 100
	limiter := pace.New(pace.Config{Redis: s.rdb, Tenant: string(tenant), Writes: schema.Writes,
		Limit: pace.Limit{Rate: pace.Rate{Count: perSecond, Per: time.Second}, Burst: 50}})
	var executions, requests atomic.Int64
	accepts := time.Now().Add(70 * time.Second)
	s.start(func(o *options) {
		o.places = 100
		o.dispatch.Places = 100
		o.dispatch.Pace = limiter.State
		o.dispatch.Rate = func() float64 { return perSecond }
		o.engine.Handlers[handlers.Update] = engine.One(func(ctx context.Context, _ *engine.Execution,
			_ *engine.Row) *engine.Consequence {
			executions.Add(1)
			if err := limiter.Wait(ctx, pace.Request{Operation: schema.OpUpdateDiscoveryDomain}); err != nil {
				return enginetest.End(err)
			}
			requests.Add(1)
			if time.Now().Before(accepts) {
				limiter.Answered(ctx, schema.OpUpdateDiscoveryDomain, http.StatusTooManyRequests, headers, 25*time.Second)
				return engine.Fail(&apiclient.Error{Status: http.StatusTooManyRequests, RetryAfter: 25 * time.Second})
			}
			limiter.Answered(ctx, schema.OpUpdateDiscoveryDomain, http.StatusOK, nil, 0)
			return engine.Settle(ledger.Result{})
		})
	})
	s.submit("a", handlers.Update, s.domains(rows))
	time.Sleep(5 * time.Second) // until those are back that were in progress when the first pause began
	before := executions.Load()
	time.Sleep(time.Until(accepts))
	// Two more pauses, each with one row that tries.
	if n := executions.Load() - before; n > 5 {
		t.Errorf("%d executions and %d requests while the API accepts none, want one row after each pause", n,
			requests.Load())
	}
	begun := time.Now()
	s.awaitEnd("a")
	if took := time.Since(begun).Seconds(); took > 5+3*rows/perSecond { // the last pause lasts for 5 s
		t.Errorf("%d rows took %.0f s once the API accepts requests, at %d/s", rows, took, perSecond)
	}
}
