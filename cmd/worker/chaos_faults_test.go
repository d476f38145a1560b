package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"orgops/internal/sandbox"
)

// fault disturbs one component.
type fault struct {
	kind       string
	on         string // the part: no two faults of a time have the same
	hold       time.Duration
	begin, end func()
	waits      bool // end waits for a worker, which may wait for what else is disturbed: it comes last
}

func (f fault) String() string { return fmt.Sprintf("%s (%s) for %v", f.kind, f.on, f.hold) }

// draw draws a fault. It depends on draws alone, so that a seed repeats its faults.
func (c *chaos) draw(draws *rand.Rand) fault {
	all := []func(*rand.Rand) fault{c.apiLink, c.apiLink, c.killed, c.suspended, c.terminated, c.answers, c.answers,
		c.readsDropped, c.readsDropped, c.readsDropped}
	if c.guarded != nil {
		all = append(all, c.redisLink, c.redisLink, c.producersLink, c.redisRestart, c.redisSuspended, c.redisFull, c.rights)
	} else {
		all = append(all, c.failover, c.failover, c.masterSuspended)
	}
	if draws.IntN(2) == 0 { // it takes longer than others
		all = append(all, c.tenantStopped)
	}
	if c.forgets {
		all = append(all, c.redisForgets, c.redisForgets)
	}
	return all[draws.IntN(len(all))](draws)
}

func upTo(draws *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(100+draws.IntN(int(most.Milliseconds()))) * time.Millisecond
}

func (c *chaos) drawWorker(draws *rand.Rand) *chaosWorker {
	return c.workers[draws.IntN(len(c.workers))]
}

func drawMode(draws *rand.Rand) linkMode { return severed + linkMode(draws.IntN(len(linkFaults))) }

func (c *chaos) apiLink(draws *rand.Rand) fault {
	w, mode := c.drawWorker(draws), drawMode(draws)
	return fault{
		kind: "API link " + linkFaults[mode], on: "API of " + w.name, hold: upTo(draws, 8*time.Second),
		begin: func() { w.api.set(mode) },
		end:   func() { c.holdBack(w.api.set(intact)) },
	}
}

// holdBack records that requests may arrive together from now on.
func (c *chaos) holdBack(n int) { c.held = append(c.held, heldBack{time.Now(), n}) }

// redisLink disturbs the link to Redis of one worker, or of all.
func (c *chaos) redisLink(draws *rand.Rand) fault {
	mode, first, n := drawMode(draws), draws.IntN(chaosWorkers), 1
	what := "a worker's Redis link "
	if draws.IntN(3) == 0 {
		first, n, what = 0, chaosWorkers, "all workers' Redis links "
	}
	cut := c.workers[first : first+n]
	return fault{
		kind: what + linkFaults[mode], on: "Redis links", hold: upTo(draws, 10*time.Second),
		begin: func() {
			for _, w := range cut {
				w.redis.set(mode)
			}
		},
		end: func() {
			for _, w := range cut {
				w.redis.set(intact)
			}
		},
	}
}

func (c *chaos) producersLink(draws *rand.Rand) fault {
	mode := drawMode(draws)
	return fault{
		kind: "producers' Redis link " + linkFaults[mode], on: "producers' link", hold: upTo(draws, 8*time.Second),
		begin: func() { c.inbound.set(mode) },
		end:   func() { c.inbound.set(intact) },
	}
}

func (c *chaos) killed(draws *rand.Rand) fault {
	w := c.drawWorker(draws)
	var again func()
	return fault{
		kind: "worker killed", on: w.name, hold: upTo(draws, 3*time.Second),
		begin: func() { again = w.signal(syscall.SIGKILL) },
		end:   func() { again() },
	}
}

// inFlight returns how many requests of a worker may be between their permit and their
// sending.
const inFlight = 8

