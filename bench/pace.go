package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/internal/ledger"
	"orgops/tasks"
)

// What is measured against: an enterprise tenant, as its API documents it.
const (
	paceRate, paceBurst = 16, 50
	paceWorkers         = 4
	paceRows            = 5000
	paceBehind          = 20_000 // rows of the run that a small one is submitted behind
	paceSmall           = 10     // rows of that
)

// paceVariants are what is measured, in their order.
var paceVariants = []paceVariant{
	{name: "orgops, reserve 0 %", measure: paceOfOurs},
	{name: "orgops, reserve 20 %", reserve: 0.2, measure: paceOfOurs},
	{name: "50 goroutines, 2 retries", measure: paceOfToday},
	{name: "orgops, reserve 0 %, others too", foreign: true, measure: paceOfOurs},
	{name: "orgops, reserve 20 %, others too", reserve: 0.2, foreign: true, measure: paceOfOurs},
	{name: "50 goroutines, 2 retries, others too", foreign: true, measure: paceOfToday},
}

type paceVariant struct {
	name    string
	reserve float64
	foreign bool // somebody else makes 3 to 5 requests a second, now and then
	measure func(ctx context.Context, s *store, t *tenant, v paceVariant, rows int) (lost int64, err error)
}

// measurePace measures each variant on a fresh tenant and an empty Redis, then how
// long a small run takes behind a big one.
func measurePace(ctx context.Context, s *store, g grammar, out, stderr io.Writer) error {
	for _, v := range paceVariants {
		fmt.Fprintf(stderr, "measuring %s\n", v.name)
		r, err := paceRound(ctx, s, v, g.rows(paceRows), stderr)
		if err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
		if err := write(out, r); err != nil {
			return err
		}
	}
	fmt.Fprintf(stderr, "measuring %d rows behind %d\n", paceSmall, g.Pace.Behind)
	took, err := smallRun(ctx, s, g.Pace.Behind, stderr)
	if err != nil {
		return fmt.Errorf("a small run behind a big one: %w", err)
	}
	return write(out, smallRunResult{Benchmark: "pace_small_run", Rows: paceSmall, Behind: g.Pace.Behind,
		Seconds: took.Seconds()})
}

func paceRound(ctx context.Context, s *store, v paceVariant, rows int, stderr io.Writer) (r paceResult, err error) {
	err = withTenant(ctx, s, stderr, func(t *tenant) error {
		others, stop := context.WithCancel(ctx)
		defer stop()
		var g errgroup.Group
		if v.foreign {
			g.Go(func() error { return t.othersComeAndGo(others) })
		}
		lost, err := v.measure(ctx, s, t, v, rows)
		stop()
		if err := errors.Join(err, g.Wait()); err != nil {
			return err
		}
		log, err := t.requests(ctx)
		r = newPaceResult(v, rows, lost, log)
		return err
	}, limited(paceRate, paceBurst)...)
	return r, err
}

// updates are rows of one request each.
func (t *tenant) updates(ctx context.Context, n int) ([]row, []byte, error) {
	seeded, err := t.seed(ctx, "updates", n)
	if err != nil {
		return nil, nil, err
	}
	rows, err := rowsOf(bytes.NewReader(seeded))
	if err != nil {
		return nil, nil, err
	}
	file, err := updatesOf(rows)
	return rows, file, err
}

// updatesOf returns the file that sets these domains to pending.
func updatesOf(rows []row) ([]byte, error) {
	var file bytes.Buffer
	w := csv.NewWriter(&file)
	lines := [][]string{{"organization_id", "discovery_domain_id", "status", "use_for_organization_discovery"}}
	for _, r := range rows {
		lines = append(lines, []string{r.organization, r.domain, "pending", "false"})
	}
	err := w.WriteAll(lines)
	return file.Bytes(), err
}

// paced is the tenant at the rate of this benchmark, with that reserve.
func (t *tenant) paced(reserve float64) []served {
	return []served{{tenant: t, name: tenantName, rate: paceRate, burst: paceBurst, reserve: int(100 * reserve)}}
}

// paceOfOurs has several workers carry the rows out, and says how many were not.
func paceOfOurs(ctx context.Context, s *store, t *tenant, v paceVariant, rows int) (lost int64, err error) {
	_, file, err := t.updates(ctx, rows)
	if err != nil {
		return 0, err
	}
	if _, err := submit(ctx, s.url, tasks.TypeUpdate, runID, "updates.csv", bytes.NewReader(file)); err != nil {
		return 0, fmt.Errorf("submit: %w", err)
	}
	workers, err := startFleet(ctx, s, paceWorkers, t.paced(v.reserve))
	defer func() { err = errors.Join(err, workers.close()) }()
	if err != nil {
		return 0, err
	}
	run, err := ended(ctx, s, runID, 50*time.Millisecond)
	if err := errors.Join(err, workers.stop()); err != nil {
		return 0, err
	}
	return run.Total() - run.Counts[ledger.Done], nil
}

