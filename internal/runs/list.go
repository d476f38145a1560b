package runs

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/redisconn"
)

// List returns all runs but those of single rows, the newest first.
func (l *Ledger) List(ctx context.Context) ([]ledger.Run, error) {
	headers, err := l.eachTenant(ctx, (*ledger.Ledger).Runs)
	if err != nil {
		return nil, err
	}
	list := exact(headers)
	slices.SortStableFunc(list, func(a, b ledger.Run) int {
		return order(Place{a.CreatedAt, a.ID}, Place{b.CreatedAt, b.ID})
	})
	return list, nil
}

// Open returns the runs that have not ended, single rows among them.
func (l *Ledger) Open(ctx context.Context) ([]ledger.Run, error) {
	singles, err := l.eachTenant(ctx, (*ledger.Ledger).OpenSingles)
	if err != nil {
		return nil, fmt.Errorf("list open runs: %w", err)
	}
	headers, err := l.OpenHeaders(ctx)
	if err != nil {
		return nil, fmt.Errorf("list open runs: %w", err)
	}
	return exact(slices.DeleteFunc(append(headers, singles...), ledger.Run.Ended)), nil
}

// exact returns runs as [Exact] shows them.
func exact(runs []ledger.Run) []ledger.Run {
	all := make([]ledger.Run, len(runs))
	for i, run := range runs {
		all[i] = Exact(run)
	}
	return all
}

// All returns all runs, single rows among them, in no order.
func (l *Ledger) All(ctx context.Context) ([]ledger.Run, error) {
	all, err := l.eachTenant(ctx, (*ledger.Ledger).All)
	if err != nil {
		return nil, fmt.Errorf("list all runs: %w", err)
	}
	return exact(all), nil
}

// OpenCounts counts the open runs and rows of a tenant.
type OpenCounts struct {
	Runs int64 // single rows among them
	Rows int64 // of these runs, submitted and not settled
}

// OpenByTenant sums the runs that have not ended, for each tenant that has one. It reads the
// headers of each tenant's open runs, and counts single rows.
func (l *Ledger) OpenByTenant(ctx context.Context) (map[string]OpenCounts, error) {
	singles, err := l.CountSingles(ctx)
	if err != nil {
		return nil, err
	}
	headers, err := l.OpenHeaders(ctx)
	if err != nil {
		return nil, fmt.Errorf("list open runs: %w", err)
	}
	open := map[string]OpenCounts{}
	for t, n := range singles {
		if n > 0 {
			open[string(t)] = OpenCounts{Runs: n, Rows: n}
		}
	}
	for _, r := range headers {
		o := open[string(r.Tenant)]
		open[string(r.Tenant)] = OpenCounts{Runs: o.Runs + 1, Rows: o.Rows + max(0, r.Rows-r.Settled())}
	}
	return open, nil
}

// CountSingles returns the number of open single rows of each tenant.
func (l *Ledger) CountSingles(ctx context.Context) (map[ledger.Tenant]int64, error) {
	tenants, err := l.core.Tenants(ctx)
	if err != nil || len(tenants) == 0 {
		return nil, err
	}
	return l.core.CountSingles(ctx, tenants...)
}

// OpenHeaders returns the runs that have not ended, without single rows, as their headers have
// them.
func (l *Ledger) OpenHeaders(ctx context.Context) ([]ledger.Run, error) {
	open, err := l.eachTenant(ctx, (*ledger.Ledger).OpenRuns)
	return slices.DeleteFunc(open, ledger.Run.Ended), err
}

// eachTenant returns the runs that list returns of all tenants.
func (l *Ledger) eachTenant(ctx context.Context,
	list func(*ledger.Ledger, context.Context, ledger.Tenant) ([]ledger.Run, error)) ([]ledger.Run, error) {
	tenants, err := l.core.Tenants(ctx)
	if err != nil {
		return nil, err
	}
	lists := make([][]ledger.Run, len(tenants))
	err = redisconn.Batch(ctx, l.rdb, len(tenants), func(i int, rdb redis.UniversalClient) (err error) {
		lists[i], err = list(ledger.New(rdb), ctx, tenants[i])
		return err
	})
	return slices.Concat(lists...), err
}

// Place is a run's place in the list of all runs, which is ordered by time of creation and
// then by id. The zero Place is before the newest.
type Place struct {
	CreatedAt time.Time // to the millisecond
	ID        ledger.RunID
}

// String returns the place as a parameter of an address; see [ParsePlace].
func (p Place) String() string { return fmt.Sprintf("%d-%s", p.CreatedAt.UnixMilli(), p.ID) }

// ParsePlace reads a place of [Place.String]; "" is the zero Place. The id may be of no run.
func ParsePlace(text string) (p Place, ok bool) {
	if text == "" {
		return Place{}, true
	}
	at, id, _ := strings.Cut(text, "-")
	ms, err := strconv.ParseInt(at, 10, 64)
	return Place{CreatedAt: time.UnixMilli(ms).UTC(), ID: ledger.RunID(id)},
		err == nil && ms > 0 && placeID.MatchString(id)
}

var placeID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// order compares places: the newest first, of the same time the greater id.
func order(a, b Place) int {
	return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
}
