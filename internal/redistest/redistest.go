package redistest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// EnvURL names the environment variable with the URL of a real Redis, without
// a database number, or of a Cluster. Empty or unset: miniredis.
const EnvURL = "ORGOPS_TEST_REDIS_URL"

const (
	// lockTTL is how long a database stays locked after the process that locked it has
	// died.
	lockTTL = 2 * time.Minute
	// renewEvery is how often a lock is renewed: often enough for a busy machine.
	renewEvery = 10 * time.Second
	// lockWait is how long a test waits for a free database.
	lockWait = 15 * time.Minute
)

// New returns a client on the database of this test, which is empty at the
// first call; further calls in the same test give further clients on the same
// database, as further processes would have. A subtest is a test of its own.
// Client and database are cleaned up with the test.
func New(t testing.TB) redis.UniversalClient {
	t.Helper()
	c := of(t).open()
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Keys returns the keys of this test's database that match the pattern, in order, on
// whichever node of a Cluster they are.
func Keys(t testing.TB, pattern string) []string {
	t.Helper()
	c := New(t)
	cluster, ok := c.(*redis.ClusterClient)
	if !ok {
		return keysOf(t, c, pattern)
	}
	var all []string
	for _, master := range masters(t, cluster) {
		all = append(all, keysOf(t, master, pattern)...)
	}
	slices.Sort(all)
	return slices.DeleteFunc(all, func(key string) bool { return key == clusterLock })
}

func keysOf(t testing.TB, c redis.Cmdable, pattern string) []string {
	t.Helper()
	keys, err := c.Keys(context.WithoutCancel(t.Context()), pattern).Result()
	if err != nil {
		t.Fatalf("list keys like %s: %v", pattern, err)
	}
	slices.Sort(keys)
	return keys
}

// URL returns the URL of the database that New uses in this test, for whoever
// opens clients itself. It may hold the password of EnvURL.
func URL(t testing.TB) string {
	t.Helper()
	return of(t).url
}

// Mini returns the miniredis behind this test, whose clock can be set. On a
// real Redis, whose clock cannot, it skips the test.
func Mini(t testing.TB) *miniredis.Miniredis {
	t.Helper()
	d := of(t)
	if d.mini == nil {
		t.Skip("needs a Redis whose clock can be set: not run on a real one")
	}
	return d.mini
}

// Single skips the test on a Cluster: it needs one server, for the reason that
// is given.
func Single(t testing.TB, reason string) {
	t.Helper()
	if strings.HasPrefix(os.Getenv(EnvURL), clusterScheme) {
		t.Skip("needs a single server: " + reason)
	}
}

// database is what one test was given.
type database struct {
	url  string
	open func() redis.UniversalClient
	mini *miniredis.Miniredis // nil on a real Redis
}

// databases remembers, by test, what was given, so that New and URL agree.
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
	m := miniredis.RunT(t)
	m.ClockTTL(true)
	return &database{url: "redis://" + m.Addr() + "/0", open: opening(options(m.Addr())), mini: m}
}

func opening(o *redis.Options) func() redis.UniversalClient {
	return func() redis.UniversalClient { return redis.NewClient(o) }
}

// takeReal finds a free database on the server, locks and empties it. Locks are
// keys of database 0, which is handed to nobody.
func takeReal(t testing.TB, server string) *database {
	t.Helper()
	base, err := redis.ParseURL(server)
	if err != nil {
		t.Fatalf("%s cannot be read as the URL of a Redis", EnvURL)
	}
	lockOptions := options(base.Addr)
	lockOptions.Username, lockOptions.Password, lockOptions.TLSConfig = base.Username, base.Password, base.TLSConfig
	locks := redis.NewClient(lockOptions)
	t.Cleanup(func() { _ = locks.Close() })

	n, key, owner := lock(t, locks)
	own := *lockOptions
	own.DB = n
	empty(t, &own)
	t.Cleanup(func() {
		empty(t, &own)
		release(t, locks, key, owner)
	})
	renew(t, locks, key, owner) // until before that cleanup
	u, err := url.Parse(server)
	if err != nil {
		t.Fatalf("%s cannot be read as a URL", EnvURL)
	}
	u.Path = "/" + strconv.Itoa(n)
	return &database{url: u.String(), open: opening(&own)}
}

func lock(t testing.TB, locks *redis.Client) (n int, key, owner string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), lockWait)
	defer cancel()
	count, err := databaseCount(ctx, locks)
	if err != nil {
		t.Fatalf("ask %s how many databases it has: %v", EnvURL, err)
	}
	owner = rand.Text()
	for {
		for n := 1; n < count; n++ {
			key := fmt.Sprintf("orgops-test-lock:%d", n)
			err := locks.SetArgs(ctx, key, owner, redis.SetArgs{Mode: "NX", TTL: lockTTL}).Err()
			if errors.Is(err, redis.Nil) {
				continue
			}
			if err != nil {
				t.Fatalf("lock a database of %s: %v", EnvURL, err)
			}
			return n, key, owner
		}
		select { // Every database is in use by other tests.
		case <-ctx.Done():
			t.Fatalf("no free database at %s: start the server with --databases 64", EnvURL)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func databaseCount(ctx context.Context, c *redis.Client) (int, error) {
	got, err := c.ConfigGet(ctx, "databases").Result()
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(got["databases"])
}

// renew renews the lock until the test has ended. The test fails if it has lost it: then
// another test may have used the database beside it.
func renew(t testing.TB, locks redis.UniversalClient, key, owner string) {
	const ifOwn = `if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('PEXPIRE', KEYS[1], ARGV[2])`
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var renewing sync.WaitGroup
	renewing.Go(func() {
		for lost := false; !lost; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(renewEvery):
			}
			kept, err := locks.Eval(ctx, ifOwn, []string{key}, owner, lockTTL.Milliseconds()).Bool()
			if lost = err == nil && !kept; lost {
				t.Errorf("the lock %s of the test's database expired", key)
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		renewing.Wait()
	})
}

// release frees the lock if it is still this owner's. The test's own context
// has ended by then.
func release(t testing.TB, locks redis.UniversalClient, key, owner string) {
	t.Helper()
	const ifOwn = `if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end return 0`
	if err := locks.Eval(context.WithoutCancel(t.Context()), ifOwn, []string{key}, owner).Err(); err != nil {
		t.Logf("free %s: %v", key, err)
	}
}

func empty(t testing.TB, o *redis.Options) {
	t.Helper()
	c := redis.NewClient(o)
	defer func() { _ = c.Close() }()
	if err := c.FlushDB(context.WithoutCancel(t.Context())).Err(); err != nil {
		t.Errorf("empty database %d: %v", o.DB, err)
	}
}

func options(addr string) *redis.Options {
	return &redis.Options{
		Addr: addr,
		// A command whose answer is late is sent again, and a test that counts would see
		// both: a busy machine may take longer than the 3 s of the default.
		ReadTimeout:              time.Minute,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}
