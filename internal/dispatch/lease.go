package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
)

const (
	// leaseFor is how long a dispatcher is active without renewing its lease.
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
	rdb      redis.UniversalClient
	key      string
	tenant   ledger.Tenant
	session  ledger.SessionID
	protocol int
}

// NewLease returns a lease that is not held.
func NewLease(rdb redis.UniversalClient, t ledger.Tenant, session ledger.SessionID, protocol int) *Lease {
	key := "orgops:v3:{tenant:" + string(t) + "}:dispatcher"
	return &Lease{rdb: rdb, key: key, tenant: t, session: session, protocol: protocol}
}

// takeLease stores <protocol>:<session> unless another session of at least the same
// protocol has the lease. Its first write is a DEL, so that it works at maxmemory.
var takeLease = redis.NewScript(`
local protocol, session = string.match(redis.call('GET', KEYS[1]) or '', '^(%d+):(.*)$')
if session and session ~= ARGV[2] and tonumber(protocol) >= tonumber(ARGV[1]) then return 0 end
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1] .. ':' .. ARGV[2], 'PX', ARGV[3])
return 1`)

// Take gets or renews the lease, for three seconds, and reports whether it is held.
func (l *Lease) Take(ctx context.Context) (held bool, err error) {
	held, err = takeLease.Run(ctx, l.rdb, []string{l.key}, l.protocol, string(l.session), leaseFor.Milliseconds()).Bool()
	if err != nil {
		return false, fmt.Errorf("take the dispatcher's lease of %s: %w", l.tenant, err)
	}
	return held, nil
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
