package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"orgops/internal/untrusted"
)

// someSlots is how many keys, each of another slot, find out whether a node has all of them: of
// three nodes' slots, a node has all these once in 43 million times.
const someSlots = 16

// Ready sends a PING. The error names the Redis, and says whether it does not answer, refuses
// the user, is not ready, or is a node of a Cluster that a URL for one Redis names.
func Ready(ctx context.Context, client redis.Cmdable) error {
	if err := client.Ping(ctx).Err(); err != nil {
		return explain(client, err)
	}
	if _, single := client.(*redis.Client); !single {
		return nil
	}
	commands, _ := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range someSlots {
			p.Exists(ctx, fmt.Sprintf("orgops:v3:{slot %d}", i))
		}
		return nil
	})
	for _, command := range commands { // which the user may lack the right for
		if _, moved := redis.IsMovedError(command.Err()); moved {
			return fmt.Errorf("redis%s is a node of a Redis Cluster: write redis-cluster:// for redis:// in the URL", at(client))
		}
	}
	return nil
}

// queueCommands are the commands of asynq's scripts by which tasks begin and end.
var queueCommands = []string{"RPOPLPUSH", "LPUSH", "RPUSH", "LREM", "HSET", "HDEL", "HGET", "ZADD", "ZREM", "DEL",
	"INCR", "EXPIREAT", "GET", "SET", "EXISTS"}

// Try runs a script that writes, as work does: on one node of a Cluster. The error says why Redis
// refuses it, or names commands that this user may not run, of those by which asynq begins and ends
// tasks, and of others. Each must have a key among its first three arguments, or none. Redis 6 and
// the embedded Redis have no function to name commands.
func Try(ctx context.Context, client redis.Cmdable, others ...string) error {
	names := append(slices.Clone(queueCommands), others...)
	slices.Sort(names)
	var args []any
	for _, name := range slices.Compact(names) {
		args = append(args, name)
	}
	answer, err := client.Eval(ctx, tryLua, []string{"orgops:v3:{try}"}, args...).Result()
	if err != nil {
		return explain(client, err)
	}
	if denied, _ := answer.(string); denied != "" { // the answer of a test server may be no text
		return fmt.Errorf("redis%s: %w: %s", at(client), errDenied, denied)
	}
	return nil
}

var errDenied = errors.New("this user may not run commands that rows need")

// tryLua writes one key, which expires.
const tryLua = `local denied = {}
for _, name in ipairs(redis.acl_check_cmd and ARGV or {}) do
  if not redis.acl_check_cmd(name, KEYS[1], KEYS[1], KEYS[1]) then denied[#denied + 1] = name end
end
if #denied == 0 then redis.call('SET', KEYS[1], '', 'PX', 1000) end
return table.concat(denied, ', ')`

// Denied reports whether Redis refused a command because this user may not run it.
func Denied(err error) bool {
	return errors.Is(err, errDenied) || refuses(err, "NOPERM", "DENIED", "ERR The user executing the script can't")
}

// Failed reports whether an error is one of Redis, or of the connection to it, and not of what it
// has stored.
func Failed(err error) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	if _, ok := errors.AsType[redis.Error](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrClosed)
}

// refuses reports whether the error is an answer of Redis that has one of the codes.
func refuses(err error, codes ...string) bool {
	answer, ok := errors.AsType[redis.Error](err)
	return ok && slices.ContainsFunc(codes, func(code string) bool {
		// Redis 6.2 puts the code of an error in a script behind the script's line.
		return strings.HasPrefix(answer.Error(), code) || strings.Contains(answer.Error(), ": -"+code)
	})
}

// remedies are the answers by which Redis refuses any client, with the way to fix that.
var remedies = []struct{ code, fix string }{
	{"OOM ", "Redis has reached its maxmemory and stores nothing: raise it, or delete ended runs by enqueue runs delete"},
	{"READONLY ", "it is a replica and takes no writes: name the master in the URL, or its Sentinels by redis-sentinel://"},
	{"MISCONF ", "Redis cannot write to its disk and stores nothing: read its log, and free its disk"},
	{"NOREPLICAS ", "Redis has too few replicas and stores nothing: start them, or lower min-replicas-to-write"},
	{"ERR max number of clients", "all connections of Redis are in use: raise its maxclients, or stop other clients"},
}

