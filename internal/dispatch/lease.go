package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
)

const (
	// leaseFor is how long a dispatcher is active without renewing its lease, while it has work.
	leaseFor = 3 * time.Second
	// leaseEvery is how often the active dispatcher renews it, and the first worker of the
	// tenant tries to get it.
	leaseEvery = time.Second
	// yieldAfter is how long a dispatcher is active that is not of the first worker, which may
	// live and hang.
	yieldAfter = 30 * time.Second
)

// Lease elects the active dispatcher of a tenant.
type Lease struct {
	rdb      redis.Cmdable
	key      string
	tenant   ledger.Tenant
	session  ledger.SessionID
	protocol int
}

// NewLease returns a lease that is not held.
func NewLease(rdb redis.Cmdable, t ledger.Tenant, session ledger.SessionID, protocol int) *Lease {
	key := "orgops:v3:{tenant:" + string(t) + "}:dispatcher"
	return &Lease{rdb: rdb, key: key, tenant: t, session: session, protocol: protocol}
}

// takeLease stores <protocol>:<session> unless another session of at least the same protocol has
// the lease, and returns for how many ms that one has it, or -1 if this one has. That one keeps
// it for ARGV[4] ms at most. A new lease begins with a DEL, so that it passes at maxmemory.
var takeLease = redis.NewScript(`
local present, own = redis.call('GET', KEYS[1]), ARGV[1] .. ':' .. ARGV[2]
if present == own then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  return -1
end
local protocol = string.match(present or '', '^(%d+):')
if protocol and tonumber(protocol) >= tonumber(ARGV[1]) then
  local left = redis.call('PTTL', KEYS[1])
  if left <= tonumber(ARGV[4]) then return math.max(left, 0) end
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
  return tonumber(ARGV[4])
end
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], own, 'PX', ARGV[3])
return -1`)

// Take gets or renews the lease until a time from now on, and reports whether it is held. If
// another dispatcher has it, left is for how long. Unless that one renews it, it has the lease no
// longer than most.
func (l *Lease) Take(ctx context.Context, d, most time.Duration) (held bool, left time.Duration, err error) {
	ms, err := takeLease.Run(ctx, l.rdb, []string{l.key}, l.protocol, string(l.session), d.Milliseconds(),
		most.Milliseconds()).Int64()
	if err != nil {
		return false, 0, fmt.Errorf("take the dispatcher's lease of %s: %w", l.tenant, err)
	}
	return ms < 0, time.Duration(max(ms, 0)) * time.Millisecond, nil
}

var dropLease = redis.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`)

// Drop gives the lease up if it is held, so that another dispatcher need not wait.
func (l *Lease) Drop(ctx context.Context) error {
	holder := fmt.Sprintf("%d:%s", l.protocol, l.session)
	if err := dropLease.Run(ctx, l.rdb, []string{l.key}, holder).Err(); err != nil {
		return fmt.Errorf("drop the dispatcher's lease of %s: %w", l.tenant, err)
	}
	return nil
}
