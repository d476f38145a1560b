package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
)

const (
	// Retention is how long a run is remembered after its end, unless it says otherwise.
	Retention = 30 * 24 * time.Hour
	// MaxRows bounds a run, so that one wrong row number cannot make Redis
	// allocate a bitmap of gigabytes: 12.5 MB each at the most.
	MaxRows = 100_000_000
)

// Ledger reads and writes runs. It is safe for concurrent use, by many
// processes too.
type Ledger struct {
	rdb  redis.UniversalClient
	core *ledger.Ledger
}

// New returns the ledger in rdb, to which it does not yet talk.
func New(rdb redis.UniversalClient) *Ledger { return &Ledger{rdb: rdb, core: ledger.New(rdb)} }

// CheckSchema marks an empty Redis with the version of the ledger: see
// [ledger.Ledger.CheckSchema].
func (l *Ledger) CheckSchema(ctx context.Context) error { return l.core.CheckSchema(ctx) }

// ReadSchema returns an error if Redis holds data that this version cannot use: see
// [ledger.Ledger.ReadSchema].
func (l *Ledger) ReadSchema(ctx context.Context) error { return l.core.ReadSchema(ctx) }

// Create writes a run down, or finds it: a run of the same id, kind, tenant and
// digest is returned as it stands, with created false. If one of those differs
// the error is a [MismatchError].
func (l *Ledger) Create(ctx context.Context, r Run) (run Run, created bool, err error) {
	if err := checkNew(r); err != nil {
		return Run{}, false, err
	}
	if err := l.checkFree(ctx, r.ID, r.Kind); err != nil {
		return Run{}, false, err
	}
	r.First = firstGeneration()
	fields, err := r.fields()
	if err != nil {
		return Run{}, false, fmt.Errorf("run %s: create: %w", r.ID, err)
	}
	createdAt := ""
	if !r.CreatedAt.IsZero() {
		createdAt = strconv.FormatInt(toMillis(r.CreatedAt), 10)
	}
	want := map[string]string{"kind": r.Kind, "tenant": r.Tenant, "content": r.Digest}
	args := append([]any{r.Kind, r.Tenant, r.Digest, createdAt}, fields...)
	status, rest, err := l.do(ctx, createScript, r.ID, want, args...)
	if err != nil {
		return Run{}, false, fmt.Errorf("run %s: create: %w", r.ID, err)
	}
	run, err = parseRun(r.ID, pairs(rest))
	if err != nil {
		return Run{}, false, err
	}
	// The index is in another slot. A crash before this line is healed by whoever
	// creates the run again; an entry before its run could be trimmed by List.
	entry := redis.Z{Score: float64(toMillis(run.CreatedAt)), Member: r.ID}
	err = l.rdb.ZAdd(ctx, indexKey, entry).Err()
	if err == nil && !run.Ended() {
		err = l.rdb.SAdd(ctx, untoldKey, r.ID).Err()
	}
	if err == nil && run.Walking() {
		err = l.rdb.SAdd(ctx, sealedKey, r.ID).Err()
	}
	if err != nil {
		return Run{}, false, fmt.Errorf("run %s: create: %w", r.ID, err)
	}
	return run, status == "created", nil
}

func checkNew(r Run) error {
	if err := checkID(r.ID); err != nil {
		return err
	}
	switch {
	case r.Kind == "":
		return fmt.Errorf("run %s: create: no kind", r.ID)
	case r.Tenant == "":
		return fmt.Errorf("run %s: create: no tenant", r.ID)
	case r.Format != "" && r.Format != "csv" && r.Format != "jsonl":
		return fmt.Errorf("run %s: create: format %s: want csv or jsonl", r.ID, quoted(r.Format))
	}
	return nil
}

// pairs reads the answer to HGETALL within a script's answer.
func pairs(rest []any) map[string]string {
	m := map[string]string{}
	if len(rest) == 0 {
		return m
	}
	flat, _ := rest[0].([]any)
	for pair := range slices.Chunk(flat, 2) {
		if len(pair) == 2 {
			m[fmt.Sprint(pair[0])] = fmt.Sprint(pair[1])
		}
	}
	return m
}

