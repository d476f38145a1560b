package console

import (
	"context"
	"html/template"
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"

	"golang.org/x/crypto/bcrypt"
)

// CountRounds wraps each comparison of the present users, and returns the rounds of bcrypt
// that they have taken so far.
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

// Attempts queues the attempts to sign in, by address.
type Attempts struct{ *attempts }

// NewAttempts returns new Attempts.
func NewAttempts() Attempts { return Attempts{newAttempts()} }

// Try verifies a password as Guard does.
func (a Attempts) Try(ctx context.Context, from netip.Addr, verify func() bool) (bool, error) {
	return a.try(ctx, from, verify)
}

// Under returns the number of addresses with attempts.
func (a Attempts) Under() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.addresses)
}

// ErrTooMany is the error of a refused sign-in.
var ErrTooMany = errTooMany

// Bounds of concurrent attempts.
const (
	MaxWaiting   = maxWaiting
	MaxAddresses = maxAddresses
	AfterFailure = afterFailure
)

// Guard wraps a handler in the guard of the pages.
func Guard(next http.Handler) http.Handler {
	return newGuard(next, Access{}, slog.New(slog.DiscardHandler))
}

// WithUser sets the user of the requests with this context, without a sign-in.
var WithUser = withUser

// PageTemplates returns the templates of the pages, by name.
func PageTemplates() map[string]*template.Template { return newSite(Config{}).pages }

// PageData has, for each page, data of its type. [PageOf] puts the layout's data around it.
var PageData = map[string]any{
	"problem": "", "runs": runsPage{}, "run": runPage{}, "domains": domainPage{}, "tenants": tenantsPage{},
}

// PageOf returns the data of a page and of its layout.
func PageOf(data any, write bool) any {
	return page{Title: "Title", Section: "runs", Write: write, Notice: "Notice", Failed: write, Data: data}
}