// paceOfToday is what scripts do: as many requests at once as seems good, each
// repeated twice at most when it meets a 429, after the time that this names.
func paceOfToday(ctx context.Context, _ *store, t *tenant, _ paceVariant, n int) (lost int64, err error) {
	rows, _, err := t.updates(ctx, n)
	if err != nil {
		return 0, err
	}
	c, err := callsTo(t.endpoint)
	if err != nil {
		return 0, err
	}
	defer c.api.CloseIdle()
	next := make(chan row, len(rows))
	for _, r := range rows {
		next <- r
	}
	close(next)
	const goroutines = 50
	var g sync.WaitGroup
	var failed atomic.Int64
	for range goroutines {
		g.Go(func() {
			for r := range next {
				if !c.updateAsToday(ctx, r) {
					failed.Add(1)
				}
			}
		})
	}
	g.Wait()
	return failed.Load(), ctx.Err()
}

// updateAsToday says whether one of three attempts was a success.
func (c calls) updateAsToday(ctx context.Context, r row) bool {
	const attempts = 3
	pending, no := schema.StatusPending, false
	for range attempts {
		_, err := c.api.UpdateDiscoveryDomain(ctx, r.organization, r.domain,
			schema.DiscoveryDomainUpdate{Status: &pending, UseForOrganizationDiscovery: &no}, nil)
		if err == nil {
			return true
		}
		refusal, ok := errors.AsType[*apiclient.Error](err)
		if !ok || refusal.Status != http.StatusTooManyRequests || pause(ctx, max(refusal.RetryAfter, time.Second)) != nil {
			return false
		}
	}
	return false
}

// othersComeAndGo makes 3 to 5 requests a second for 10 to 40 seconds, then none
// for as long, and so on until ctx ends. It lists organizations, as no other client
// here does.
func (t *tenant) othersComeAndGo(ctx context.Context) error {
	c, err := callsTo(t.endpoint)
	if err != nil {
		return err
	}
	defer c.api.CloseIdle()
	seconds := func(least, most float64) time.Duration {
		return time.Duration((least + (most-least)*rand.Float64()) * float64(time.Second))
	}
	for {
		until := time.Now().Add(seconds(10, 40))
		for perSecond := 3 + 2*rand.Float64(); time.Now().Before(until); {
			if pause(ctx, time.Duration(rand.ExpFloat64()/perSecond*float64(time.Second))) != nil {
				return nil //nolint:nilerr // its context has ended
			}
			_, _, err := c.api.OrganizationsPage(ctx, "") // served or refused, the sandbox has written it down
			if _, answered := errors.AsType[*apiclient.Error](err); err != nil && !answered && ctx.Err() == nil {
				return fmt.Errorf("others' request: %w", err)
			}
		}
		if pause(ctx, seconds(10, 40)) != nil {
			return nil //nolint:nilerr // its context has ended
		}
	}
}

// smallRun is how long a small run takes from its submitting to its end while the
// workers are at work on a big one that came before.
func smallRun(ctx context.Context, s *store, behind int, stderr io.Writer) (took time.Duration, err error) {
	err = withTenant(ctx, s, stderr, func(t *tenant) (err error) {
		for _, one := range []struct {
			run  ledger.RunID
			rows int
		}{{runID, behind}, {"small", paceSmall}} {
			file, err := t.seed(ctx, "domains", one.rows)
			if err != nil {
				return err
			}
			began := time.Now()
			if _, err := submit(ctx, s.url, tasks.TypeVerify, string(one.run), "domains.csv",
				bytes.NewReader(file)); err != nil {
				return fmt.Errorf("submit: %w", err)
			}
			if one.run == runID {
				workers, err := startFleet(ctx, s, paceWorkers, t.paced(0.2))
				defer func() { err = errors.Join(err, workers.close()) }()
				if err != nil {
					return err
				}
				const underWay = 20 * time.Second // the first burst is used up, and every place held
				if err := pause(ctx, underWay); err != nil {
					return err
				}
				continue
			}
			run, err := ended(ctx, s, one.run, 50*time.Millisecond)
			if err != nil {
				return err
			}
			if run.Counts[ledger.Done] != run.Total() {
				return fmt.Errorf("of %d rows not all were verified: %v", run.Total(), run.Counts)
			}
			took = time.Since(began)
		}
		return nil
	}, limited(paceRate, paceBurst)...)
	return took, err
}

// request is a line of the sandbox's log.
type request struct {
	At        time.Time `json:"at"`
	Operation string    `json:"operation"`
	Status    int       `json:"status"`
}

// requests is the sandbox's log, oldest first.
func (t *tenant) requests(ctx context.Context) (all []request, err error) {
	body, err := t.get(ctx, "requests")
	if err != nil {
		return nil, err
	}
	for lines := json.NewDecoder(bytes.NewReader(body)); ; {
		var r request
		switch err := lines.Decode(&r); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("read the sandbox's log: %w", err)
		}
		all = append(all, r)
	}
}
