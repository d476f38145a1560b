package sandbox

import (
	"maps"
	"sync"
)

// Counts is the body of GET /_sandbox/counts: the numbers of requests since the start. They
// are complete, unlike the logs.
type Counts struct {
	// Requests counts requests that were answered, or aborted by a fault, by operation; "" is
	// for unknown paths and methods.
	Requests map[string]Tally `json:"requests"`
	// Queries counts DNS queries; those without an answer have the code "".
	Queries Tally `json:"queries"`
}

// Tally counts requests or queries of one kind.
type Tally struct {
	All int64 `json:"all"`
	// Answers counts them by status or response code: "200", "NXDOMAIN".
	Answers map[string]int64 `json:"answers"`
	// Times is the number of targets (path and query, or name and type) by the number of
	// their requests: {"1": 99, "2": 1} are a hundred targets, of which one was requested
	// twice.
	Times map[int64]int64 `json:"times"`
}

type counts struct {
	mu    sync.Mutex
	sorts map[string]*counted
}

type counted struct {
	answers map[string]int64
	targets map[string]int64
}

func newCounts() *counts { return &counts{sorts: map[string]*counted{}} }

func (c *counts) add(sort, target, answer string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.sorts[sort]
	if !ok {
		s = &counted{answers: map[string]int64{}, targets: map[string]int64{}}
		c.sorts[sort] = s
	}
	s.answers[answer]++
	s.targets[target]++
}

func (c *counts) tallies() map[string]Tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]Tally, len(c.sorts))
	for sort, s := range c.sorts {
		t := Tally{Answers: maps.Clone(s.answers), Times: map[int64]int64{}}
		for _, n := range s.targets {
			t.All += n
			t.Times[n]++
		}
		all[sort] = t
	}
	return all
}

// Counts returns the numbers of requests and queries.
func (s *Sandbox) Counts() Counts {
	return Counts{Requests: s.log.counts.tallies(), Queries: s.zone.counts.tallies()[""]}
}
