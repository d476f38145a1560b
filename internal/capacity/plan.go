// Package capacity estimates the Redis and the workers that tenants need, the duration of
// their rows, and the limit that is reached first. It is pure computation: its constants were
// measured, and tests compare the sizes with a Redis.
package capacity

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Tenant is the load of a tenant, or of several that are alike.
type Tenant struct {
	Name  string
	Count int // of tenants that are alike
	// Rate is in requests per second, after the reserve, and SweepRate the part of it that
	// sweeps may use; +Inf: no limit.
	Rate, SweepRate float64
	// Rows are open at a time, and Kept have ended within 30 days. Both are of domains verify.
	Rows, Kept int64
	// Domains are verified, and checked by a sweep each SweepEvery; 0: there are no sweeps.
	Domains    int64
	SweepEvery time.Duration
}

// Load is all that one Redis and its workers do.
type Load struct {
	Tenants []Tenant
	Workers int // 0: as many as are needed, and two at least
}

// Plan holds the needs of a load whose tenants all work at their rates at the same time.
type Plan struct {
	Tenants, Busy int // all tenants, and those with rows or sweeps
	Memory        Memory
	// Commands and Idle are commands to Redis per second, while all tenants work and while
	// none does; RedisCPU and IdleCPU are the cores of Redis that they need.
	Commands, Idle    float64
	Polls             float64 // of Commands: asynq's servers ask for tasks
	RedisCPU, IdleCPU float64
	Workers           int
	WorkerCPU         float64 // cores, of all workers together
	WorkerMemory      int64   // bytes, of each
	Connections       int     // to Redis, of each worker
	Times             []Times // of each of the load's tenants
	Limits            []Limit // the one that is reached first is the first
}

// Memory is Redis' memory in bytes.
type Memory struct {
	Open, Kept, Domains, Sweeps, Tenants int64
	Redis                                int64 // of Redis itself, with its connections
	Max                                  int64 // to be set as maxmemory
}

// Data returns the memory of all that is stored.
func (m Memory) Data() int64 { return m.Open + m.Kept + m.Domains + m.Sweeps + m.Tenants }

// Times are how long the work of a tenant takes at its rate, DNS apart.
type Times struct {
	Fewest, Most time.Duration // of its open rows, with two or three requests for each
	Sweep        time.Duration
}

// Limit is something of which there is only so much.
type Limit struct {
	What string
	Used float64 // as a share of all there is; above 1 it is not enough
	Do   string  // if it is not enough
}

// Estimate returns the plan of a load.
func Estimate(l Load) Plan {
	p := Plan{Workers: l.Workers}
	var work, checks, between float64
	for _, t := range l.Tenants {
		n := float64(t.Count)
		rows, rechecks, swept := t.perSecond()
		p.Tenants += t.Count
		if rows+swept > 0 {
			p.Busy += t.Count
		}
		work += n * (rows*rowCommands + rechecks*checkCommands + swept*sweptCommands)
		p.WorkerCPU += n * (rows*rowCPU + rechecks*checkCPU + swept*sweptCPU + tenantCPU)
		checks = max(checks, rechecks*checkTakes.Seconds()/checkPlaces)
		times := t.times(swept)
		if t.SweepEvery > 0 {
			between = max(between, times.Sweep.Seconds()/t.SweepEvery.Seconds())
		}
		p.Times = append(p.Times, times)
		p.Memory.add(t)
	}
	if p.Workers == 0 {
		p.Workers = max(fewestWorkers, int(math.Ceil(p.WorkerCPU/Cores/fullCPU)))
	}
	idle := float64(p.Tenants)*firstIdle + float64(p.Workers)*workerCommands
	if p.Workers > 1 {
		idle += float64(p.Tenants) * secondIdle
	}
	p.Polls = float64(p.Workers) * pollsOf(float64(p.Busy)/float64(p.Workers))
	polls := float64(p.Busy)*dispatchCommands + p.Polls
	p.Commands, p.Idle = work+polls+idle, idle
	p.RedisCPU, p.IdleCPU = work*workCommandCPU+(polls+idle)*otherCommandCPU, idle*otherCommandCPU
	p.worker()
	p.Memory.limit(p.Workers * p.Connections)
	p.limits(checks/float64(p.Workers), between)
	return p
}

