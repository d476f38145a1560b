package runs

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Place is a run's place in the list of all, which is by time of creation and
// then by id. The zero Place is before the newest.
type Place struct {
	CreatedAt time.Time // to the millisecond
	ID        string
}

// Place is the run's.
func (r Run) Place() Place { return Place{r.CreatedAt, r.ID} }

// Page returns the newest runs of a caller that come after a place, at most most
// of them, and whether there may be more. Runs of others are read past, a page
// of the list at a time.
func (l *Ledger) Page(ctx context.Context, caller string, after Place, most int) (page []Run, more bool, err error) {
	from := "+inf"
	if !after.CreatedAt.IsZero() {
		from = strconv.FormatInt(toMillis(after.CreatedAt), 10)
	}
	for read := int64(0); ; read += listPage {
		index, err := l.rdb.ZRevRangeByScoreWithScores(ctx, indexKey, &redis.ZRangeBy{Min: "-inf", Max: from, Offset: read, Count: listPage}).Result()
		if err != nil {
			return nil, false, fmt.Errorf("list runs: %w", err)
		}
		some, err := l.read(ctx, index)
		if err != nil {
			return nil, false, err
		}
		for _, r := range some {
			if !r.after(after) { // a run made meanwhile has moved it down the list
				continue
			}
			after = r.Place()
			if r.Caller != caller {
				continue
			}
			if len(page) == most {
				return page, true, nil
			}
			page = append(page, r)
		}
		if len(index) < listPage {
			return page, false, nil
		}
		read -= int64(len(index) - len(some)) // what was trimmed has no place any more
	}
}

// after says whether the run comes after a place. Where times are the same
// Redis lists the greater id first.
func (r Run) after(p Place) bool {
	return p.CreatedAt.IsZero() || r.CreatedAt.Before(p.CreatedAt) || (r.CreatedAt.Equal(p.CreatedAt) && r.ID < p.ID)
}
