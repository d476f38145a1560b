package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/web"
)

// countScript adds the rows of a run to those of a day, once, unless there would be too many. It
// returns how many are left without them; below 0: they were not added.
var countScript = redis.NewScript(`
local rows = ARGV[2] - (redis.call("HGET", KEYS[1], ARGV[1]) or 0)
local left = ARGV[3] - (redis.call("HGET", KEYS[1], "") or 0) - rows
if rows == 0 then
	return 0
elseif left < 0 then
	return left
end
redis.call("HSET", KEYS[1], ARGV[1], ARGV[2])
redis.call("HINCRBY", KEYS[1], "", rows)
redis.call("EXPIRE", KEYS[1], 172800)
return left`)

// dailyRows counts rows in Redis.
type dailyRows struct{ redis redis.Cmdable }

// count counts the rows of a run against the caller's of this UTC day. Each run counts once,
// however often its request is repeated on that day.
func (d dailyRows) count(ctx context.Context, caller web.User, run ledger.RunID, rows int64) error {
	now := time.Now().UTC()
	key := "orgops:v3:{rows:" + caller.Name + "}:" + now.Format(time.DateOnly)
	left, err := countScript.Run(ctx, d.redis, []string{key}, string(run), rows, caller.RowsADay).Int64()
	if err != nil || left >= 0 {
		return err
	}
	midnight := now.Truncate(24 * time.Hour).Add(24 * time.Hour)
	return newProblem(http.StatusTooManyRequests, "rows-a-day",
		"You may submit %d rows in a day (UTC), and these are %d too many. "+
			"Submit fewer, or repeat the request tomorrow.", caller.RowsADay,
		-left).after(midnight.Sub(now).Round(time.Second) + time.Second).at("rows_a_day")
}
