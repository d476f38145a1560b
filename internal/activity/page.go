package activity

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/redisconn"
)

// Query selects entries.
type Query struct {
	Tenants []string
	After   string    // a cursor, which [Page] has returned; "": from the newest entry on
	Since   time.Time // the zero Time: all
	Run     string    // "": of all runs, and of none
	Action  Action    // "": any
	By      string    // a part of the user's name, in any case
	Text    string    // a part of action, run, domain or result, in any case
	Limit   int
}

func (q Query) matches(e Entry) bool {
	has := func(text, part string) bool { return strings.Contains(strings.ToLower(text), strings.ToLower(part)) }
	return (q.Run == "" || q.Run == e.Run) && (q.Action == "" || q.Action == e.Action) && has(e.By, q.By) &&
		has(strings.Join([]string{string(e.Action), e.Run, e.Domain, e.Result}, "\n"), q.Text)
}

// Page returns the first entries that match, newest first, and the cursor of the next page; "": it
// is the last one. The page has more than q.Limit entries if several tenants have one at its end's
// millisecond, and fewer if it is the last one, or if 100,000 entries were searched for it.
func Page(ctx context.Context, rdb redis.Cmdable, q Query) (page []Entry, next string, err error) {
	for range 5 {
		entries, after, err := q.read(ctx, rdb)
		if err != nil {
			return nil, "", fmt.Errorf("read the activity: %w", err)
		}
		page = append(page, entries...)
		q.After = after
		if len(page) >= q.Limit || after == "" {
			break
		}
	}
	for i := q.Limit; i < len(page); i++ {
		if last := page[i-1].ID; page[i].ID != last {
			return page[:i], "(" + last, nil
		}
	}
	return page, q.After, nil
}

// read reads the next entries of each tenant, and returns those that match, newest first, up to the
// place that all lists were read to, which is next.
func (q Query) read(ctx context.Context, rdb redis.Cmdable) (all []Entry, next string, err error) {
	from := cmp.Or(q.After, "+")
	until := strconv.FormatInt(max(q.Since.UnixMilli(), 0), 10)
	size := min(max(20_000/max(len(q.Tenants), 1), 10), 1000) // of a tenant
	if q.Run+q.By+q.Text == "" {
		size = min(size, q.Limit+1)
	}
	found := make([][]redis.XMessage, len(q.Tenants))
	err = redisconn.Batch(ctx, rdb, len(found), func(i int, rdb redis.Cmdable) (err error) {
		found[i], err = rdb.XRevRangeN(ctx, key(q.Tenants[i]), from, until, int64(size)).Result()
		return err
	})
	reached := Entry{}
	for i, messages := range found {
		for at, m := range messages {
			e := entryOf(q.Tenants[i], m)
			if all = append(all, e); at == size-1 && (next == "" || newer(e, reached) < 0) {
				reached = e
				next = "(" + m.ID
			}
		}
	}
	all = slices.DeleteFunc(all, func(e Entry) bool { return !q.matches(e) || (next != "" && newer(reached, e) < 0) })
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Or(newer(a, b), cmp.Compare(a.Tenant, b.Tenant)) })
	return all, next, err
}

// newer compares two entries by their ids, the newer one first: the number behind the time has more
// digits if it is higher.
func newer(a, b Entry) int {
	return cmp.Or(b.At.Compare(a.At), cmp.Compare(len(b.ID), len(a.ID)), cmp.Compare(b.ID, a.ID))
}
