package sandbox

import (
	"maps"
	"sync"
)

// Counts is what GET /_sandbox/counts answers: how often the sandbox was asked
// for what, since it was started. Unlike the logs it forgets nothing.
type Counts struct {
	// Requests are those that were answered, or broken off by a fault, by operation;
	// "" is for paths and methods that are none.
	Requests map[string]Tally `json:"requests"`
	// Queries are the DNS questions; those that got no answer have the code "".
	Queries Tally `json:"queries"`
}

// Tally counts questions of one sort.
type Tally struct {
	All int64 `json:"all"`
	// Answers are counted by status or response code: "200", "NXDOMAIN".
	Answers map[string]int64 `json:"answers"`
	// Times says of how many different targets (path and query, or name and type)
	// each was asked for so often: {"1": 99, "2": 1} are a hundred targets, of
	// which one was asked for twice.
	Times map[int64]int64 `json:"times"`
}

// counts counts questions by their sort.
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

// Counts tells how often the sandbox was asked for what.
func (s *Sandbox) Counts() Counts {
	return Counts{Requests: s.log.counts.tallies(), Queries: s.zone.counts.tallies()[""]}
}
