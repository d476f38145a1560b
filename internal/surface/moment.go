package surface

import (
	"context"
	"hash/fnv"
	"log/slog"
	"net"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// Now is the time at which everything is shown: a Friday.
var Now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// inVirtualTime runs a test in a bubble of testing/synctest, with random numbers that follow from
// its name.
func inVirtualTime(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	seed(t, t.Name())
	synctest.Test(t, test)
}

// seed has all random numbers of crypto/rand follow from a name.
func seed(t *testing.T, name string) {
	t.Helper()
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(name)) // it never fails
	cryptotest.SetGlobalRandom(t, sum.Sum64())
}

// Moment is the world in virtual time.
type Moment struct {
	Redis  redis.UniversalClient
	Ledger *ledger.Ledger

	t    *testing.T
	mini *miniredis.Miniredis
}

func newMoment(t *testing.T) *Moment {
	t.Helper()
	m := &Moment{t: t, mini: miniredis.NewMiniRedis()}
	m.mini.ClockTTL(true)
	t.Cleanup(m.mini.Close)
	m.Redis = m.Client()
	m.Ledger = ledger.New(m.Redis)
	return m
}

// Client returns another client of the world's Redis, through a pipe.
func (m *Moment) Client() redis.UniversalClient {
	c := redis.NewClient(&redis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) { return redistest.Dial(m.mini) },
		// Waits for a connection of the pool use timers that clients of all bubbles share.
		PoolSize: 1 << 12, MaxIdleConns: 20,
		ReadTimeout: -2, WriteTimeout: -2, ConnMaxIdleTime: -1, MaxRetries: -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	m.t.Cleanup(func() { _ = c.Close() }) // a command may have closed it
	return c
}

// log is the log of the world's parts, which nobody reads.
var log = slog.New(slog.DiscardHandler)

// until waits for a time.
func until(at time.Time) { time.Sleep(time.Until(at)) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
