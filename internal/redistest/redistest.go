package redistest

import (
	"os"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"orgops/internal/redisconn"
)

// Client is what most tests need of a client. It does not reach go-redis' types of clients: see
// [redisconn].
type Client interface {
	redis.Cmdable
	AddHook(redis.Hook)
	Close() error
}

// New returns a client on the database of this test, which is empty at the
// first call; further calls in the same test return further clients on the same
// database, as further processes would have. A subtest is a test of its own.
// Client and database are cleaned up with the test.
func New(t testing.TB) Client {
	t.Helper()
	return Open(t)
}

// Open returns a client like New, for tests that give it to asynq or subscribe to a channel.
func Open(t testing.TB) redis.UniversalClient {
	t.Helper()
	c := of(t).open()
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Empty deletes all keys of this test's database. Unlike FLUSHDB it keeps the lock that the test
// has on a Cluster.
func Empty(t testing.TB) {
	t.Helper()
	rdb := New(t)
	for _, key := range keysOf(t, rdb, "*") {
		if err := rdb.Unlink(t.Context(), key).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// ForServer returns a client like [redisconn.ForServer] on the database of this test.
func ForServer(t testing.TB) redis.UniversalClient {
	t.Helper()
	d := of(t)
	open := d.forServer
	if open == nil {
		open = func() (redis.UniversalClient, error) {
			return redisconn.ForServer(redisconn.Config{URL: d.url, AllowURLPassword: true})
		}
	}
	c, err := open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Keys returns the keys of this test's database that match the pattern, in order, of all
// nodes of a Cluster.
func Keys(t testing.TB, pattern string) []string {
	t.Helper()
	return keysOf(t, New(t), pattern)
}

// URL returns the URL of the database that New uses in this test, for tests that open clients
// themselves. It may contain the password of EnvURL.
func URL(t testing.TB) string {
	t.Helper()
	d := of(t)
	if d.url == "" {
		t.Fatal("the Redis inside of a bubble has no URL")
	}
	return d.url
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
