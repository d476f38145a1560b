package redistest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/redisconn"
)

const (
	// lockTTL is how long a database stays locked after the process that locked it has
	// died.
	lockTTL = 2 * time.Minute
	// renewEvery is how often a lock is renewed: often enough for a busy machine.
	renewEvery = 10 * time.Second
	// lockWait is how long a test waits for a free database.
	lockWait = 15 * time.Minute
)

// takeReal locks and empties a free database of the server. Locks are keys of database 0,
// which no test uses.
func takeReal(t testing.TB, server string) *database {
	t.Helper()
	base, err := redis.ParseURL(server)
	u, err2 := url.Parse(server)
	if err != nil || err2 != nil {
		t.Fatalf("%s cannot be read as the URL of a Redis", EnvURL)
	}
	own := options(base.Addr)
	own.Username = base.Username
	own.Password = base.Password
	own.TLSConfig = base.TLSConfig
	locks := redis.NewClient(own)
	t.Cleanup(func() { _ = locks.Close() })
	n := lock(t, locks, locksOf(t, locks)) + 1

	with := *own
	with.DB = n
	empty := func() {
		c := redis.NewClient(&with)
		defer func() { _ = c.Close() }()
		if err := c.FlushDB(context.WithoutCancel(t.Context())).Err(); err != nil {
			t.Errorf("empty database %d: %v", n, err)
		}
	}
	empty()
	t.Cleanup(empty)
	u.Path = "/" + strconv.Itoa(n)
	return &database{url: u.String(), open: func() redis.UniversalClient { return redis.NewClient(&with) }}
}

// locksOf returns the locks of the databases from 1 on.
func locksOf(t testing.TB, locks redis.Cmdable) (names []string) {
	t.Helper()
	config, err := locks.ConfigGet(t.Context(), "databases").Result()
	if err != nil {
		t.Fatalf("read the number of databases of %s: %v", EnvURL, err)
	}
	count, _ := strconv.Atoi(config["databases"])
	for n := 1; n < count; n++ {
		names = append(names, fmt.Sprintf("orgops-test-lock:%d", n))
	}
	return names
}

// takeCluster locks and empties the whole Cluster. It skips a subtest of a test that has the
// Cluster, which would wait for the end of that test.
func takeCluster(t testing.TB, server string) *database {
	t.Helper()
	databases.Range(func(other, _ any) bool {
		if strings.HasPrefix(t.Name(), other.(testing.TB).Name()+"/") {
			t.Skip("needs a second database, next to that of the test around it: a Cluster has only one")
		}
		return true
	})
	cluster := openCluster(t, server)
	t.Cleanup(func() { _ = cluster.Close() })
	lock(t, cluster, []string{clusterLock})
	empty := func() {
		ctx := context.WithoutCancel(t.Context())
		_, err := cluster.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, key := range keysOf(t, cluster, "*") {
				p.Unlink(ctx, key)
			}
			return nil
		})
		if err != nil {
			t.Errorf("empty the Cluster: %v", err)
		}
	}
	empty()
	t.Cleanup(empty)
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

// lock locks one of the names until the test has ended, and returns its index.
func lock(t testing.TB, locks redis.Cmdable, names []string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), lockWait)
	defer cancel()
	owner := rand.Text()
	for {
		for i, name := range names {
			err := locks.SetArgs(ctx, name, owner, redis.SetArgs{Mode: "NX", TTL: lockTTL}).Err()
			if err == nil {
				renew(t, locks, name, owner)
				return i
			}
			if !errors.Is(err, redis.Nil) {
				t.Fatalf("lock a database of %s: %v", EnvURL, err)
			}
		}
		select { // other tests use all databases
		case <-ctx.Done():
			t.Fatalf("no free database at %s: start a server with --databases 64", EnvURL)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// renew renews the lock until the test has ended, and then frees it. The test fails if the lock
// expires: then another test may have used the database too.
func renew(t testing.TB, locks redis.Cmdable, key, owner string) {
	const (
		renewLua = `if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('PEXPIRE', KEYS[1], ARGV[2])`
		freeLua  = `if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end return 0`
	)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var renewing sync.WaitGroup
	renewing.Go(func() {
		for lost := false; !lost; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(renewEvery):
			}
			renewed, err := locks.Eval(ctx, renewLua, []string{key}, owner, lockTTL.Milliseconds()).Bool()
			if lost = err == nil && !renewed; lost {
				t.Errorf("the lock %s of the test's database expired", key)
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		renewing.Wait()
		if err := locks.Eval(context.WithoutCancel(ctx), freeLua, []string{key}, owner).Err(); err != nil {
			t.Logf("free %s: %v", key, err)
		}
	})
}