// pollsOf returns how often a worker asks Redis for tasks each second, if it executes rows of
// so many tenants.
func pollsOf(tenants float64) float64 {
	quick := min(tenants, quickServers)
	return quick*pollsOfOne + quickServers*pollsOfOne*math.Log(max(tenants, quickServers)/quickServers)
}

// perSecond returns how many rows of the tenant are verified each second, how many waiting
// ones are checked again, and how many domains of a sweep are checked.
func (t Tenant) perSecond() (rows, rechecks, swept float64) {
	if t.Rows > 0 {
		rows, rechecks = min(t.Rate/fewestRequests, mostRows), float64(t.Rows)/recheckEvery.Seconds()
	}
	if t.SweepEvery > 0 && t.Domains > 0 {
		swept = min(t.SweepRate/sweptRequests, mostRows)
	}
	return rows, rechecks, swept
}

func (t Tenant) times(swept float64) Times {
	rate := min(t.Rate, fewestRequests*mostRows)
	times := Times{Fewest: span(float64(t.Rows) * fewestRequests / rate), Most: span(float64(t.Rows) * mostRequests / rate)}
	if swept > 0 {
		times.Sweep = span(float64(t.Domains) / swept)
	}
	return times
}

// span returns a time of so many seconds, which may be beyond all bounds.
func span(seconds float64) time.Duration {
	return time.Duration(min(seconds, longest.Seconds()) * float64(time.Second))
}

// add adds the stored data of the tenants.
func (m *Memory) add(t Tenant) {
	n := int64(t.Count)
	m.Open += n * t.Rows * WaitingRow
	m.Kept += n * t.Kept * VerifiedRow
	m.Tenants += n * tenantBytes
	if t.Rows > 0 || t.SweepEvery > 0 {
		m.Tenants += n * busyBytes
	}
	if t.SweepEvery > 0 {
		m.Domains += n * t.Domains * DomainState
		kept := 1 + float64(sweepsKept)/float64(t.SweepEvery) // with the one that is in progress
		m.Sweeps += int64(float64(n*t.Domains*SweptRow) * kept)
	}
}

// limit computes the memory of Redis itself, and its maxmemory.
func (m *Memory) limit(connections int) {
	m.Redis = redisBytes + int64(connections)*connectionBytes
	all := m.Data() + m.Open/WaitingRow*(ReservedRow-WaitingRow) + m.Redis
	m.Max = int64(math.Ceil(float64(all)*margin/maxmemoryStep)) * maxmemoryStep
}

// worker computes the memory and the connections of a worker. Each tenant is served by one
// worker, mostly; if one worker is lost, the others share its tenants.
func (p *Plan) worker() {
	p.WorkerMemory = workerBytes + int64(p.Tenants)*idleTenantBytes
	p.Connections = idleConnections + p.Tenants/idleConnectionsOf
	if p.Busy > 0 {
		others := max(p.Workers-1, 1)
		share := (p.Busy + others - 1) / others
		p.WorkerMemory += workBytes + int64(share)*busyTenantBytes
		p.Connections = max(p.Connections, pools*poolOfCore*Cores+pageConnections+wakeConnections+share)
	}
}

// limits computes the used share of each limit. checks is the used share of a tenant's places
// for DNS checks, and between the share that a sweep takes of the time until the next.
func (p *Plan) limits(checks, between float64) {
	p.Limits = []Limit{
		{"one core of Redis", p.RedisCPU, "give some of the tenants another Redis, or use a Redis Cluster"},
		{"the workers' processors", p.WorkerCPU / float64(p.Workers*Cores), "start more workers"},
		{"the connections that Redis accepts", float64(p.Workers*p.Connections) / maxClients, "raise maxclients"},
		{"the memory of a worker (512 MiB in the Kubernetes manifests)", max(0, float64(p.WorkerMemory-workerBytes-workBytes)) / (workerLimit - workerBytes - workBytes), "raise the limit, or serve fewer tenants by each worker"},
		{"the places for DNS checks of one tenant", checks, "start more workers: waiting rows are checked less often than hourly"},
		{"the time between two sweeps", between, "sweep less often, or raise --sweep-share: sweeps are skipped while one runs"},
	}
	slices.SortStableFunc(p.Limits, func(a, b Limit) int { return cmp.Compare(b.Used, a.Used) })
}
