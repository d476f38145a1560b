package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"orgops/internal/redistest"
)

// fleetRedis is the Redis of a fleet. Its clock may be wrong, it may go back a second, and
// answers may be lost.
type fleetRedis struct {
	mini *miniredis.Miniredis
	// running is held by each command, and locked while the content is copied or replaced.
	running sync.RWMutex
	ahead   atomic.Int64 // of Redis' clock, in ns

	mu     sync.Mutex
	lost   spans // the times whose writes Redis has lost
	steps  []step
	flawed spans // the times in which answers of commands are lost
}

// step is a step of Redis' clock.
type step struct {
	at time.Time
	by time.Duration
}

func newFleetRedis(t *testing.T) *fleetRedis {
	r := &fleetRedis{mini: miniredis.NewMiniRedis()}
	conn, err := r.mini.Dial() // it makes the server
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	r.mini.Server().SetPreHook(r.answer)
	t.Cleanup(r.mini.Close)
	return r
}

// answer answers TIME by the clock of this Redis, and INFO, which the embedded Redis lacks.
func (r *fleetRedis) answer(c *server.Peer, cmd string, _ ...string) bool {
	switch cmd {
	case "TIME":
		at := r.now()
		c.WriteLen(2)
		c.WriteBulk(fmt.Sprint(at.Unix()))
		c.WriteBulk(fmt.Sprint(at.Nanosecond() / 1000))
		return true
	case "INFO":
		c.WriteBulk("aof_enabled:1\r\n")
		return true
	}
	return false
}

// now returns the time by Redis' clock.
func (r *fleetRedis) now() time.Time { return now().Add(time.Duration(r.ahead.Load())) }

// connect returns a client, through a pipe. Each of its commands passes the hook.
func (r *fleetRedis) connect(hook redistest.Around) *redis.Client {
	rdb := redis.NewClient(&redis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			return redistest.Dial(r.mini)
		},
		// Waits for a connection of the pool use timers that clients of all bubbles share.
		PoolSize: 1 << 20, MaxIdleConns: 20,
		ReadTimeout: -2, WriteTimeout: -2, ConnMaxIdleTime: -1, MaxRetries: -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	rdb.AddHook(hook)
	return rdb
}

// run runs a command, which takes no time.
func (r *fleetRedis) run(command func() error) error {
	r.running.RLock()
	defer r.running.RUnlock()
	return command()
}

// goBack makes Redis lose all writes from now until after has passed.
func (r *fleetRedis) goBack(after time.Duration) {
	r.running.Lock()
	from, content := now(), copyOf(r.mini.DB(0))
	r.running.Unlock()
	time.Sleep(after)
	r.running.Lock()
	defer r.running.Unlock()
	content.restore(r.mini.DB(0))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = append(r.lost, span{from, now()})
}

// setClock sets how far Redis' clock is ahead.
func (r *fleetRedis) setClock(ahead time.Duration) {
	r.running.Lock()
	defer r.running.Unlock()
	by := ahead - time.Duration(r.ahead.Swap(int64(ahead)))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps = append(r.steps, step{now(), by})
}

// fail loses the answers of commands for a while.
func (r *fleetRedis) fail(during time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flawed = append(r.flawed, span{now(), now().Add(during)})
}

// flaws reports whether answers of commands are lost now.
func (r *fleetRedis) flaws() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.flawed)
	return n > 0 && r.flawed[n-1].holds(now())
}

// wasLost reports whether Redis may have lost a write of that time.
func (r *fleetRedis) wasLost(at time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.lost, func(s span) bool { return !at.Before(s.from) && !at.After(s.to) })
}

// errLost is the error of a command whose answer is lost, or that was not sent.
var errLost = errors.New("read tcp: connection reset by peer")

// content is the content of a database.
type content []entry

type entry struct {
	key, kind, text string
	hash            []string // fields and values
	list            []string // or set
	sorted          map[string]float64
	ttl             time.Duration
}

func copyOf(db *miniredis.RedisDB) (all content) {
	for _, key := range db.Keys() {
		e := entry{key: key, kind: db.Type(key), ttl: db.TTL(key)}
		switch e.kind {
		case "string":
			e.text, _ = db.Get(key)
		case "hash":
			fields, _ := db.HKeys(key)
			for _, field := range fields {
				e.hash = append(e.hash, field, db.HGet(key, field))
			}
		case "list":
			e.list, _ = db.List(key)
			e.list = slices.Clone(e.list)
		case "set":
			e.list, _ = db.Members(key)
		case "zset":
			sorted, _ := db.SortedSet(key)
			e.sorted = maps.Clone(sorted)
		}
		all = append(all, e)
	}
	return all
}

func (c content) restore(db *miniredis.RedisDB) {
	db.FlushDB()
	for _, e := range c {
		switch e.kind {
		case "string":
			_ = db.Set(e.key, e.text)
		case "hash":
			db.HSet(e.key, e.hash...)
		case "list":
			_, _ = db.Push(e.key, e.list...)
		case "set":
			_, _ = db.SetAdd(e.key, e.list...)
		case "zset":
			for member, score := range e.sorted {
				_, _ = db.ZAdd(e.key, score, member)
			}
		}
		if e.ttl > 0 {
			db.SetTTL(e.key, e.ttl)
		}
	}
}
