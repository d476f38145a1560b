package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/redisconn"
	"orgops/internal/redistest"
)

// survivors is the number of rows of each kind in the runs whose Redis is killed.
const survivors = 1000

// outlasting returns a desk at a Redis that is stopped and restarted.
func outlasting(t *testing.T, url string) desk {
	t.Helper()
	client, err := redisconn.Open(redisconn.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	redisconn.Retry(client, patience, func(err error) { t.Logf("the test waits for Redis: %v", err) })
	return desk{t, client, ledger.New(client)}
}

// percent waits until that percentage of all rows is settled.
func (f *fleet) percent(n int64) {
	f.t.Helper()
	all := int64(len(submissions) * survivors)
	await(f.t, fmt.Sprintf("%d %% of the rows", n), func() bool { return f.settled() >= all*n/100 })
	if f.settled() == all {
		f.t.Error("all was done before: the test shows nothing")
	}
}

// forget truncates the file to size.
func forget(t *testing.T, file string, size int64) {
	t.Helper()
	info, err := os.Stat(file)
	if err == nil {
		err = os.Truncate(file, size)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("of %d bytes the last %d are lost", info.Size(), info.Size()-size)
}

// bringBack recovers from a loss as an operator does: it submits incomplete runs again until
// all runs have ended.
func (f *fleet) bringBack() {
	f.t.Helper()
	awaitFor(f.t, recovery, "the ends of all runs", func() bool {
		ended := true
		for _, s := range submissions {
			r, err := f.ledger.Get(f.t.Context(), "", ledger.RunID(s.run))
			if err != nil || !r.HasAllRows() {
				f.t.Logf("run %s is not submitted whole (%v): once more", s.run, err)
				f.typed(append(slices.Clone(s.command), "--run", s.run, f.dir+"/"+s.file)...)
			}
			ended = ended && err == nil && r.Ended()
		}
		return ended
	})
}

// typed runs enqueue with these arguments, requires success and returns its output.
func (f *fleet) typed(args ...string) string {
	f.t.Helper()
	out, err := f.command("enqueue", "enqueue", args...).Output()
	if err != nil {
		log, _ := os.ReadFile(f.logOf("enqueue")) // best effort
		f.t.Fatalf("enqueue %q: %v; its log:\n%s", args, err, log)
	}
	return string(out)
}

// startWatched starts a master, its replica, and a Sentinel.
func startWatched(t *testing.T) (master, replica, sentinel *redistest.Server) {
	t.Helper()
	master = redistest.Start(t)
	replica = redistest.Start(t, "--replicaof", strings.Replace(master.Addr, ":", " ", 1),
		"--repl-diskless-sync-delay", "0")
	awaitInStep(t, replica.Client())
	sentinel = redistest.StartSentinel(t, "main", master)
	await(t, "the Sentinel to know the replica", func() bool {
		known, err := sentinel.Client().Do(t.Context(), "SENTINEL", "REPLICAS", "main").Slice()
		return err == nil && len(known) == 1
	})
	return master, replica, sentinel
}

func watchedBy(sentinel *redistest.Server) (url string) {
	return "redis-sentinel://" + sentinel.Addr + "/main"
}

func awaitInStep(t *testing.T, replica *redis.Client) {
	t.Helper()
	await(t, "the replica's link", func() bool {
		info, err := replica.Info(t.Context(), "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:up")
	})
}

func roleOf(t *testing.T, s *redistest.Server) string {
	t.Helper()
	role, err := s.Client().Do(t.Context(), "ROLE").Slice()
	if err != nil || len(role) == 0 {
		t.Fatalf("role: %v, %v", role, err)
	}
	return fmt.Sprint(role[0])
}
