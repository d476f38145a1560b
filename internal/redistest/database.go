package redistest

import (
	"context"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"orgops/internal/redisconn"
)

// EnvURL names the environment variable with the URL of a real Redis, without
// a database number, or of a Cluster. Empty or unset: miniredis.
const EnvURL = "ORGOPS_TEST_REDIS_URL"

// clusterScheme is that of the URL of a Cluster.
const clusterScheme = "redis-cluster://"

// clusterLock is the lock of the whole Cluster. Keys leaves it out.
const clusterLock = "orgops-test-lock"

// database is the database of one test.
type database struct {
	url  string
	open func() redis.UniversalClient
	// forServer is redisconn.ForServer; nil: with url.
	forServer func() (redis.UniversalClient, error)
	mini      *miniredis.Miniredis // nil on a real Redis
	// follow makes keys expire by the clock of mini, which a test can set.
	follow func()
}

// databases are the databases in use, by test, so that New and URL agree.
var databases sync.Map // testing.TB -> *database

func startMini(t testing.TB) *database {
	t.Helper()
	collectLess()
	m := miniredis.RunT(t)
	stop := expire(m)
	t.Cleanup(stop)
	return &database{
		url: "redis://" + m.Addr() + "/0", open: piped(m, options(m.Addr())), mini: m,
		follow: sync.OnceFunc(func() { stop(); m.ClockTTL(true) }),
	}
}

// expire makes keys expire in real time until stop is called. ClockTTL does too, but goes through
// all keys at each command.
func expire(m *miniredis.Miniredis) (stop func()) {
	const every = 10 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	var expiring sync.WaitGroup
	expiring.Go(func() {
		for last := time.Now(); ; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(every):
			}
			now := time.Now()
			m.FastForward(now.Sub(last))
			last = now
		}
	})
	return func() { cancel(); expiring.Wait() }
}

// collectLess lets the heap grow to several times its size. Each script that miniredis runs makes
// a Lua state, and the heap of a test is so small that each few scripts had it collected.
var collectLess = sync.OnceFunc(func() { debug.SetGCPercent(400) })

func options(addr string) *redis.Options {
	return &redis.Options{
		Addr: addr,
		// A command whose answer is late is sent again, and a test that counts commands would
		// count both. A busy machine may take longer than the 3 s of the default.
		ReadTimeout:              time.Minute,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

func keysOf(t testing.TB, rdb redis.Cmdable, pattern string) (all []string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	masters, err := redisconn.Masters(ctx, rdb)
	for _, master := range masters {
		var keys []string
		if keys, err = master.Keys(ctx, pattern).Result(); err != nil {
			break
		}
		all = append(all, keys...)
	}
	if err != nil {
		t.Fatalf("list keys like %s: %v", pattern, err)
	}
	slices.Sort(all)
	return slices.DeleteFunc(all, func(key string) bool { return key == clusterLock })
}
