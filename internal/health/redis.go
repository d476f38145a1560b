package health

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/redisconn"
	"orgops/internal/untrusted"
)

// RedisSettings are the Redis to be tested.
type RedisSettings struct {
	Client redis.Cmdable // whose commands end with their context
	URL    string
	// Known reports whether a queue is one of orgops.
	Known func(queue string) bool
	// Schema returns an error if the ledger there cannot be used.
	Schema func(context.Context) error
}

// Redis tests a Redis, or each master of a Cluster.
func Redis(ctx context.Context, s RedisSettings) []Finding {
	if err := redisconn.Ready(ctx, s.Client); err != nil {
		return about("redis", []Finding{wrong(
			cmp.Or(redisconn.Remedy(err), "check --redis-url, ORGOPS_REDIS_PASSWORD and the firewall"), "%v", err)})
	}
	found := []Finding{ok("it answers at %s", redisconn.Mask(s.URL))}
	found = append(found, wire(ctx, s.URL)...)
	found = append(found, nodes(ctx, s.Client, true)...)
	found = append(found, Rights(ctx, s.Client)...)
	found = append(found, queues(ctx, s)...)
	return about("redis", found)
}

// wire tests whether the connection to Redis is encrypted where that is needed. Names count
// by their addresses; one without an address could have any.
func wire(ctx context.Context, url string) []Finding {
	hosts, tls, err := redisconn.Hosts(url)
	if err != nil || tls {
		return nil
	}
	for _, host := range hosts {
		addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil || slices.ContainsFunc(addrs, func(a netip.Addr) bool { return !a.IsLoopback() && !a.IsPrivate() }) {
			return []Finding{warn("use rediss://, or a tunnel", "the password and all rows are sent to %s unencrypted", host)}
		}
	}
	return nil
}

// Storage tests whether Redis, or each master of a Cluster, keeps the data: what it evicts and
// persists. It returns what is not OK as warnings, since a worker works nevertheless. It reads
// no CONFIG, which the user of a worker may not.
func Storage(ctx context.Context, client redis.Cmdable) (found []Finding) {
	for _, f := range nodes(ctx, client, false) {
		if f.Level != OK {
			f.Level = Warning
			found = append(found, f)
		}
	}
	return about("redis data", found)
}

// nodes tests each master of a Cluster, or the one Redis: all of it, or only whether it keeps the
// data.
func nodes(ctx context.Context, client redis.Cmdable, all bool) []Finding {
	masters, err := redisconn.Masters(ctx, client)
	var found []Finding
	for _, master := range masters {
		for _, f := range nodeOf(ctx, master, all) {
			if master != client {
				f.Text = "node " + redisconn.Address(master) + ": " + f.Text
			}
			found = append(found, f)
		}
	}
	if len(masters) > 1 {
		slices.SortStableFunc(found, func(a, b Finding) int { return strings.Compare(a.Text, b.Text) })
	}
	if err != nil {
		found = append(found, wrong("check that this machine reaches every node",
			"not all masters of the Cluster answer: %v", err))
	}
	return found
}

func nodeOf(ctx context.Context, client redis.Cmdable, all bool) []Finding {
	info, infoErr := client.Info(ctx).Result()
	n := node{Info: fieldsOf(info)}
	unknown := warn("allow this user INFO, or make sure of it",
		"taken for 6.2 or newer, a master, without eviction and persistent, since its INFO cannot be read: %v", infoErr)
	switch {
	case infoErr != nil && !all:
		return []Finding{unknown}
	case !all:
		return []Finding{n.policy(), n.persistence()}
	}
	config, configErr := client.ConfigGet(ctx, "append*").Result()
	saves, saveErr := client.ConfigGet(ctx, "save").Result()
	if configErr == nil && saveErr == nil {
		n.AppendFsync = config["appendfsync"]
		n.Save = saves["save"]
		n.Configured = true
	}
	n.readClock(ctx, client)
	if infoErr != nil {
		return []Finding{unknown, n.clock()}
	}
	return n.test()
}

// readClock reads how far Redis' clock is ahead of this machine's.
func (n *node) readClock(ctx context.Context, client redis.Cmdable) *node {
	before := time.Now()
	there, err := client.Time(ctx).Result()
	n.Ahead = there.Sub(before.Add(time.Since(before) / 2))
	n.Timed = err == nil
	return n
}

func fieldsOf(info string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			fields[name] = value
		}
	}
	return fields
}

// node holds the INFO of one Redis.
type node struct {
	Info map[string]string
	// AppendFsync and Save are settings; Configured: they could be read.
	AppendFsync, Save string
	Configured        bool
	// Ahead is how far its clock is ahead of ours; Timed: it could be read.
	Ahead time.Duration
	Timed bool
}

func (n node) test() []Finding {
	found := append([]Finding{n.version(), n.policy(), n.persistence()}, n.role()...)
	return append(found, n.clock())
}

func (n node) version() Finding {
	version := n.Info["redis_version"]
	switch {
	case version == "":
		return warn("make sure that it is Redis 6.2 or newer, or compatible with it", "its version is unknown")
	case !redisconn.IsRecent(version):
		return wrong("upgrade it to 6.2 or newer",
			"version %s is too old: the scripts of queues and ledger do not run on it", version)
	}
	return ok("version %s", version)
}

func (n node) policy() Finding {
	switch policy := n.Info["maxmemory_policy"]; policy {
	case "noeviction":
		return ok("maxmemory-policy noeviction")
	case "":
		return warn("make sure that it evicts nothing", "its maxmemory-policy cannot be read")
	default:
		return wrong("set maxmemory-policy noeviction", "maxmemory-policy %s deletes rows when memory is full", policy)
	}
}

