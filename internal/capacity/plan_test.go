package capacity_test

import (
	"math"
	"testing"
	"time"

	"orgops/internal/capacity"
)

func tenant(change func(*capacity.Tenant)) capacity.Tenant {
	t := capacity.Tenant{Name: "acme", Count: 1, Rate: 12.8, SweepRate: 2.56}
	if change != nil {
		change(&t)
	}
	return t
}

// TestExtremeLoads: whatever the load is, no figure is negative, infinite or beyond its type.
func TestExtremeLoads(t *testing.T) {
	const most = 100_000_000
	for name, l := range map[string]capacity.Load{
		"no tenant":  {},
		"no work":    {Tenants: []capacity.Tenant{tenant(nil)}},
		"one worker": {Workers: 1, Tenants: []capacity.Tenant{tenant(nil)}},
		"no limit": {Tenants: []capacity.Tenant{tenant(func(t *capacity.Tenant) {
			t.Rate, t.SweepRate, t.Rows, t.Domains, t.SweepEvery = math.Inf(1), math.Inf(1), most, most, time.Minute
		})}},
		"hardly any rate": {Tenants: []capacity.Tenant{tenant(func(t *capacity.Tenant) {
			t.Rate, t.SweepRate, t.Rows, t.Domains, t.SweepEvery = 1.0/30, 1e-9, most, most, time.Minute
		})}},
		"everything": {Tenants: []capacity.Tenant{tenant(func(t *capacity.Tenant) {
			t.Count, t.Rate, t.SweepRate, t.Rows, t.Kept, t.Domains, t.SweepEvery = 10_000, 100_000, 100_000, most, most, most, time.Minute
		})}},
	} {
		t.Run(name, func(t *testing.T) {
			p := capacity.Estimate(l)
			m := p.Memory
			for what, n := range map[string]int64{
				"open": m.Open, "kept": m.Kept, "domains": m.Domains, "sweeps": m.Sweeps, "tenants": m.Tenants, "redis": m.Redis, "worker": p.WorkerMemory, "connections": int64(p.Connections), "workers": int64(p.Workers),
			} {
				if n < 0 || n > math.MaxInt64/2 {
					t.Errorf("%s: %d", what, n)
				}
			}
			if m.Max <= m.Data()+m.Redis {
				t.Errorf("maxmemory %d of %d bytes", m.Max, m.Data()+m.Redis)
			}
			if p.Workers < 1 || !(p.Idle >= 0 && p.Idle <= p.Commands && p.Commands < 1e12 && p.IdleCPU <= p.RedisCPU) {
				t.Errorf("%d workers, %g of %g commands/s, %g of %g cores", p.Workers, p.Idle, p.Commands, p.IdleCPU, p.RedisCPU)
			}
			for _, times := range p.Times {
				if times.Fewest < 0 || times.Most < times.Fewest || times.Sweep < 0 {
					t.Errorf("times %+v", times)
				}
			}
			for i, l := range p.Limits {
				if math.IsNaN(l.Used) || math.IsInf(l.Used, 0) || l.Used < 0 || i > 0 && l.Used > p.Limits[i-1].Used {
					t.Errorf("limit %d %+v", i, l)
				}
			}
		})
	}
}

// TestTenantsAlike: n tenants that are alike need as much as n tenants listed one by one.
func TestTenantsAlike(t *testing.T) {
	some := func(t *capacity.Tenant) { t.Rows, t.Kept, t.Domains, t.SweepEvery = 1000, 2000, 3000, 24*time.Hour }
	alike := capacity.Estimate(capacity.Load{Tenants: []capacity.Tenant{tenant(func(t *capacity.Tenant) { some(t); t.Count = 2 })}})
	two := capacity.Estimate(capacity.Load{Tenants: []capacity.Tenant{tenant(some), tenant(some)}})
	if alike.Memory != two.Memory || alike.Commands != two.Commands || alike.WorkerMemory != two.WorkerMemory || alike.Connections != two.Connections {
		t.Errorf("%+v\n%+v", alike, two)
	}
	for i := range two.Limits {
		if alike.Limits[i] != two.Limits[i] {
			t.Errorf("%+v, %+v", alike.Limits[i], two.Limits[i])
		}
	}
}

// TestTime: a row needs two requests, or three.
func TestTime(t *testing.T) {
	p := capacity.Estimate(capacity.Load{Tenants: []capacity.Tenant{tenant(func(t *capacity.Tenant) { t.Rows = 12_800 })}})
	if want := (capacity.Times{Fewest: 2000 * time.Second, Most: 3000 * time.Second}); p.Times[0] != want {
		t.Errorf("%+v, want %+v", p.Times[0], want)
	}
}
