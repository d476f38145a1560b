package redistest

import (
	"context"
	"os"
	"runtime/debug"
	"slices"
	"strings"
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

// New returns a client on the database of this test, which is empty at the
// first call; further calls in the same test return further clients on the same
// database, as further processes would have. A subtest is a test of its own.
// Client and database are cleaned up with the test.
func New(t testing.TB) redis.UniversalClient {
	t.Helper()
	c := of(t).open()
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Keys returns the keys of this test's database that match the pattern, in order, of all
// nodes of a Cluster.
func Keys(t testing.TB, pattern string) []string {
	t.Helper()
	return keysOf(t, New(t), pattern)
}

func keysOf(t testing.TB, rdb redis.UniversalClient, pattern string) (all []string) {
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

// URL returns the URL of the database that New uses in this test, for tests that open clients
// themselves. It may contain the password of EnvURL.
func URL(t testing.TB) string {
	t.Helper()
	return of(t).url
}

// Mini returns the miniredis of this test, whose clock can be set. On a real Redis it skips
// the test.
func Mini(t testing.TB) *miniredis.Miniredis {
	t.Helper()
	d := of(t)
	if d.mini == nil {
		t.Skip("needs a Redis whose clock can be set: not run on a real one")
	}
	d.follow()
	return d.mini
}

// Single skips the test on a Cluster: it needs one server, for the given reason.
func Single(t testing.TB, reason string) {
	t.Helper()
	if strings.HasPrefix(os.Getenv(EnvURL), clusterScheme) {
		t.Skip("needs a single server: " + reason)
	}
}

// database is the database of one test.
type database struct {
	url  string
	open func() redis.UniversalClient
	mini *miniredis.Miniredis // nil on a real Redis
	// follow makes keys expire by the clock of mini, which a test can set.
	follow func()
}

// databases are the databases in use, by test, so that New and URL agree.
var databases sync.Map // testing.TB -> *database

func of(t testing.TB) *database {
	t.Helper()
	if d, ok := databases.Load(t); ok {
		return d.(*database)
	}
	var d *database
	switch server := os.Getenv(EnvURL); {
	case server == "":
		d = startMini(t)
	case strings.HasPrefix(server, clusterScheme):
		d = takeCluster(t, server)
	default:
		d = takeReal(t, server)
	}
	databases.Store(t, d)
	t.Cleanup(func() { databases.Delete(t) })
	return d
}

func startMini(t testing.TB) *database {
	t.Helper()
	collectLess()
	m := miniredis.RunT(t)
	stop := expire(m)
	t.Cleanup(stop)
	return &database{
		url: "redis://" + m.Addr() + "/0", open: opening(options(m.Addr())), mini: m,
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

func opening(o *redis.Options) func() redis.UniversalClient {
	return func() redis.UniversalClient { return redis.NewClient(o) }
}

func options(addr string) *redis.Options {
	return &redis.Options{
		Addr: addr,
		// A command whose answer is late is sent again, and a test that counts commands would
		// count both. A busy machine may take longer than the 3 s of the default.
		ReadTimeout:              time.Minute,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}