func (n node) persistence() Finding {
	switch {
	case n.Info["aof_enabled"] == "1" && n.Configured && n.AppendFsync == "no":
		return warn("set appendfsync everysec, or always",
			"appendfsync no: a power cut loses what the kernel has not written, up to half a minute of work")
	case n.Info["aof_enabled"] == "1" && n.Configured && n.AppendFsync == "everysec":
		return ok("appendonly yes, appendfsync everysec (a power cut takes a second; always takes nothing, and costs writes)")
	case n.Info["aof_enabled"] == "1" && n.Configured:
		return ok("appendonly yes, appendfsync %s", n.AppendFsync)
	case n.Info["aof_enabled"] == "1":
		return ok("appendonly yes (appendfsync takes CONFIG to read, and is taken for everysec)")
	case n.Info["aof_enabled"] == "":
		return warn("make sure that it writes an append-only file", "whether it persists anything is unknown")
	case n.Configured && n.Save == "":
		return wrong("set appendonly yes",
			"it persists nothing: appendonly no, and no save points; a restart forgets every run")
	case n.Configured:
		return warn("set appendonly yes",
			"it has appendonly no: a crash loses everything since the last snapshot (save %s)", n.Save)
	}
	return warn("set appendonly yes, or make sure that the service persists otherwise",
		"it has appendonly no: a crash loses everything since the last snapshot, if it makes any (which takes CONFIG to read)")
}

func (n node) role() []Finding {
	if role := n.Info["role"]; role != "" && role != "master" {
		return []Finding{
			wrong("name the master, or its Sentinels by redis-sentinel://", "it is a %s and takes no writes", role),
		}
	}
	return nil
}

// Clocks that differ by more than these are doubtful, and wrong. asynq compares its leases, of
// 30 s, with the clocks of workers, and allows for 30 s between them.
const (
	clockDoubt = 2 * time.Second
	ClockWrong = 10 * time.Second
)

// Clock compares Redis' clock with this machine's.
func Clock(ahead time.Duration) Finding {
	f := clockOf("Redis", ahead, clockDoubt, ClockWrong)
	f.Subject = "clock"
	return f
}

func (n node) clock() Finding {
	if !n.Timed {
		return warn("allow this user TIME", "its clock cannot be read: pace and schedules go by it")
	}
	return Clock(n.Ahead)
}

func clockOf(whose string, ahead, doubt, bad time.Duration) Finding {
	const fix = "synchronize both clocks by NTP"
	side := "ahead of"
	if ahead < 0 {
		side = "behind"
	}
	off := ahead.Abs().Round(100 * time.Millisecond)
	switch {
	case off > bad:
		return wrong(fix, "%s's clock is %s %s this machine's", whose, off, side)
	case off > doubt:
		return warn(fix, "%s's clock is %s %s this machine's", whose, off, side)
	}
	return ok("%s's clock is this machine's, within %s", whose, doubt)
}

// Rights tests whether Redis stores values, and the rights that queues, ledger and pace
// need: keys with both prefixes, scripts, and the channels by which tasks are cancelled and
// dispatchers notified.
func Rights(ctx context.Context, client redis.Cmdable) []Finding {
	tried := redisconn.Try(ctx, client, ledger.Commands()...)
	if tried != nil && !redisconn.Denied(tried) {
		return about("redis", []Finding{failed(tried)})
	}
	id := rand.Text()
	var refused []string
	try := func(what string, err error) {
		if err != nil && !errors.Is(err, redis.Nil) {
			refused = append(refused, fmt.Sprintf("%s (%v)", what, err))
		}
	}
	for _, key := range []string{"orgops:{doctor}:" + id, "asynq:{doctor}:" + id} {
		try("write "+key, client.Set(ctx, key, "1", time.Second).Err())
		try("read "+key, client.Get(ctx, key).Err())
		try("run scripts on "+key, client.Eval(ctx, `return redis.call("DEL", KEYS[1])`, []string{key}).Err())
	}
	try("publish to orgops:v3:wake", ledger.New(client).Wake(ctx, "doctor")) // without due rows it has no effect
	try("list asynq:queues", client.SMembers(ctx, "asynq:queues").Err())
	try("publish to asynq:cancel", client.Publish(ctx, "asynq:cancel", "orgops-doctor-"+id).Err()) // no task is called so
	if len(refused) == 0 {
		try("run every command", tried)
	}
	if len(refused) > 0 {
		const most = 3
		return about("redis", []Finding{
			wrong("allow the user ~orgops:* ~asynq:* &asynq:* &orgops:* and +@all -@admin -@dangerous +info, as deploy/ has it",
				"this user may not %s", strings.Join(refused[:min(len(refused), most)], ", nor ")),
		})
	}
	return []Finding{ok("this user has the permissions that are needed")}
}

func queues(ctx context.Context, s RedisSettings) []Finding {
	var found []Finding
	if err := s.Schema(ctx); err != nil {
		found = append(found, wrong("use another Redis or database, or another orgops", "%v", err))
	}
	names, err := s.Client.SMembers(ctx, "asynq:queues").Result()
	if err != nil {
		return found // Rights has reported it
	}
	names = slices.DeleteFunc(names, s.Known)
	slices.Sort(names)
	if len(names) > 0 {
		const most = 5
		var quoted []string
		for _, name := range names[:min(len(names), most)] {
			quoted = append(quoted, untrusted.Quote(name, 60))
		}
		found = append(found, warn("give orgops a Redis, or a database, of its own", "%d queues in it are not orgops's (%s)",
			len(names), strings.Join(quoted, ", ")))
	}
	return found
}
