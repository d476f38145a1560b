package ledger

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// movedKeys are keys of that version, by the tenant and the rest of the name, which have the
// tenant's hash tag by now: the states of sweeps, and those of webhooks.
var movedKeys = []struct {
	old  *regexp.Regexp
	scan string
	name string // of the keys in the tenant's slot
}{
	{regexp.MustCompile(`^orgops:v1:\{watch:([^}]*)\}(:.*)$`), "orgops:v1:{watch:*", "watch"},
	{regexp.MustCompile(`^orgops:v3:\{webhooks:([^}]*)\}(.*)$`), "orgops:v3:{webhooks:*", "webhooks"},
}

// Upgrade moves keys of data of version 3 to their present names, and raises the version. Runs stay
// as they are. It returns the number of moved keys. No other process may use the data: it is an
// error if workers live. An upgrade that was interrupted is to be repeated. Other versions, and an
// empty Redis, it leaves alone, with an error if they cannot be used. masters are the nodes that
// have the keys.
func (l *Ledger) Upgrade(ctx context.Context, masters []redis.Cmdable) (moved int, err error) {
	// The data is of the former version, and no worker uses it.
	text, err := l.rdb.Get(ctx, schemaKey).Result()
	if err != nil && !absent(err) {
		return 0, fmt.Errorf("read the schema version: %w", err)
	}
	if text != fmt.Sprint(former) {
		return 0, l.ReadSchema(ctx)
	}
	alive, err := l.Sessions(ctx)
	if err != nil {
		return 0, err
	}
	if len(alive) > 0 {
		return 0, fmt.Errorf("%d workers are running: stop all workers, producers and intakes first", len(alive))
	}

	// The keys, then the version.
	for _, master := range masters {
		for _, keys := range movedKeys {
			each := master.Scan(ctx, 0, keys.scan, 1000).Iterator()
			for each.Next(ctx) {
				parts := keys.old.FindStringSubmatch(each.Val())
				if parts == nil {
					continue
				}
				if err := l.move(ctx, each.Val(), prefix+"{tenant:"+parts[1]+"}:"+keys.name+parts[2]); err != nil {
					return moved, fmt.Errorf("move key %s: %w", each.Val(), err)
				}
				moved++
			}
			if err := each.Err(); err != nil {
				return moved, fmt.Errorf("look for keys %s: %w", keys.scan, err)
			}
		}
	}
	if err := l.rdb.Set(ctx, schemaKey, schema, 0).Err(); err != nil {
		return moved, fmt.Errorf("write the schema version: %w", err)
	}
	return moved, nil
}

// move moves a key, which may have to go to another node, so that Redis cannot rename it. A key
// that an interrupted move has copied stays.
func (l *Ledger) move(ctx context.Context, from, to string) error {
	value, err := l.rdb.Dump(ctx, from).Result()
	if absent(err) { // SCAN returns a key twice at times
		return nil
	}
	if err != nil {
		return err
	}
	left, err := l.rdb.PTTL(ctx, from).Result()
	if err != nil {
		return err
	}
	err = l.rdb.Restore(ctx, to, max(left, 0).Truncate(time.Millisecond), value).Err()
	if err != nil && !strings.HasPrefix(err.Error(), "BUSYKEY") {
		return err
	}
	return l.rdb.Unlink(ctx, from).Err()
}
