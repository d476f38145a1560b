package sweep

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// stateTTL is how long the state of a domain is stored after the last sweep that found
	// the domain.
	stateTTL = 400 * 24 * time.Hour
	// countsTTL is how long the counts of a tick are stored: longer than the longest sweep.
	countsTTL = 31 * 24 * time.Hour
	// maxCounts bounds the counts of a tick, since name-server operators choose the names
	// with a colon. Of an operator that is not counted only the absent domains are known: its
	// name must be given to revoke them together.
	maxCounts = 10_000
	// countRevoked is the name that is counted for each domain that the sweep of a tick has found
	// lost and that was revoked since, or set to pending by a row.
	countRevoked = "revoked"
	// BrakeTime is the time in which the revocations of a tenant are counted.
	BrakeTime = 7 * 24 * time.Hour
	// withdrawnFor is how long a domain that others have taken back needs attention.
	withdrawnFor = 7 * 24 * time.Hour
	// watchedPage is how many watched domains are read at once. A usual state has some 500 bytes,
	// the largest some 30 KB.
	watchedPage = 250
)

var (
	//go:embed lua/set_domain.lua
	setDomainLua    string
	setDomainScript = redis.NewScript(setDomainLua)
	//go:embed lua/set_state.lua
	setStateLua    string
	setStateScript = redis.NewScript(setStateLua)
	//go:embed lua/count_revocation.lua
	countRevocationLua    string
	countRevocationScript = redis.NewScript(countRevocationLua)
)

// Store stores the states of a tenant's domains, and of the tenant, as bytes in Redis. A
// state is replaced only by a caller that knows the former one, so that of two executions
// of a row one writes. All keys of a tenant share a hash tag. A Store is safe for
// concurrent use, also by several processes.
type Store struct {
	rdb    redis.Cmdable
	tenant string
}

// NewStore returns the tenant's store in rdb. It sends no command.
func NewStore(rdb redis.Cmdable, tenant string) *Store {
	return &Store{rdb: rdb, tenant: tenant}
}

// key returns a key of the tenant.
func (s *Store) key(part string) string { return "orgops:v3:{tenant:" + s.tenant + "}:watch:" + part }

func (s *Store) domainKey(id string) string { return s.key("domain:" + id) }

func (s *Store) countsKey(tick int64) string { return s.key("tally:" + strconv.FormatInt(tick, 10)) }

// Domain returns the state of a domain, by its id; nil: none is stored.
func (s *Store) Domain(ctx context.Context, id string) ([]byte, error) {
	return s.read(ctx, s.domainKey(id), "domain "+id)
}

// Domains returns the states of one to a few hundred domains, by their ids; nil for a domain
// without one. It stops at the end of ctx, also with a client whose commands ignore it.
func (s *Store) Domains(ctx context.Context, ids []string) ([][]byte, error) {
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = s.domainKey(id)
	}
	values, err := s.rdb.MGet(ctx, keys...).Result()
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("read the states of domains: %w", err)
	}
	states := make([][]byte, len(values))
	for i, value := range values {
		if text, ok := value.(string); ok {
			states[i] = []byte(text)
		}
	}
	return states, nil
}

// DomainWrite replaces the state of a domain.
type DomainWrite struct {
	ID            string
	Former, Value []byte // nil: none
	Watched       bool   // the domain becomes a watched one, or remains one; not without a state
	Tick          int64  // whose counts Counted increases
	Complete      int64  // another tick, whose counts it increases too; 0: none
	Counted       []string
}

// SetDomain replaces the state of a domain if Former is stored; otherwise ok is false and
// nothing is written. It counts each name of Counted once for the tick, apart from names
// with a colon of which the tick has 10,000 others.
func (s *Store) SetDomain(ctx context.Context, w DomainWrite) (ok bool, err error) {
	watched := 0
	if w.Watched {
		watched = 1
	}
	args := []any{w.ID, w.Former, w.Value, stateTTL.Milliseconds(), watched, countsTTL.Milliseconds(), maxCounts}
	for _, name := range w.Counted {
		args = append(args, name)
	}
	keys := []string{s.domainKey(w.ID), s.key("watched"), s.countsKey(w.Tick)}
	if w.Complete != 0 {
		keys = append(keys, s.countsKey(w.Complete))
	}
	done, err := setDomainScript.Run(ctx, s.rdb, keys, args...).Int()
	if err != nil {
		return false, fmt.Errorf("store the state of domain %s: %w", w.ID, err)
	}
	return done == 1, nil
}

