package console

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"golang.org/x/crypto/bcrypt"

	"orgops/internal/runs"
)

// NewQueueCollector lets the tests put an inspector of their own instead of
// asynq's, which cannot be made to hang.
func NewQueueCollector(i inspector, logger *slog.Logger) prometheus.Collector {
	return newRedisCollector(logger, nil, queueSource{inspector: given(i)}.read)
}

func given(i inspector) func(redis.UniversalClient) inspector {
	return func(redis.UniversalClient) inspector { return i }
}

// NewRunCollector collects the open runs that open gives.
func NewRunCollector(open func(context.Context) (map[string]runs.Open, error)) prometheus.Collector {
	return newRedisCollector(nil, openRuns(open, nil))
}

// NewCollector collects the open runs that open gives, and the queues.
func NewCollector(i inspector, open func(context.Context) (map[string]runs.Open, error)) prometheus.Collector {
	return newRedisCollector(nil, openRuns(open, nil), queueSource{inspector: given(i)}.read)
}

// ReadUsersAt is ReadUsers by a clock.
func ReadUsersAt(file string, logger *slog.Logger, now func() time.Time) (*Users, error) {
	return readUsers(file, logger, now)
}

// CountRounds has wrapped each comparison of the users that there are now, and gives
// the rounds of bcrypt that they took so far.
func (u *Users) CountRounds() (rounds func() int64) {
	var sum atomic.Int64
	list := u.list.Get()
	compare := list.compare
	list.compare = func(hash, password []byte) error {
		cost, _ := bcrypt.Cost(hash)
		sum.Add(1 << cost)
		return compare(hash, password)
	}
	return sum.Load
}

// Attempts are the lines of those who sign in.
type Attempts struct{ *attempts }

// NewAttempts gives new ones.
func NewAttempts() Attempts { return Attempts{newAttempts()} }

// Try is what guard does.
func (a Attempts) Try(ctx context.Context, from netip.Addr, verify func() bool) (bool, error) {
	return a.try(ctx, from, verify)
}

// Under is how many addresses are under way.
func (a Attempts) Under() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.addresses)
}

// ErrTooMany is what those hear who are not heard.
var ErrTooMany = errTooMany

// Bounds of what is under way.
const (
	MaxWaiting   = maxWaiting
	MaxAddresses = maxAddresses
	AfterFailure = afterFailure
)

// Guard puts the guard of the pages before a handler.
func Guard(next http.Handler) http.Handler {
	return newGuard(next, Access{}, slog.New(slog.DiscardHandler))
}
