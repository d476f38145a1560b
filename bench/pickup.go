package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/apiclient/schema"
	"orgops/internal/redisconn"
	"orgops/producer"
)

// pickupLoad is how many rows are submitted.
type pickupLoad struct {
	Tenants int           `noenv:"true" default:"100" help:"Idle tenants, each of which gets a row."`
	Active  int           `noenv:"true" default:"300" help:"Rows of a tenant that is active."`
	Settle  time.Duration `noenv:"true" default:"1m" help:"How long the worker runs before that."`
}

// pickupResult is the time from the call that submits a row to its request's arrival.
type pickupResult struct {
	Benchmark string  `json:"benchmark"` // "pickup"
	Tenant    string  `json:"tenant"`    // "idle" or "active"
	Rows      int     `json:"rows"`
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	Max       float64 `json:"max_ms"`
}

// measurePickup submits single rows to a worker of many tenants, one after another.
func measurePickup(ctx context.Context, s *store, l pickupLoad, out, stderr io.Writer) error {
	return withTenant(ctx, s, stderr, func(t *tenant) (err error) {
		workers, err := startFleet(ctx, s, 1, idleLoad{Tenants: l.Tenants}.served(t))
		defer func() { err = errors.Join(err, workers.close()) }()
		if err != nil {
			return err
		}
		rdb, err := redisconn.Open(redisconn.Config{URL: s.url, AllowURLPassword: true})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rdb.Close()) }()
		fmt.Fprintf(stderr, "a worker of %d tenants, measured after %s\n", l.Tenants, l.Settle)
		if err := pause(ctx, l.Settle); err != nil {
			return err
		}
		p := &pickup{tenant: t, producer: producer.New(rdb)}
		if err := p.ready(ctx, rdb, l.Tenants+l.Active); err != nil {
			return err
		}
		for _, part := range []struct {
			name string
			rows int
			gap  time.Duration
			to   func(i int) string
		}{
			{"idle", l.Tenants, 50 * time.Millisecond, tenantNumber},
			{"active", l.Active, 200 * time.Millisecond, func(int) string { return tenantNumber(0) }},
		} {
			r, err := p.measure(ctx, part.rows, part.gap, part.to)
			if err != nil {
				return errors.Join(err, workers.said())
			}
			r.Tenant = part.name
			if err := write(out, r); err != nil {
				return err
			}
		}
		return nil
	})
}

// pickup submits rows and waits for their requests.
type pickup struct {
	tenant   *tenant
	producer *producer.Producer
	rows     []row // that were not submitted
}

// ready connects the producer, as one that is in use is, and makes n rows.
func (p *pickup) ready(ctx context.Context, rdb redis.UniversalClient, n int) (err error) {
	if err := redisconn.Ready(ctx, rdb); err != nil {
		return err
	}
	file, err := p.tenant.seed(ctx, "updates", n)
	if err != nil {
		return err
	}
	p.rows, err = rowsOf(bytes.NewReader(file))
	return err
}

// measure submits n rows, each a random time of up to gap after the request of the one before.
func (p *pickup) measure(ctx context.Context, n int, gap time.Duration,
	to func(i int) string) (r pickupResult, err error) {
	took := make([]time.Duration, n)
	for i := range took {
		if err := pause(ctx, rand.N(gap)); err != nil {
			return r, err
		}
		if took[i], err = p.one(ctx, to(i)); err != nil {
			return r, err
		}
	}
	return pickupResult{
		Benchmark: "pickup", Rows: n, P50: milliseconds(quantile(took, 0.5)), P99: milliseconds(quantile(took, 0.99)),
		Max: milliseconds(quantile(took, 1)),
	}, nil
}

// one submits a row, and returns the time from the call to the arrival of its PATCH.
func (p *pickup) one(ctx context.Context, tenant string) (time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute,
		fmt.Errorf("no request came within a minute of a row for %s", tenant))
	defer cancel()
	next := p.rows[0]
	p.rows = p.rows[1:]
	content, err := json.Marshal(map[string]any{
		"organization_id": next.organization, "discovery_domain_id": next.domain, "status": "pending",
		"use_for_organization_discovery": false,
	})
	if err != nil {
		return 0, err
	}
	began := time.Now()
	row := producer.Row{Tenant: tenant, Kind: producer.Update, Row: content, Max: 1e9}
	if _, err := p.producer.Submit(ctx, row); err != nil {
		return 0, err
	}
	for {
		log, err := p.tenant.requests(ctx)
		if err != nil {
			return 0, errors.Join(err, context.Cause(ctx))
		}
		for _, q := range log {
			if q.Operation == schema.OpUpdateDiscoveryDomain && q.At.After(began) {
				return q.At.Sub(began), nil
			}
		}
		if pause(ctx, 20*time.Millisecond) != nil {
			return 0, context.Cause(ctx)
		}
	}
}

// quantile is the smallest of the values such that the share q of all are not
// larger (the nearest rank): one that was measured, not one in between. values
// need not be sorted and are left as they are; there is at least one.
func quantile(values []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}
