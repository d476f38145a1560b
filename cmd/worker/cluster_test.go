package main

import (
	"context"
	"net"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"orgops/internal/redistest"
)

// TestClusterFailover kills a master of a Cluster amid runs, whose replica takes over, and moves
// the keys of another before and after that. Workers and producers continue by themselves.
func TestClusterFailover(t *testing.T) {
	inProcesses(t)
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 1, "--cluster-node-timeout", "2000")
	masters, replicas := cluster.Nodes[:3], cluster.Nodes[3:]
	f := assembleOn(outlasting(t, cluster.URL()), cluster.URL())
	f.forgets = true // a replica may lack the last writes of its master
	f.slow(20, 30)
	f.work("one")
	f.work("other")
	submitted := f.enqueueAll(survivors)
	f.percent(10)
	moveSlots(t, masters[1], masters[2])
	f.percent(25)
	masters[0].Kill()
	await(t, "the failover", func() bool {
		return slices.ContainsFunc(replicas, func(s *redistest.Server) bool { return roleOf(t, s) == "master" })
	})
	f.percent(50)
	moveSlots(t, masters[2], masters[1])
	masters[0].Restart()
	f.percent(75)
	submitted()
	f.bringBack()
	f.compareLoosely()
	if role := roleOf(t, masters[0]); role != "slave" {
		t.Errorf("the killed master is %s, want slave", role)
	}
}

// moveSlots moves the slots in which a master has keys to another, as redis-cli --cluster
// reshard does.
func moveSlots(t *testing.T, from, to *redistest.Server) {
	t.Helper()
	source, target := from.Client(), to.Client()
	moved := 0
	for slot := range 1 << 14 {
		n, err := source.ClusterCountKeysInSlot(t.Context(), slot).Result()
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			moveSlot(t, slot, source, target)
			moved++
		}
	}
	t.Logf("%d slots with keys were moved from %s to %s", moved, from.Addr, to.Addr)
	if moved == 0 {
		t.Errorf("no slot was moved: the test shows nothing")
	}
}

func moveSlot(t *testing.T, slot int, source, target *redis.Client) {
	t.Helper()
	ctx := t.Context()
	host, port, err := net.SplitHostPort(target.Options().Addr)
	if err != nil {
		t.Fatal(err)
	}
	do := func(c *redis.Client, args ...any) {
		t.Helper()
		if err := c.Do(ctx, args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	do(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", idOf(ctx, t, source))
	do(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", idOf(ctx, t, target))
	for {
		keys, err := source.ClusterGetKeysInSlot(ctx, slot, 10).Result()
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) == 0 {
			break
		}
		args := []any{"MIGRATE", host, port, "", 0, 5000, "KEYS"}
		for _, key := range keys {
			args = append(args, key)
		}
		do(source, args...)
	}
	for _, node := range []*redis.Client{target, source} {
		do(node, "CLUSTER", "SETSLOT", slot, "NODE", idOf(ctx, t, target))
	}
}

func idOf(ctx context.Context, t *testing.T, node *redis.Client) string {
	t.Helper()
	id, err := node.ClusterMyID(ctx).Result()
	if err != nil {
		t.Fatal(err)
	}
	return id
}