// suspended stops a worker for longer than the dispatcher's lease of 3 s, and at times longer
// than a session's of 15 s.
func (c *chaos) suspended(draws *rand.Rand) fault {
	w, holds := c.drawWorker(draws), []time.Duration{time.Second, 5 * time.Second, 17 * time.Second, 20 * time.Second}
	return fault{
		kind: "worker suspended", on: w.name, hold: holds[draws.IntN(len(holds))],
		begin: func() { w.signal(syscall.SIGSTOP) },
		end: func() {
			c.holdBack(inFlight)
			w.signal(syscall.SIGCONT)
		},
	}
}

func (c *chaos) terminated(draws *rand.Rand) fault {
	w := c.drawWorker(draws)
	var again func()
	return fault{
		kind: "worker stopped", on: w.name, hold: upTo(draws, 3*time.Second), waits: true,
		begin: func() { again = w.signal(syscall.SIGTERM) },
		end: func() {
			if err := w.stopped(); err != nil {
				c.t.Errorf("%s, stopped: %v", w.name, err)
			}
			again()
		},
	}
}

// answers makes one in two or three of the tenant's responses fail.
func (c *chaos) answers(draws *rand.Rand) fault {
	faults := []struct {
		kind  string
		fault sandbox.Fault
	}{
		{"answers lost by the API", sandbox.Fault{DropAfter: true}},
		{"answers cut off by the API", sandbox.Fault{Truncate: true}},
		{"requests dropped by the API", sandbox.Fault{DropBefore: true}},
		{"changes answered with 503", sandbox.Fault{Status: http.StatusServiceUnavailable, Handled: true}},
		{"requests answered with 500", sandbox.Fault{Status: http.StatusInternalServerError}},
		{"answers late by 2 s", sandbox.Fault{AnswerLatency: 2 * time.Second}},
	}
	f, each, seen := faults[draws.IntN(len(faults))], int64(2+draws.IntN(2)), new(atomic.Int64)
	f.fault.Match = func(sandbox.Request) bool { return seen.Add(1)%each == 0 }
	var remove func()
	return fault{
		kind: f.kind, on: "the API's answers", hold: upTo(draws, 6*time.Second),
		begin: func() { remove = c.box.AddFault(f.fault) },
		end:   func() { remove() },
	}
}

// readsDropped drops the answer to every other read over a reused connection, which net/http
// alone would retry.
func (c *chaos) readsDropped(draws *rand.Rand) fault {
	var seen atomic.Int64
	var remove func()
	return fault{
		kind: "reads dropped by the API", on: "the API's answers", hold: 4*time.Second + upTo(draws, 8*time.Second),
		begin: func() {
			remove = c.box.AddFault(sandbox.Fault{DropBefore: true, Match: func(r sandbox.Request) bool {
				return r.Method == http.MethodGet && seen.Add(1)%2 == 0
			}})
		},
		end: func() { remove() },
	}
}

const theRedis = "Redis"

func (c *chaos) redisRestart(draws *rand.Rand) fault {
	return fault{
		kind: "Redis killed", on: theRedis, hold: upTo(draws, 4*time.Second),
		begin: c.servers[0].Kill,
		end:   c.servers[0].Restart,
	}
}

func (c *chaos) redisSuspended(draws *rand.Rand) fault {
	return fault{
		kind: "Redis suspended", on: theRedis, hold: upTo(draws, 8*time.Second),
		begin: func() { c.servers[0].Signal(syscall.SIGSTOP) },
		end:   func() { c.servers[0].Signal(syscall.SIGCONT) },
	}
}

// redisForgets kills Redis and restores its state of a second before.
func (c *chaos) redisForgets(draws *rand.Rand) fault {
	return fault{
		kind: "Redis loses its last second", on: theRedis, hold: upTo(draws, 2*time.Second),
		begin: func() {
			before, err := os.Stat(c.servers[0].AOF())
			if err != nil {
				c.t.Fatal(err)
			}
			time.Sleep(time.Second)
			c.servers[0].Kill()
			forget(c.t, c.servers[0].AOF(), before.Size())
		},
		end: func() {
			c.holdBack(chaosBurst)
			c.servers[0].Restart()
		},
	}
}

