package health

import (
	"fmt"
	"math"
	"strings"
	"time"

	"orgops/internal/capacity"
)

// Plan describes the needs of a load. A limit that is exceeded is wrong, one that is nearly
// reached a warning.
func Plan(l capacity.Load) []Finding {
	p := capacity.Estimate(l)
	return append(append(requirements(p), times(l, p)...), limits(p.Limits)...)
}

// requirements describes the needs of Redis and of the workers.
func requirements(p capacity.Plan) []Finding {
	m := p.Memory
	redis := about("redis", []Finding{
		ok("%s for data: %s open rows, %s results, %s domain states, %s rows of sweeps, %s tenants and queues",
			size(m.Data()), size(m.Open), size(m.Kept), size(m.Domains), size(m.Sweeps), size(m.Tenants)),
		ok("maxmemory %dmb: data, %s for Redis itself, and a margin; up to %s of the machine while Redis rewrites its append-only file", m.Max>>20, size(m.Redis), size(2*m.Max)),
		ok("%.0f commands/s and %s of a core while all tenants work; %.0f commands/s and %s without work", p.Commands, percent(p.RedisCPU), p.Idle, percent(p.IdleCPU)),
		ok("%d connections", p.Workers*p.Connections),
	})
	return append(redis, about("workers", []Finding{
		ok("%d, of %d cores each: %s of these are used while all tenants work", p.Workers, capacity.Cores, percent(p.WorkerCPU/float64(p.Workers*capacity.Cores))),
		ok("%s of memory and %d connections to Redis each", size(p.WorkerMemory), p.Connections),
	})...)
}

// times describes how long the work of each tenant takes. Tenants with the same
// text share a line.
func times(l capacity.Load, p capacity.Plan) (found []Finding) {
	count, at := map[string]int{}, map[string]int{}
	for i, t := range l.Tenants {
		text := work(t, p.Times[i])
		if count[text] == 0 {
			at[text] = len(found)
			found = append(found, Finding{Level: OK, Subject: "tenant " + t.Name, Text: text})
		}
		if count[text] += t.Count; count[text] > 1 {
			f := &found[at[text]]
			first, _, _ := strings.Cut(f.Subject, " and ")
			f.Subject = fmt.Sprintf("%s and %d alike", first, count[text]-1)
		}
	}
	return found
}

// work describes how long the work of a tenant takes.
func work(t capacity.Tenant, took capacity.Times) string {
	rate := "without a rate limit"
	if !math.IsInf(t.Rate, 1) {
		rate = fmt.Sprintf("at %.4g requests/s", t.Rate)
	}
	var parts []string
	if t.Rows > 0 {
		parts = append(parts, fmt.Sprintf("%d rows take %s to %s %s, once their tokens are there", t.Rows, lasting(took.Fewest), lasting(took.Most), rate))
	}
	switch {
	case t.Domains > 0 && t.SweepEvery > 0:
		parts = append(parts, fmt.Sprintf("a sweep of %d domains takes %s, every %s", t.Domains, lasting(took.Sweep), lasting(t.SweepEvery)))
	case t.Domains > 0:
		parts = append(parts, "no sweep checks its domains (--sweep is off)")
	}
	if len(parts) == 0 {
		return "no work is planned"
	}
	return strings.Join(parts, "; ")
}

// limits describes the limits, beginning with the one that is reached first.
func limits(all []capacity.Limit) (found []Finding) {
	const nearly = 0.7
	for i, l := range all {
		switch {
		case l.Used > 1:
			found = append(found, wrong(l.Do, "%s: %s is needed", l.What, percent(l.Used)))
		case l.Used > nearly:
			found = append(found, warn(l.Do, "%s: %s is used", l.What, percent(l.Used)))
		case i == 0 && l.Used > 0:
			found = append(found, ok("first is %s: %s is used, so it suffices for %s times this load", l.What, percent(l.Used), rounded(1/l.Used)))
		}
	}
	return about("limits", found)
}

// size returns an amount in MB, rounded up.
func size(bytes int64) string { return fmt.Sprintf("%d MB", (bytes+999_999)/1_000_000) }

func percent(share float64) string { return rounded(100*share) + " %" }

// rounded returns a number with a decimal if it is small.
func rounded(n float64) string {
	if n < 10 {
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.0f", n)
}

// lasting returns a time as exactly as an estimate is.
func lasting(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.0f days", d.Hours()/24)
	case d >= time.Hour:
		text := strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
		if whole, ok := strings.CutSuffix(text, "h0m"); ok {
			return whole + "h"
		}
		return text
	}
	return d.Round(time.Second).String()
}