// Remedy returns how to fix the reason why Redis refused a command; "": it is not known.
func Remedy(err error) string {
	if Denied(err) {
		return "give this user its rules of deploy/redis, or use another user"
	}
	for _, r := range remedies {
		if refuses(err, r.code) {
			return r.fix
		}
	}
	return ""
}

// The oldest Redis that asynq's scripts and ours run on: 6.2.
const (
	oldestMajor = 6
	oldestMinor = 2
)

// CheckVersion returns an error for a Redis older than 6.2. One that does not report its
// version counts as new enough.
func CheckVersion(ctx context.Context, client redis.Cmdable) error {
	info, err := client.Info(ctx, "server").Result()
	if _, answered := errors.AsType[redis.Error](err); answered && !redis.IsAuthError(err) {
		return nil // not allowed or unknown: a managed service, or a replacement for Redis
	}
	if err != nil {
		return explain(client, err)
	}
	version := InfoValue(info, "redis_version")
	if IsRecent(version) {
		return nil
	}
	return fmt.Errorf("redis%s is version %s: want %d.%d or newer",
		at(client), untrusted.Value(version), oldestMajor, oldestMinor)
}

// InfoValue returns a value of the answer to INFO, "" if there is none.
func InfoValue(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// IsRecent reports whether a version, as INFO has it, is 6.2 or newer. One that cannot be
// parsed counts as newer.
func IsRecent(version string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor) // of "7" the major version
	return n == 0 || major > oldestMajor || (major == oldestMajor && minor >= oldestMinor)
}

// explain adds the Redis and the kind of failure to the error of a command.
func explain(client redis.Cmdable, err error) error {
	if err == nil {
		return nil
	}
	where := at(client)
	if redis.IsAuthError(err) {
		if strings.HasPrefix(err.Error(), "NOAUTH") {
			return fmt.Errorf("redis%s wants a password: set one: %w", where, err)
		}
		return fmt.Errorf("redis%s refuses this user or password: %w", where, err)
	}
	if Denied(err) {
		return fmt.Errorf("redis%s: this user lacks a permission that is needed: %w", where, err)
	}
	if _, answered := errors.AsType[redis.Error](err); answered {
		return fmt.Errorf("redis%s is not ready: %w", where, err)
	}
	return fmt.Errorf("redis%s does not answer: %w%s", where, err, remedy(client, err))
}

// remedy returns the remedy for an error of a connection, behind a semicolon; "": there is none.
func remedy(client redis.Cmdable, err error) string {
	encrypted := false
	switch c := client.(type) {
	case *redis.Client:
		encrypted = c.Options().TLSConfig != nil
	case *redis.ClusterClient:
		encrypted = c.Options().TLSConfig != nil
	}
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	_, unverified := errors.AsType[*tls.CertificateVerificationError](err)
	closed := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	switch text := err.Error(); {
	case unverified:
		return "; name the certificate of its authority by --redis-ca-file, and use the host's name in the certificate"
	case strings.Contains(text, "remote error: tls: ") && strings.Contains(text, "certificate"):
		return "; it wants a client's certificate that it trusts: name one by --redis-cert-file and --redis-key-file"
	case noTLS, encrypted && (closed || errors.Is(err, context.DeadlineExceeded)):
		return "; if it does not use TLS, write redis:// for rediss:// in the URL"
	case strings.Contains(text, " reply: "):
		return "; it is not a Redis: check host and port"
	case closed:
		return "; all of its connections (maxclients) may be in use; if it requires TLS, write rediss:// for redis:// in the URL"
	}
	return ""
}

// Address returns the address of a node that [Masters] returned; "": it is no client of one node.
// It is not inlined, so that its callers do not reach a client of go-redis.
//
//go:noinline
func Address(node redis.Cmdable) string {
	c, ok := node.(*redis.Client)
	if !ok {
		return ""
	}
	return c.Options().Addr
}

// at returns the address of the client's Redis: " at host:port".
func at(client redis.Cmdable) string {
	switch c := client.(type) {
	case *redis.Client:
		if addr := c.Options().Addr; addr != failoverAddr {
			return " at " + addr
		}
		return " behind Sentinel"
	case *redis.ClusterClient:
		return " cluster at " + strings.Join(c.Options().Addrs, ",")
	}
	return ""
}

// failoverAddr is go-redis' address of a client whose master Sentinels name.
const failoverAddr = "FailoverClient"
