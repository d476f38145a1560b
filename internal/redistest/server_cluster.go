package redistest

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Cluster is a Redis Cluster of the test's own, whose nodes can be killed.
type Cluster struct {
	// Nodes are the masters, each with as many slots as the others, and then the replicas.
	Nodes []*Server

	t testing.TB
}

// StartCluster starts a Redis Cluster of masters with a number of replicas each, whose nodes
// get further arguments. The test is skipped if Redis is not installed.
func StartCluster(t testing.TB, masters, replicas int, settings ...string) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	for range masters * (1 + replicas) {
		node := append([]string{"--cluster-enabled", "yes", "--cluster-port", freePort(t), "--repl-diskless-sync-delay", "0"},
			settings...)
		c.Nodes = append(c.Nodes, Start(t, node...))
	}
	c.Manage("create", append(c.addresses(), "--cluster-replicas", strconv.Itoa(replicas))...)
	for i, node := range c.Nodes {
		client := node.Client()
		c.await("cluster_state:ok", client.ClusterInfo)
		if i >= masters {
			c.await("master_link_status:up", func(ctx context.Context) *redis.StringCmd {
				return client.Info(ctx, "replication")
			})
		}
	}
	return c
}

// URL returns the URL of the Cluster, with all nodes.
func (c *Cluster) URL() string { return clusterScheme + strings.Join(c.addresses(), ",") }

// Client returns a client, closed with the test.
func (c *Cluster) Client() *redis.ClusterClient {
	client := openCluster(c.t, c.URL())
	c.t.Cleanup(func() { _ = client.Close() })
	return client
}

// Manage runs a command of redis-cli --cluster, such as reshard, and returns when it has ended.
func (c *Cluster) Manage(command string, args ...string) {
	c.t.Helper()
	args = append([]string{"--cluster", command}, append(args, "--cluster-yes")...)
	if out, err := exec.CommandContext(c.t.Context(), "redis-cli", args...).CombinedOutput(); err != nil {
		c.t.Fatalf("redis-cli %q: %v:\n%s", args, err, out)
	}
}

func (c *Cluster) addresses() (all []string) {
	for _, node := range c.Nodes {
		all = append(all, node.Addr)
	}
	return all
}

// await waits until the information that a node gives has such a line.
func (c *Cluster) await(line string, read func(context.Context) *redis.StringCmd) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), serverUp)
	defer cancel()
	for {
		info, err := read(ctx).Result()
		if err == nil && strings.Contains(info, line) {
			return
		}
		select {
		case <-ctx.Done():
			c.t.Fatalf("a node of the Cluster does not report %s: %v:\n%s", line, err, info)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
