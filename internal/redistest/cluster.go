package redistest

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/redisconn"
)

const (
	clusterScheme = "redis-cluster://"
	// clusterLock is in the way of nobody who knows which keys are his: of all
	// keys, Keys leaves it out.
	clusterLock = "orgops-test-lock"
)

// takeCluster locks the whole Cluster and empties it.
func takeCluster(t testing.TB, server string) *database {
	t.Helper()
	underHolder(t)
	cluster := openCluster(t, server)
	t.Cleanup(func() { _ = cluster.Close() })
	owner := lockCluster(t, cluster)
	emptyCluster(t, cluster, owner)
	hold(t)
	t.Cleanup(func() {
		emptyCluster(t, cluster, owner)
		letGo()
		release(t, cluster, clusterLock, owner)
	})
	renew(t, cluster, clusterLock, owner) // until before that cleanup
	return &database{url: server, open: func() redis.UniversalClient { return openCluster(t, server) }}
}

func openCluster(t testing.TB, server string) *redis.ClusterClient {
	t.Helper()
	c, err := redisconn.Open(redisconn.Config{URL: server, AllowURLPassword: true})
	if err != nil {
		t.Fatalf("%s: %v", EnvURL, err)
	}
	cluster := c.(*redis.ClusterClient)
	cluster.Options().ReadTimeout = time.Minute // as that of a single server
	return cluster
}

// holder is the test of this process that has the Cluster, by name.
var holder struct {
	sync.Mutex
	name string
}

// underHolder skips a subtest of the test that has the Cluster: it would wait
// for what is not given back before it has ended.
func underHolder(t testing.TB) {
	t.Helper()
	holder.Lock()
	defer holder.Unlock()
	if holder.name != "" && strings.HasPrefix(t.Name(), holder.name+"/") {
		t.Skip("needs a second database, next to that of the test around it: a Cluster has only one")
	}
}

func hold(t testing.TB) {
	holder.Lock()
	defer holder.Unlock()
	holder.name = t.Name()
}

func letGo() {
	holder.Lock()
	defer holder.Unlock()
	holder.name = ""
}

func lockCluster(t testing.TB, cluster *redis.ClusterClient) (owner string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), lockWait)
	defer cancel()
	owner = rand.Text()
	for {
		err := cluster.SetArgs(ctx, clusterLock, owner, redis.SetArgs{Mode: "NX", TTL: lockTTL}).Err()
		if err == nil {
			return owner
		}
		if !errors.Is(err, redis.Nil) {
			t.Fatalf("lock the Cluster of %s: %v", EnvURL, err)
		}
		select { // Another test has it.
		case <-ctx.Done():
			t.Fatalf("the Cluster of %s is never free", EnvURL)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// emptyCluster empties every master, and leaves the lock where it is.
func emptyCluster(t testing.TB, cluster *redis.ClusterClient, owner string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	locked, err := cluster.MasterForKey(ctx, clusterLock)
	if err != nil {
		t.Fatalf("empty the Cluster: %v", err)
	}
	const allButTheLock = `redis.call('FLUSHDB') redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 0`
	for _, master := range masters(t, cluster) {
		if master.Options().Addr == locked.Options().Addr {
			err = errors.Join(err, master.Eval(ctx, allButTheLock, []string{clusterLock}, owner, lockTTL.Milliseconds()).Err())
			continue
		}
		err = errors.Join(err, master.FlushDB(ctx).Err())
	}
	if err != nil {
		t.Errorf("empty the Cluster: %v", err)
	}
}

// masters are clients of the nodes that have slots.
func masters(t testing.TB, cluster *redis.ClusterClient) []*redis.Client {
	t.Helper()
	var mu sync.Mutex
	var all []*redis.Client
	err := cluster.ForEachMaster(context.WithoutCancel(t.Context()), func(_ context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, c)
		return nil
	})
	if err != nil {
		t.Fatalf("the masters of the Cluster: %v", err)
	}
	return all
}
