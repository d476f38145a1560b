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

// Wanted says which runs a page is of.
type Wanted struct {
	// Is says it of a run; nil: all are.
	Is func(Run) bool
	// After is where the page before this one has ended, and Most how many runs a page has.
	After Place
	Most  int
	// Look is how many runs are read at the most; 0: as many as it takes.
	Look int
}

// Page returns the newest runs that are wanted. Others are read past, a page of
// the list at a time. Where there may be more, next is where to go on; else it is
// the zero Place. It may be short of w.Most, or empty, where w.Look were read.
func (l *Ledger) Page(ctx context.Context, w Wanted) (page []Run, next Place, err error) {
	after, looked := w.After, 0
	from := "+inf"
	if !after.CreatedAt.IsZero() {
		from = strconv.FormatInt(toMillis(after.CreatedAt), 10)
	}
	for read := int64(0); ; read += listPage {
		index, err := l.rdb.ZRevRangeByScoreWithScores(ctx, indexKey, &redis.ZRangeBy{Min: "-inf", Max: from, Offset: read, Count: listPage}).Result()
		if err != nil {
			return nil, Place{}, fmt.Errorf("list runs: %w", err)
		}
		some, err := l.read(ctx, index)
		if err != nil {
			return nil, Place{}, err
		}
		for _, r := range some {
			if !r.after(after) { // a run made meanwhile has moved it down the list
				continue
			}
			looked++
			is := w.Is == nil || w.Is(r)
			if (is && len(page) == w.Most) || (w.Look > 0 && looked > w.Look) {
				return page, after, nil
			}
			after = r.Place()
			if is {
				page = append(page, r)
			}
		}
		if len(index) < listPage {
			return page, Place{}, nil
		}
		read -= int64(len(index) - len(some)) // what was trimmed has no place any more
	}
}

// after says whether the run comes after a place. Where times are the same
// Redis lists the greater id first.
func (r Run) after(p Place) bool {
	return p.CreatedAt.IsZero() || r.CreatedAt.Before(p.CreatedAt) || (r.CreatedAt.Equal(p.CreatedAt) && r.ID < p.ID)
}
