package watch

import (
	"cmp"
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
	// keptFor is how long the state of a domain is kept after the last sweep that found it.
	keptFor = 400 * 24 * time.Hour
	// talliedFor is how long a tick's tally is kept: beyond the longest sweep.
	talliedFor = 31 * 24 * time.Hour
	// mostWords bounds the words of a tally, since strangers choose those with a colon. If an
	// operator is not counted, the sweep knows its absent domains only, and holds them back
	// together.
	mostWords = 10_000
	// scanned is how many watched domains are read at a time.
	scanned = 500
	// pageRows bounds the states that one command returns, of some 500 bytes each, and of some
	// 30 KB at most.
	pageRows = 250
)

var (
	//go:embed lua/remember.lua
	rememberLua    string
	rememberScript = redis.NewScript(rememberLua)
	//go:embed lua/set.lua
	setLua    string
	setScript = redis.NewScript(setLua)
)

// Store stores the states of one tenant. It is safe for concurrent use, also by several
// processes.
type Store struct {
	rdb    redis.UniversalClient
	tenant string
}

// New returns the tenant's store in rdb. It sends no command.
func New(rdb redis.UniversalClient, tenant string) *Store { return &Store{rdb: rdb, tenant: tenant} }

// key returns a key of the tenant.
func (s *Store) key(part string) string { return "orgops:v1:{watch:" + s.tenant + "}:" + part }

func (s *Store) domainKey(domain string) string { return s.key("domain:" + domain) }

func (s *Store) tallyKey(tick int64) string { return s.key("tally:" + strconv.FormatInt(tick, 10)) }

// Memory returns the state of a domain, by its id; nil: none is stored.
func (s *Store) Memory(ctx context.Context, domain string) ([]byte, error) {
	return s.read(ctx, s.domainKey(domain), "domain "+domain)
}

// Memories returns the states of domains, by their ids; nil for a domain without one. It stops
// at the end of ctx, also with a client whose commands outlive their contexts.
func (s *Store) Memories(ctx context.Context, domains []string) (values [][]byte, err error) {
	for page := range slices.Chunk(domains, pageRows) {
		keys := make([]string, len(page))
		for i, domain := range page {
			keys[i] = s.domainKey(domain)
		}
		answer, err := s.rdb.MGet(ctx, keys...).Result()
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return nil, fmt.Errorf("read the states of domains: %w", err)
		}
		for _, value := range answer {
			var state []byte
			if text, ok := value.(string); ok {
				state = []byte(text)
			}
			values = append(values, state)
		}
	}
	return values, nil
}

// Remember replaces the state of a domain, by its id, if it still is former; nil stands for
// none in both. It adds the domain to the watched ones, or removes it; a domain without a
// state is not watched. Each word is counted once for the tick, but not one with a colon if
// the tally has 10,000 others. If former is not stored, ok is false and nothing is written.
func (s *Store) Remember(ctx context.Context, domain string, former, value []byte, attend bool, tick int64, counted ...string) (ok bool, err error) {
	attended := 0
	if attend {
		attended = 1
	}
	args := []any{domain, former, value, keptFor.Milliseconds(), attended, talliedFor.Milliseconds(), mostWords}
	for _, word := range counted {
		args = append(args, word)
	}
	keys := []string{s.domainKey(domain), s.key("attended"), s.tallyKey(tick)}
	done, err := rememberScript.Run(ctx, s.rdb, keys, args...).Int()
	if err != nil {
		return false, fmt.Errorf("store the state of domain %s: %w", domain, err)
	}
	return done == 1, nil
}

// Attended returns the ids of the watched domains, sorted. A domain that becomes watched
// or ceases to be meanwhile may or may not be among them. It stops at the end of ctx, also
// with a client whose commands outlive their contexts.
func (s *Store) Attended(ctx context.Context) (domains []string, err error) {
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		var page []string
		page, cursor, err = s.rdb.SScan(ctx, s.key("attended"), cursor, "", scanned).Result()
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return nil, fmt.Errorf("read the watched domains: %w", err)
		}
		domains = append(domains, page...)
	}
	slices.Sort(domains)
	return slices.Compact(domains), nil // one may come twice while the set changes
}

// Tally returns how often each word was counted for the tick.
func (s *Store) Tally(ctx context.Context, tick int64) (map[string]int64, error) {
	texts, err := s.rdb.HGetAll(ctx, s.tallyKey(tick)).Result()
	if err != nil {
		return nil, fmt.Errorf("read the tally of tick %d: %w", tick, err)
	}
	tally := make(map[string]int64, len(texts))
	for word, text := range texts {
		if tally[word], err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, fmt.Errorf("read the tally of tick %d: %w", tick, err)
		}
	}
	return tally, nil
}

// State returns a state of the tenant; nil: none is stored.
func (s *Store) State(ctx context.Context, name string) ([]byte, error) {
	return s.read(ctx, s.key("state:"+name), "state "+name)
}

// SetState replaces a state of the tenant as Remember does.
func (s *Store) SetState(ctx context.Context, name string, former, value []byte) (ok bool, err error) {
	done, err := setScript.Run(ctx, s.rdb, []string{s.key("state:" + name)}, former, value).Int()
	if err != nil {
		return false, fmt.Errorf("store state %s: %w", name, err)
	}
	return done == 1, nil
}

func (s *Store) read(ctx context.Context, key, what string) ([]byte, error) {
	value, err := s.rdb.Get(ctx, key).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
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