// Seal says that the run has total rows and no more will come. If all are
// settled already, the run ends here. To seal again is harmless; with another
// total, or with fewer rows than were stored or settled, it is a [MismatchError].
// Where rows below total are not stored, since Redis has lost them, it is an
// [ErrGap], and the run stays as it was.
func (l *Ledger) Seal(ctx context.Context, run string, total int64) error {
	if err := checkID(run); err != nil {
		return err
	}
	if total < 0 || total > MaxRows {
		return fmt.Errorf("run %s: seal: %d rows: want 0 to %d", run, total, int64(MaxRows))
	}
	// First, so that no moment is between in which the run is sealed and Unsettled
	// does not know of it. What is not sealed in the end, Unsettled leaves out.
	if err := l.rdb.SAdd(ctx, sealedKey, run).Err(); err != nil {
		return fmt.Errorf("run %s: seal: %w", run, err)
	}
	want := map[string]string{"total": strconv.FormatInt(total, 10)}
	status, rest, err := l.do(ctx, sealScript, run, want, total, ChunkRows)
	if err == nil && status == "gap" {
		err = fmt.Errorf("from row %v on: %w", rest[0], ErrGap)
	}
	if err != nil {
		return fmt.Errorf("run %s: seal: %w", run, err)
	}
	return nil
}

// Get returns a run as it stands, or [ErrNotFound].
func (l *Ledger) Get(ctx context.Context, run string) (Run, error) {
	switch core, found, err := l.inCore(ctx, run); {
	case err != nil:
		return Run{}, err
	case found:
		return l.getCore(ctx, core)
	}
	return l.get(ctx, run)
}

// get is Get for a run of the old ledger.
func (l *Ledger) get(ctx context.Context, run string) (Run, error) {
	if err := checkID(run); err != nil {
		return Run{}, err
	}
	hash, err := l.rdb.HGetAll(ctx, key(run, "run")).Result()
	if err != nil {
		return Run{}, fmt.Errorf("run %s: read: %w", run, err)
	}
	if len(hash) == 0 {
		return Run{}, fmt.Errorf("run %s: %w", run, ErrNotFound)
	}
	return parseRun(run, hash)
}

// listPage is how many runs are read in one round trip.
const listPage = 500

// List returns all runs, the newest first, and trims the index of those that
// Redis has forgotten.
func (l *Ledger) List(ctx context.Context) ([]Run, error) {
	index, err := l.rdb.ZRevRangeWithScores(ctx, indexKey, 0, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	list := make([]Run, 0, len(index))
	for page := range slices.Chunk(index, listPage) {
		some, err := l.read(ctx, page)
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	core, err := l.listCore(ctx)
	if err != nil {
		return nil, err
	}
	list = append(list, core...)
	slices.SortStableFunc(list, func(a, b Run) int { return order(a.place(), b.place()) })
	return list, nil
}

// read returns the runs of entries of the index, less those that Redis has
// forgotten, which are taken out of it.
func (l *Ledger) read(ctx context.Context, index []redis.Z) ([]Run, error) {
	hashes := make([]*redis.MapStringStringCmd, len(index))
	_, err := l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, entry := range index {
			hashes[i] = p.HGetAll(ctx, key(entry.Member.(string), "run"))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	list := make([]Run, 0, len(index))
	for i, entry := range index {
		id := entry.Member.(string)
		if len(hashes[i].Val()) == 0 {
			score := strconv.FormatFloat(entry.Score, 'f', -1, 64)
			if err := forgetScript.Run(ctx, l.rdb, []string{indexKey}, id, score).Err(); err != nil {
				return nil, fmt.Errorf("list runs: trim %s: %w", id, err)
			}
			continue
		}
		r, err := parseRun(id, hashes[i].Val())
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// Unsettled returns the ids of the runs that have not ended and wait for no
// producer, in order: those that are sealed, or whose rows a walk finds.
func (l *Ledger) Unsettled(ctx context.Context) (unsettled []string, err error) {
	ids, err := l.rdb.SMembers(ctx, sealedKey).Result()
	if err != nil {
		return nil, fmt.Errorf("list unsettled runs: %w", err)
	}
	slices.Sort(ids)
	states := make([]*redis.SliceCmd, len(ids))
	if len(ids) > 0 {
		_, err = l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, id := range ids {
				states[i] = p.HMGet(ctx, key(id, "run"), "sealed", "ended_at", "walk_step")
			}
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("list unsettled runs: %w", err)
	}
	var over []any
	for i, id := range ids {
		sealed, ended, walked := states[i].Val()[0], states[i].Val()[1], states[i].Val()[2] != nil
		switch {
		case sealed == nil || ended != nil:
			over = append(over, id)
		case sealed == "1" || walked:
			unsettled = append(unsettled, id)
		}
	}
	if len(over) > 0 {
		err = l.rdb.SRem(ctx, sealedKey, over...).Err()
	}
	var core []string
	if err == nil {
		core, err = l.unsettledCore(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("list unsettled runs: %w", err)
	}
	unsettled = append(unsettled, core...)
	slices.Sort(unsettled)
	return unsettled, nil
}

// errAbsent tells a missing field or key of Redis from a failure.
func errAbsent(err error) bool { return errors.Is(err, redis.Nil) }