// asAuditor sends a command to the Redis with users.
func (c *chaos) asAuditor(command ...any) {
	c.t.Helper()
	if err := c.redis.Do(c.t.Context(), command...).Err(); err != nil {
		c.t.Errorf("%v: %v", command, err)
	}
}

func (c *chaos) redisFull(draws *rand.Rand) fault {
	return fault{
		kind: "Redis full", on: theRedis, hold: upTo(draws, 6*time.Second),
		begin: func() { c.asAuditor("CONFIG", "SET", "maxmemory", "1mb") },
		end:   func() { c.asAuditor("CONFIG", "SET", "maxmemory", "0") },
	}
}

// rights takes rights from the workers' user: all, those of scripts, or one command, which
// fails within scripts after others have taken effect.
func (c *chaos) rights(draws *rand.Rand) fault {
	rules := []string{"off", "off", "-evalsha", "-@write", "resetkeys", "-hset", "-zadd", "-zrem", "-del", "-lpush",
		"-publish", "-subscribe", "-setbit"}
	rule := rules[draws.IntN(len(rules))]
	return fault{
		kind: "workers without rights (" + rule + ")", on: theRedis, hold: upTo(draws, 6*time.Second),
		begin: func() {
			c.asAuditor("ACL", "SETUSER", "worker", rule)
			if rule == "off" {
				c.asAuditor("CLIENT", "KILL", "USER", "worker")
			}
		},
		end: func() { c.asAuditor("ACL", "LOAD") },
	}
}

const theTenant = "the tenant"

// tenantStopped stops the tenant: no change is sent after the end of the command.
func (c *chaos) tenantStopped(draws *rand.Rand) fault {
	var since time.Time
	until := func(args ...string) {
		for status := -1; status != 0; {
			_, status = c.enter(args...)
		}
	}
	return fault{
		kind: "tenant stopped", on: theTenant, hold: upTo(draws, 3*time.Second),
		begin: func() {
			until("tenant", "stop", "default")
			since = time.Now()
		},
		end: func() {
			c.stops = append(c.stops, span{since, time.Now()})
			until("tenant", "start", "default")
		},
	}
}

// failover kills the master. Its replica takes over, and gets the former one as replica.
func (c *chaos) failover(draws *rand.Rand) fault {
	return fault{
		kind: "Sentinel failover", on: theRedis, hold: upTo(draws, 3*time.Second),
		begin: func() { c.servers[0].Kill() },
		end: func() {
			c.promoted()
			c.servers[1].Restart()
			c.follows()
		},
	}
}

// masterSuspended has Sentinel promote a replica while the former master is suspended. That
// one accepts writes for a while after it continues, and loses them.
func (c *chaos) masterSuspended(*rand.Rand) fault {
	return fault{
		kind: "Sentinel failover, the former master suspended", on: theRedis,
		begin: func() { c.servers[0].Signal(syscall.SIGSTOP) },
		end: func() {
			c.promoted()
			c.servers[1].Signal(syscall.SIGCONT)
			c.follows()
		},
	}
}

// promoted waits until Sentinel says that the replica is the master.
func (c *chaos) promoted() {
	c.t.Helper()
	c.servers[0], c.servers[1] = c.servers[1], c.servers[0]
	c.holdBack(chaosBurst)
	await(c.t, "another master", func() bool {
		addr, err := c.sentinel.Do(c.t.Context(), "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main").StringSlice()
		return err == nil && strings.Join(addr, ":") == c.servers[0].Addr
	})
}

// follows waits until the former master is the replica of the present one.
func (c *chaos) follows() {
	c.t.Helper()
	host, port, _ := strings.Cut(c.servers[0].Addr, ":")
	client := c.servers[1].Client()
	await(c.t, "the former master's change", func() bool {
		return client.Do(context.WithoutCancel(c.t.Context()), "REPLICAOF", host, port).Err() == nil
	})
	awaitInStep(c.t, client)
}
