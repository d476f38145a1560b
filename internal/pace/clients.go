package pace

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// limitLasts is how long a lowered limit is kept to before the setting is tried
// again: a trial costs a batch a dozen requests, a day has many thousands.
const limitLasts = 24 * time.Hour

// ClientLimit remembers how many clients a tenant's API was found to take in one
// request, for all workers, for a day. It is safe for concurrent use.
type ClientLimit struct {
	rdb    redis.UniversalClient
	tenant string
}

// NewClientLimit returns the tenant's, without asking Redis yet.
func NewClientLimit(rdb redis.UniversalClient, tenant string) *ClientLimit {
	return &ClientLimit{rdb: rdb, tenant: tenant}
}

// key has the setting in it: what was found under one says nothing once an
// operator has chosen another.
func (l *ClientLimit) key(setting int) string {
	return key(l.tenant, "clients_per_request:"+strconv.Itoa(setting))
}

// InUse is how many clients a request may name now, at most setting.
func (l *ClientLimit) InUse(ctx context.Context, setting int) (int, error) {
	found, err := l.rdb.Get(ctx, l.key(setting)).Int()
	if errors.Is(err, redis.Nil) {
		return setting, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the clients per request of tenant %s: %w", l.tenant, err)
	}
	return min(max(found, 1), setting), nil
}

// Lower lowers it, and says whether it was higher before. What is there already,
// or lower, stays and lasts no longer for it.
func (l *ClientLimit) Lower(ctx context.Context, setting, to int) (lowered bool, err error) {
	lowered, err = lowerScript.Run(ctx, l.rdb, []string{l.key(setting)}, setting, to, limitLasts.Milliseconds()).Bool()
	if err != nil {
		return false, fmt.Errorf("lower the clients per request of tenant %s to %d: %w", l.tenant, to, err)
	}
	return lowered, nil
}
