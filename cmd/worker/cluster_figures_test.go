package main

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

const (
	// envClusterRows is the number of rows that TestClusterFigures submits, such as 1000000.
	// Unset, the test is skipped: it takes many minutes.
	envClusterRows = "ORGOPS_TEST_CLUSTER_ROWS"
	// envClusterExecuted is the number of rows that it executes.
	envClusterExecuted = "ORGOPS_TEST_CLUSTER_EXECUTED"
)

// TestClusterFigures measures a big run on one Redis, on a Cluster of six masters, and on one
// of three masters with a replica each. During the execution slots are moved, and if there are
// replicas, a master is killed.
func TestClusterFigures(t *testing.T) {
	if os.Getenv(envClusterRows) == "" {
		t.Skip("set " + envClusterRows + " and " + envClusterExecuted)
	}
	rows, executed := number(t, envClusterRows), number(t, envClusterExecuted)
	for _, tc := range []struct {
		name  string
		start func(t *testing.T) site
	}{
		{"one Redis", func(t *testing.T) site {
			server := redistest.Start(t)
			return site{url: server.URL(), masters: []*redistest.Server{server}}
		}},
		{"six masters", func(t *testing.T) site { return startSite(t, 6, 0) }},
		{"three masters with replicas", func(t *testing.T) site { return startSite(t, 3, 1) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inProcesses(t)
			s := tc.start(t)
			f := assembleOn(outlasting(t, s.url), s.url)
			f.forgets = s.cluster != nil
			f.submitBig(s, rows)
			f.executeBig(s, executed)
		})
	}
}

// site is where a fleet stores its rows.
type site struct {
	url     string
	masters []*redistest.Server
	cluster *redistest.Cluster // nil: a single Redis
}

func startSite(t *testing.T, masters, replicas int) site {
	t.Helper()
	c := redistest.StartCluster(t, masters, replicas, "--cluster-node-timeout", "2000")
	return site{c.URL(), c.Nodes[:masters], c}
}

func number(t *testing.T, variable string) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv(variable))
	if err != nil || n < 1 {
		t.Fatalf("%s=%s: want a number", variable, os.Getenv(variable))
	}
	return n
}

// submitBig submits a run, logs where its rows are, and cancels it.
func (f *fleet) submitBig(s site, rows int) {
	f.t.Helper()
	file := filepath.Join(f.dir, "big.csv")
	writeUpdates(f.t, file, rows)
	var before []int
	for _, m := range s.masters {
		before = append(before, memoryOf(f.t, m))
	}
	start := time.Now()
	f.typed("domains", "update", "--run", "big", file)
	f.t.Logf("submitted: %.0f rows/s", float64(rows)/time.Since(start).Seconds())
	var have []int
	for i, m := range s.masters {
		n := rowsOn(f.t, m)
		have = append(have, n)
		f.t.Logf("master %d: %d rows, %.1f MB", i+1, n, float64(memoryOf(f.t, m)-before[i])/1e6)
	}
	mean := float64(rows) / float64(len(have))
	f.t.Logf("rows on a master: %.1f %% to %.1f %% of the mean", 100*float64(slices.Min(have))/mean,
		100*float64(slices.Max(have))/mean)
	start = time.Now()
	f.typed("runs", "cancel", "big")
	f.t.Logf("cancelled in %v", time.Since(start).Round(time.Millisecond))
	if r := f.run("big"); r.Total() != int64(rows) || r.Counts["cancelled"] != r.Total() {
		f.t.Errorf("run of %d rows: %v of %d, want all cancelled", rows, r.Counts, r.Total())
	}
}

// writeUpdates writes rows for domains that the tenant does not have.
func writeUpdates(t *testing.T, path string, rows int) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(file)
	fmt.Fprintln(w, "organization_id,discovery_domain_id,use_for_organization_discovery")
	for range rows {
		fmt.Fprintf(w, "org_%s,dom_%s,true\n", rand.Text()[:20], rand.Text()[:20])
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

func memoryOf(t *testing.T, s *redistest.Server) int {
	t.Helper()
	info, err := s.Client().InfoMap(t.Context(), "memory").Result()
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(info["Memory"]["used_memory"])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// rowsOn returns the number of rows of the segments that a node has.
func rowsOn(t *testing.T, s *redistest.Server) (n int) {
	t.Helper()
	client := s.Client()
	heads, err := client.Keys(t.Context(), "orgops:v2:{*.*}:head").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, head := range heads {
		rows, err := client.HGet(t.Context(), head, "rows").Int()
		if err != nil {
			t.Fatal(err)
		}
		n += rows
	}
	return n
}

// executeBig has two workers execute a run with disturbances, and compares it with the tenant.
func (f *fleet) executeBig(s site, rows int) {
	f.t.Helper()
	updates := submissions[1]
	f.enqueue(rows, updates)()
	f.work("one")
	f.work("other")
	begin := time.Now()
	at := begin
	var done int64
	reach := func(percent int64) {
		f.t.Helper()
		want := int64(rows) * percent / 100
		awaitFor(f.t, time.Hour, fmt.Sprintf("%d %% of the rows", percent),
			func() bool { return f.settledOf(updates) >= want })
		now := f.settledOf(updates)
		f.t.Logf("executed to %d %%: %.0f rows/s", percent, float64(now-done)/time.Since(at).Seconds())
		at, done = time.Now(), now
	}
	reach(25)
	if s.cluster != nil {
		f.reshard(s)
		reach(50)
	}
	if s.cluster != nil && len(s.cluster.Nodes) > len(s.masters) {
		s.masters[0].Kill()
		reach(75)
	}
	reach(100)
	f.t.Logf("executed: %.0f rows/s in all", float64(rows)/time.Since(begin).Seconds())
	f.compareUpdates(rows, rows, f.requests(), f.state())
}

// reshard moves 500 slots between masters, with redis-cli.
func (f *fleet) reshard(s site) {
	f.t.Helper()
	start := time.Now()
	from, to := s.masters[1].Client(), s.masters[2].Client()
	s.cluster.Manage("reshard", s.masters[1].Addr, "--cluster-from", idOf(f.t, from), "--cluster-to", idOf(f.t, to),
		"--cluster-slots", "500")
	f.t.Logf("500 slots moved in %v", time.Since(start).Round(time.Second))
}

// settledOf returns how many rows of a run are settled. A run of which a killed master had the
// last writes is submitted again.
func (f *fleet) settledOf(s submission) int64 {
	f.t.Helper()
	r, err := f.ledger.Get(f.t.Context(), ledger.RunID(s.run))
	if err != nil || !r.Sealed() || r.Incomplete {
		f.t.Logf("run %s is not submitted whole (%v): once more", s.run, err)
		f.typed(append(slices.Clone(s.command), "--run", s.run, filepath.Join(f.dir, s.file))...)
	}
	return r.Settled()
}
