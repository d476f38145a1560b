package console

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/bcrypt"
)

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

// ErrTooMany is the error of a refused sign-in.
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

// WithUser sets the user of a context's requests without a sign-in.
var WithUser = withUser
