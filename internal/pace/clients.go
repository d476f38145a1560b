package pace

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// limitLasts is how long a lowered limit applies before the setting is tried again: a trial
// costs a batch a dozen requests, a day has many thousands.
const limitLasts = 24 * time.Hour

// ClientLimit stores, for all workers and a day, how many clients the tenant's API accepts in
// one request. It is safe for concurrent use.
type ClientLimit struct {
	rdb    redis.Cmdable
	tenant string
}

// NewClientLimit returns the tenant's limit. It sends no command.
func NewClientLimit(rdb redis.Cmdable, tenant string) *ClientLimit {
	return &ClientLimit{rdb: rdb, tenant: tenant}
}

// key contains the setting: a limit found with one setting says nothing about another.
func (l *ClientLimit) key(setting int) string {
	return key(l.tenant, "clients_per_request:"+strconv.Itoa(setting))
}

// InUse returns how many clients a request may name now, at most setting.
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

// Lower lowers the limit, and reports whether it was higher before. A limit that is as low
// stays, and expires when it would have.
func (l *ClientLimit) Lower(ctx context.Context, setting, to int) (lowered bool, err error) {
	lowered, err = lowerScript.Run(ctx, l.rdb, []string{l.key(setting)}, setting, to, limitLasts.Milliseconds()).Bool()
	if err != nil {
		return false, fmt.Errorf("lower the clients per request of tenant %s to %d: %w", l.tenant, to, err)
	}
	return lowered, nil
}
