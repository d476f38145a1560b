package main

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// TestClusterFailover kills a master of a Cluster amid runs, whose replica takes over, moves the
// keys of another before and after that, and kills a worker. Workers and producers continue by
// themselves.
func TestClusterFailover(t *testing.T) {
	inProcesses(t)
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 1, "--cluster-node-timeout", "2000")
	masters, replicas := cluster.Nodes[:3], cluster.Nodes[3:]
	f := assembleOn(outlasting(t, cluster.URL()), cluster.URL())
	f.forgets = true // a replica may lack the last writes of its master
	// So that there is work left after each step, also on a machine that takes long for one.
	f.env["ORGOPS_RATE"], f.env["ORGOPS_BURST"] = "100/s", "10"
	f.box.AddFault(sandbox.Fault{Latency: 400 * time.Millisecond, AnswerLatency: 400 * time.Millisecond})
	one := f.work("one")
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
	one.signal(syscall.SIGKILL)
	_ = one.wait(patience) // killed
	f.work("one")
	moveSlots(t, masters[2], masters[1])
	masters[0].Restart()
	f.percent(75)
	submitted()
	f.bringBack()
	f.compare(survivors, 0, submissions...)
	if role := roleOf(t, masters[0]); role != "slave" {
		t.Errorf("the killed master is %s, want slave", role)
	}
}

// moveSlots moves the slots in which a master has keys to another, as redis-cli --cluster
// reshard does.
func moveSlots(t *testing.T, from, to *redistest.Server) {
	t.Helper()
	source, target := from.Client(), to.Client()
	counts := make([]*redis.IntCmd, 1<<14)
	if _, err := source.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for slot := range counts {
			counts[slot] = p.ClusterCountKeysInSlot(t.Context(), slot)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	moved := 0
	for slot, n := range counts {
		if n.Val() > 0 {
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
	host, port, err := net.SplitHostPort(target.Options().Addr)
	if err != nil {
		t.Fatal(err)
	}
	beginMove(t, slot, source, target)
	for {
		keys, err := source.ClusterGetKeysInSlot(t.Context(), slot, 10).Result()
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
		command(t, source, args...)
	}
	for _, node := range []*redis.Client{target, source} {
		command(t, node, "CLUSTER", "SETSLOT", slot, "NODE", idOf(t, target))
	}
}

func beginMove(t *testing.T, slot int, source, target *redis.Client) {
	t.Helper()
	command(t, target, "CLUSTER", "SETSLOT", slot, "IMPORTING", idOf(t, source))
	command(t, source, "CLUSTER", "SETSLOT", slot, "MIGRATING", idOf(t, target))
}

func command(t *testing.T, node *redis.Client, args ...any) {
	t.Helper()
	if err := node.Do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}

func idOf(t *testing.T, node *redis.Client) string {
	t.Helper()
	id, err := node.ClusterMyID(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestClusterSlotIsStuck leaves the move of a tenant's slot unfinished, as an interrupted
// redis-cli does. Its runs end when the move is finished.
func TestClusterSlotIsStuck(t *testing.T) {
	inProcesses(t)
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	f := assembleOn(outlasting(t, cluster.URL()), cluster.URL())
	updates, clients := submissions[1], submissions[2]
	f.enqueue(100, updates, clients)()
	source, target, slot := f.stick(cluster, "{tenant:"+tasks.DefaultTenant+"}")
	f.work("one")
	await(t, "it is logged", func() bool {
		return slices.ContainsFunc(f.log("one"), func(line map[string]any) bool {
			return strings.Contains(fmt.Sprint(line["error"]), "TRYAGAIN")
		})
	})
	moveSlot(t, slot, source, target)
	await(t, "the end of the runs", func() bool { return f.run(updates.run).Ended() && f.run(clients.run).Ended() })
	f.compare(100, 0, updates, clients)
}

// stick starts to move the slot of a key from its master to another.
func (f *fleet) stick(c *redistest.Cluster, key string) (source, target *redis.Client, slot int) {
	f.t.Helper()
	ctx := f.t.Context()
	n, err := f.redis.ClusterKeySlot(ctx, key).Result()
	if err != nil {
		f.t.Fatal(err)
	}
	slot = int(n)
	for _, node := range c.Nodes {
		client := node.Client()
		n, err := client.ClusterCountKeysInSlot(ctx, slot).Result()
		switch {
		case err != nil:
			f.t.Fatal(err)
		case n > 0:
			source = client
		default:
			target = client
		}
	}
	beginMove(f.t, slot, source, target)
	return source, target, slot
}
