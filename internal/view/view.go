package view

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/activity"
	"orgops/internal/health"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/redisconn"
	"orgops/internal/status"
	"orgops/internal/untrusted"
	"orgops/internal/web"
	"orgops/tasks"
)

// View gives one user access to the data that their present entry permits.
type View struct {
	store *Store
	user  web.User

	// Redis and the ledger in it; of [View.Batch] they are for reads only.
	redis  redis.Cmdable
	ledger *ledger.Ledger
}

// ofTenant reports whether the tenant is the user's: their entry has it, or all.
func (v View) ofTenant(name string) bool { return v.user.MayTenant(name) }

// ofOrganization reports whether an organization of a tenant of the user is theirs, and so its
// domains: their entry has it, or all, or no organizations. "" stands for rows without an
// organization, which are not theirs if the entry lists organizations.
func (v View) ofOrganization(id string) bool { return v.user.MayOrganization(id) }

// ofRun reports whether the run is the user's.
func (v View) ofRun(ctx context.Context, r ledger.Run) (bool, error) {
	if !v.ofTenant(string(r.Tenant)) {
		return false, nil
	}
	switch v.user.Role {
	case web.Reader, web.Operator:
		return true, nil // they see whole runs: their entries have no organizations
	case web.Submitter:
		// Runs belong to the name that has submitted them. The present entry of that name may be
		// narrower than the one that has submitted the run.
		if r.Caller != v.user.Name {
			return false, nil
		}
		return v.ofRows(ctx, r)
	}
	return false, nil
}

// ofRows reports whether all rows of the run are of organizations of the user.
func (v View) ofRows(ctx context.Context, r ledger.Run) (bool, error) {
	if len(v.user.Organizations) == 0 {
		return true, nil
	}

	// Rows are read once for each list of organizations: those of a committed run remain the same.
	known := &v.store.owners
	key := string(r.Incarnation) + " " + strings.Join(v.user.Organizations, " ")
	if is, ok := known.get(key); ok {
		return is, nil
	}
	for row, err := range v.ledger.Each(ctx, r, ledger.Every, 0) {
		if err != nil {
			return false, err
		}
		if row.Content == nil {
			return false, row.Err
		}
		// A row that was refused as it was read is only a part of the user's own request.
		invalid := row.Phase == ledger.PhaseSettled && row.Result.Outcome == ledger.Outcome(ledger.InvalidRow)
		if !invalid && !v.ofOrganization(tasks.OrganizationOf(row.Content)) {
			known.put(key, false)
			return false, nil
		}
	}
	if r.HasAllRows() {
		known.put(key, true)
	}
	return true, nil
}

// OnlyTenant returns the name of the user's only tenant; empty: they have several.
func (v View) OnlyTenant() string {
	if len(v.user.Tenants) != 1 || v.ofTenant("*") {
		return ""
	}
	return v.user.Tenants[0]
}

// NotFoundError says that something does not exist for the user, be it that there is none, or that
// it is not theirs. It is a [ledger.ErrNotFound].
type NotFoundError struct {
	What string // tenant, organization, run or domain
	Name string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("there is no %s %s, or your access does not include it", e.What, untrusted.Plain(e.Name, 100))
}

// Unwrap returns ledger.ErrNotFound.
func (e *NotFoundError) Unwrap() error { return ledger.ErrNotFound }

// missing returns err, or the error of something that does not exist for the user if it was not
// found, or is not theirs.
func missing(err error, mine bool, what, name string) error {
	if errors.Is(err, ledger.ErrNotFound) || (err == nil && !mine) {
		return &NotFoundError{What: what, Name: name}
	}
	return err
}

// Config configures a [Store].
type Config struct {
	// Redis has to end its commands with their contexts (redisconn.Open), and so have Ledger's and
	// Intake's: a request whose client has gone must stop reading.
	Redis  redis.Cmdable
	Ledger *ledger.Ledger
	Intake intake.Intake
	// Tenants returns the names of those that this process serves, which may change; nil: none. The
	// others are those that Redis knows.
	Tenants func() []string
	Logger  *slog.Logger // nil: nothing is logged
}

// Store makes the views of users.
type Store struct {
	cfg       Config
	owners    ownership
	estimator *status.Estimator
	fleet     *health.Poll[reading]
	open      *health.Poll[map[string]ledger.OpenCounts] // by tenant; nil: it was never read
}

// reading is the state of all workers and tenants, those without a worker included.
type reading struct {
	at       time.Time       // zero: it was never read
	tenants  []status.Tenant // by name
	sessions []ledger.Session
	died     []ledger.Session
	err      error // of the last reading; the rest is from the one before
}

// NewStore returns a Store.
func NewStore(cfg Config) *Store {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Tenants == nil {
		cfg.Tenants = func() []string { return nil }
	}
	s := &Store{cfg: cfg, estimator: status.NewEstimator(cfg.Redis)}
	s.fleet = s.newFleet()
	s.open = s.newOpen()
	return s
}

// For returns the view of a user.
func (s *Store) For(user web.User) View {
	return View{store: s, user: user, redis: s.cfg.Redis, ledger: s.cfg.Ledger}
}

// Batch calls read n times, with views whose reads are sent together: see [redisconn.Batch].
func (v View) Batch(ctx context.Context, n int, read func(i int, v View) error) error {
	return redisconn.Batch(ctx, v.redis, n, func(i int, rdb redis.Cmdable) error {
		over := v
		over.redis = rdb
		over.ledger = ledger.New(rdb)
		return read(i, over)
	})
}

// mostName bounds the name of a user in the activity, which a proxy chooses.
const mostName = 500

// author returns the author of the user's actions, who may have given a reason.
func (v View) author(reason string) activity.Author {
	return activity.Author{Redis: v.redis, Logger: v.store.cfg.Logger, Name: untrusted.Plain(v.user.Name, mostName),
		Reason: reason}
}