// WatchedDomains returns the ids of the watched domains, sorted. A domain that becomes
// watched or ceases to be meanwhile may or may not be among them. It stops at the end of
// ctx, also with a client whose commands ignore the end of theirs.
func (s *Store) WatchedDomains(ctx context.Context) (ids []string, err error) {
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		var page []string
		page, cursor, err = s.rdb.SScan(ctx, s.key("watched"), cursor, "", watchedPage).Result()
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("read the watched domains: %w", err)
		}
		ids = append(ids, page...)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil // an id may be returned twice while the set changes
}

// Counts returns how often each name was counted for the tick.
func (s *Store) Counts(ctx context.Context, tick int64) (map[string]int64, error) {
	texts, err := s.rdb.HGetAll(ctx, s.countsKey(tick)).Result()
	counts := make(map[string]int64, len(texts))
	for name, text := range texts {
		if err == nil {
			counts[name], err = strconv.ParseInt(text, 10, 64)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the counts of tick %d: %w", tick, err)
	}
	return counts, nil
}

// State returns a state of the tenant; nil: none is stored.
func (s *Store) State(ctx context.Context, name string) ([]byte, error) {
	return s.read(ctx, s.key("state:"+name), "state "+name)
}

// SetState replaces a state of the tenant if former is stored; nil: none. Otherwise ok is
// false and nothing is written.
func (s *Store) SetState(ctx context.Context, name string, former, value []byte) (ok bool, err error) {
	done, err := setStateScript.Run(ctx, s.rdb, []string{s.key("state:" + name)}, former, value).Int()
	if err != nil {
		return false, fmt.Errorf("store state %s: %w", name, err)
	}
	return done == 1, nil
}

// CountRevocation counts a revocation at a time, unless the tenant has had most others in the
// seven days before: then ok is false. One that is counted again under the same name counts once.
func (s *Store) CountRevocation(ctx context.Context, name string, at time.Time, most int64) (ok bool, err error) {
	done, err := countRevocationScript.Run(ctx, s.rdb, []string{s.key("revocations")},
		name, at.Unix(), at.Add(-BrakeTime).Unix(), most, BrakeTime.Milliseconds()).Int()
	if err != nil {
		return false, fmt.Errorf("count the revocation %s: %w", name, err)
	}
	return done == 1, nil
}

// Revocations returns how many revocations were counted in the seven days before that time.
func (s *Store) Revocations(ctx context.Context, at time.Time) (int64, error) {
	since := strconv.FormatInt(at.Add(-BrakeTime).Unix(), 10)
	n, err := s.rdb.ZCount(ctx, s.key("revocations"), since, "+inf").Result()
	if err != nil {
		return 0, fmt.Errorf("count the revocations: %w", err)
	}
	return n, nil
}

// RevokedOf returns how many of the domains that the sweep of a tick has found lost were revoked
// since, or set to pending by a row.
func (s *Store) RevokedOf(ctx context.Context, tick int64) (int64, error) {
	n, err := s.rdb.HGet(ctx, s.countsKey(tick), countRevoked).Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, fmt.Errorf("count what was revoked of tick %d: %w", tick, err)
	}
	return n, nil
}

// CountWithdrawn stores that others have taken a domain back, and forgets those of more than a week
// before.
func (s *Store) CountWithdrawn(ctx context.Context, id string, at time.Time) error {
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.ZAdd(ctx, s.key("withdrawn"), redis.Z{Score: float64(at.Unix()), Member: id})
		p.ZRemRangeByScore(ctx, s.key("withdrawn"), "-inf", strconv.FormatInt(at.Add(-withdrawnFor).Unix(), 10))
		p.PExpire(ctx, s.key("withdrawn"), withdrawnFor)
		return nil
	})
	if err != nil {
		return fmt.Errorf("store that domain %s was withdrawn: %w", id, err)
	}
	return nil
}

// Withdrawn returns how many domains others have taken back in the last seven days.
func (s *Store) Withdrawn(ctx context.Context) (int64, error) {
	n, err := s.rdb.ZCard(ctx, s.key("withdrawn")).Result()
	if err != nil {
		return 0, fmt.Errorf("count the withdrawn domains: %w", err)
	}
	return n, nil
}

func (s *Store) read(ctx context.Context, key, name string) ([]byte, error) {
	value, err := s.rdb.Get(ctx, key).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return value, nil
}

// Clock returns Redis' time.
func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	now, err := s.rdb.Time(ctx).Result()
	if err != nil {
		return now, fmt.Errorf("read Redis' clock: %w", err)
	}
	return now.UTC(), nil
}
