package producer

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/rowfile"
	"orgops/internal/untrusted"
	"orgops/tasks"
)

// Kinds of rows.
const (
	Verify   = tasks.TypeVerify // verify a discovery domain
	Update   = tasks.TypeUpdate // update a discovery domain
	Remove   = tasks.TypeRemove // remove a client from an organization
	Template = tasks.TypeCreate // create a template
)

// Errors of a [Producer], for errors.Is.
var (
	// ErrNotFound reports that no row was submitted under the id, or that it was deleted.
	ErrNotFound = ledger.ErrNotFound
	// ErrMismatch reports that another row, or a run of many rows, has the id. Nothing has
	// changed.
	ErrMismatch = ledger.ErrMismatch
	// ErrNoMemory reports that Redis is at its maxmemory. The row can be submitted again.
	ErrNoMemory = ledger.ErrNoMemory
)

// Row is a row to be submitted. Kind and Row are required.
type Row struct {
	// ID names the row and its run: 1 to 64 letters, digits, - or _. Choose one that
	// follows from the row's purpose, such as signup-4711: then the row can be submitted
	// again safely. Empty: Submit makes one.
	ID string
	// Tenant is the tenant's name; empty: default.
	Tenant string
	// Kind is one that anyone may submit ([tasks.Kinds]), such as [Verify].
	Kind string
	// Row is a JSON object with the columns that a file of this kind has as members, or
	// the body of a template.
	Row json.RawMessage
	// GiveUp is how long a row of kind Verify waits for its token; 0: the setting of its tenant.
	GiveUp time.Duration
	// Max is how many verified domains of the tenant rows of kind Update may set to pending in seven
	// days, those of other rows and revocations included. More rows are refused. 0: 20, or 1 % of the
	// domains of the last complete sweep if that is more.
	Max int64
	// Label is free text for people; at most 200 characters are stored.
	Label string
	// Priority is high or normal; empty: high, as for any run of few rows.
	Priority tasks.Priority
	// NotBefore is when the row may start; zero: at once.
	NotBefore time.Time
	// BatchWait is how long a row of kind Remove waits for others of its organization, to be
	// removed by the same request; 0: [tasks.DefaultBatchWait], negative: it does not wait.
	BatchWait time.Duration
}

// Producer submits rows. It is safe for concurrent use.
type Producer struct {
	redis  redis.Cmdable
	ledger *ledger.Ledger
	// checked is set once the version of the data in Redis was found to be ours.
	checked atomic.Bool
}

// New returns a producer for the Redis of the workers. rdb is any client of go-redis, such as a
// [redis.Client] or a [redis.ClusterClient], and not a pipeline. New does not connect.
func New(rdb redis.Cmdable) *Producer { return &Producer{redis: rdb, ledger: ledger.New(rdb)} }

// Submit commits the row and returns its id. To submit the same row again under the same id
// is harmless, also while it is executed and after its end, whatever the other fields are
// then; a row that was cancelled stays cancelled. If the id has another row, kind or tenant
// the error is [ErrMismatch]. An id is free again when its run was deleted, by an operator or
// 30 days after its end. On any other error the row may or may not be committed, and may be
// submitted again; the id is empty only if the row is refused before a request to Redis.
func (p *Producer) Submit(ctx context.Context, r Row) (id string, err error) {
	r.ID = cmp.Or(r.ID, newID(time.Now()))
	r.Tenant = cmp.Or(r.Tenant, tasks.DefaultTenant)
	run, content, err := r.run()
	if err != nil {
		return "", err
	}
	if err := p.check(ctx); err != nil {
		return r.ID, err
	}
	if _, _, err := p.ledger.SubmitRow(ctx, run, content); err != nil {
		return r.ID, fmt.Errorf("submit row %s: %w", r.ID, err)
	}
	return r.ID, nil
}

// newID returns an id that sorts by time, as [tasks.NewRunID] does, with more random
// letters: a service may submit thousands of rows a second.
func newID(now time.Time) string {
	return now.UTC().Format("20060102-150405-") + strings.ToLower(rand.Text()[:16])
}

// run checks the row as that of a file, and returns its run, and the row as it is stored.
func (r Row) run() (run ledger.NewRun, content []byte, err error) {
	err = tasks.CheckRun(r.Tenant, r.ID, r.Priority)
	if r.BatchWait > 0 {
		err = errors.Join(err, tasks.CheckBatchWait(r.BatchWait))
	}
	if r.GiveUp < 0 {
		err = errors.Join(err, fmt.Errorf("give-up: want no negative duration, got %s", r.GiveUp))
	}
	if r.Max < 0 {
		err = errors.Join(err, fmt.Errorf("max: want 1 or more, got %d", r.Max))
	}
	if err != nil {
		return run, nil, err
	}
	kind, ok := tasks.KindOf(r.Kind)
	if !ok || kind.Submitter != tasks.Anyone {
		var names []string
		for _, kind := range tasks.Kinds() {
			names = append(names, kind.Name)
		}
		return run, nil, fmt.Errorf("kind: want one of %s, got %s", strings.Join(names, ", "), untrusted.Value(r.Kind))
	}
	row, err := rowfile.ParseRow(kind, r.Row)
	if err != nil {
		return run, nil, fmt.Errorf("row %s: %w", r.ID, err)
	}
	run = ledger.NewRun{
		ID: ledger.RunID(r.ID), Tenant: ledger.Tenant(r.Tenant), Kind: ledger.Kind(r.Kind),
		Description: ledger.Description{Label: r.Label, Format: rowfile.FormatJSONL,
			Priority: string(r.Priority), GiveUp: r.GiveUp, Max: r.Max},
		Control: ledger.Control{NotBefore: r.NotBefore},
	}
	if kind.Together > 0 {
		run.Group = row.Organization()
		run.BatchWait = max(cmp.Or(r.BatchWait, tasks.DefaultBatchWait), 0)
	}
	content, err = row.Content()
	return run, content, err
}

// check returns an error unless this version may write to the data in Redis. It asks once.
func (p *Producer) check(ctx context.Context) error {
	if p.checked.Load() {
		return nil
	}
	if err := p.ledger.CheckSchema(ctx); err != nil {
		return err
	}
	p.checked.Store(true)
	return nil
}
