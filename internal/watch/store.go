package watch

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// keptFor is how long a domain is remembered that no sweep comes upon any more.
	keptFor = 400 * 24 * time.Hour
	// talliedFor is how long a tick's tally is kept: beyond the longest sweep.
	talliedFor = 31 * 24 * time.Hour
	// mostWords bounds the words of a tally: strangers choose those with a colon. Of an
	// operator that is not counted the sweep knows its absent domains only, and holds them
	// back together.
	mostWords = 10_000
	// longestID is the longest that a domain's id can be.
	longestID = 128
	// scanned is how many attended domains are asked for at a time.
	scanned = 500
	// pageRows and pageBytes bound the states that one command returns. Beyond pageBytes it
	// returns at most one state.
	pageRows, pageBytes = 500, 1 << 20
)

var (
	//go:embed lua/remember.lua
	rememberLua    string
	rememberScript = redis.NewScript(rememberLua)
	//go:embed lua/read.lua
	readLua    string
	readScript = redis.NewScript(readLua)
	//go:embed lua/set.lua
	setLua    string
	setScript = redis.NewScript(setLua)
)

// Store is what is remembered for one tenant. It is safe for concurrent use, by many
// processes too.
type Store struct {
	rdb    redis.UniversalClient
	tenant string
}

// New returns the tenant's store in rdb, to which it does not yet talk.
func New(rdb redis.UniversalClient, tenant string) *Store { return &Store{rdb: rdb, tenant: tenant} }

// key is one of the tenant's keys.
func (s *Store) key(part string) string { return "orgops:v1:{watch:" + s.tenant + "}:" + part }

func (s *Store) domainKey(domain string) string { return s.key("domain:" + domain) }

func (s *Store) tallyKey(tick int64) string { return s.key("tally:" + strconv.FormatInt(tick, 10)) }

// Memory is what is remembered of a domain, by its id; nil if nothing is.
func (s *Store) Memory(ctx context.Context, domain string) ([]byte, error) {
	return s.read(ctx, s.domainKey(domain), "domain "+domain, checkDomain(domain))
}

// Memories returns the states of domains, by their ids; nil for a domain without one. It
// reads many at once, so that 10,000 take some 20 round trips. It stops at the end of ctx,
// also with a client whose commands outlive their contexts.
func (s *Store) Memories(ctx context.Context, domains []string) ([][]byte, error) {
	values := make([][]byte, 0, len(domains))
	for len(values) < len(domains) {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("read the states of domains: %w", err)
		}
		rest := domains[len(values):]
		page, err := s.page(ctx, rest[:min(len(rest), pageRows)])
		if err != nil {
			return nil, fmt.Errorf("read the states of domains: %w", err)
		}
		values = append(values, page...)
	}
	return values, nil
}

// page returns the states of the first of the domains, at least one.
func (s *Store) page(ctx context.Context, domains []string) (values [][]byte, err error) {
	keys := make([]string, len(domains))
	for i, domain := range domains {
		keys[i] = s.domainKey(domain)
	}
	answer, err := readScript.Run(ctx, s.rdb, keys, pageBytes).Slice()
	if err != nil {
		return nil, err
	}
	if len(answer) == 0 || len(answer) > len(domains) {
		return nil, fmt.Errorf("want 1 to %d states, got %d", len(domains), len(answer))
	}
	for _, value := range answer {
		var state []byte
		if text, ok := value.(string); ok {
			state = []byte(text)
		}
		values = append(values, state)
	}
	return values, nil
}

// Remember replaces what is remembered of the domain, by its id, if that is former
// still: nil stands for nothing in both. The domain is put among the attended ones, or
// taken from there; one that is forgotten is not attended. Each word is counted once
// for the tick; one with a colon is not if the tally has 10,000 words without it. ok is
// false, and nothing is written, where former is not there.
func (s *Store) Remember(ctx context.Context, domain string, former, value []byte, attend bool, tick int64, counted ...string) (ok bool, err error) {
	if err := checkDomain(domain); err != nil {
		return false, err
	}
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

// Tally is how often each word was counted for the tick.
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

// State is what is kept for the tenant by that name, [a-z_]{1,32}; nil if nothing is.
func (s *Store) State(ctx context.Context, name string) ([]byte, error) {
	return s.read(ctx, s.key("state:"+name), "state "+name, checkName(name))
}

// SetState replaces it, if it is former still; nil stands for nothing in both.
func (s *Store) SetState(ctx context.Context, name string, former, value []byte) (ok bool, err error) {
	if err := checkName(name); err != nil {
		return false, err
	}
	done, err := setScript.Run(ctx, s.rdb, []string{s.key("state:" + name)}, former, value).Int()
	if err != nil {
		return false, fmt.Errorf("store state %s: %w", name, err)
	}
	return done == 1, nil
}

func (s *Store) read(ctx context.Context, key, what string, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	value, err := s.rdb.Get(ctx, key).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	return value, nil
}

func checkDomain(id string) error {
	if id == "" || len(id) > longestID {
		return fmt.Errorf("domain id: want 1 to %d bytes, got %d", longestID, len(id))
	}
	return nil
}

var namePattern = regexp.MustCompile(`^[a-z_]{1,32}$`)

func checkName(name string) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("state: want a name of a-z and _, got %.40q", name)
	}
	return nil
}
