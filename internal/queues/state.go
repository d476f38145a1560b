package queues

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ids"
)

// State is the state of a queue.
type State struct {
	Name string
	// The tasks of each state.
	Pending, Active, Scheduled, Retry, Archived, Completed int
	// Processed and Failed count the executions since the queue was created, and the failed ones
	// among them.
	Processed, Failed int
	Latency           time.Duration // for which the next pending task has waited
	Paused            bool
}

// OfRows returns the name of the queue that has a tenant's rows.
func OfRows(tenant string) string { return tenant + ".rows" }

// Ours reports whether a queue of that name is one of orgops: that of a tenant's rows, or of its
// deliveries to an endpoint. asynq's list of queues has those of other programs too.
func Ours(name string) bool {
	tenant, rest, _ := strings.Cut(name, ".")
	if ids.CheckTenant(tenant) != nil {
		return false
	}
	endpoint, isWebhook := strings.CutPrefix(rest, "webhook.")
	return rest == "rows" || (isWebhook && ids.CheckName("endpoint", endpoint) == nil)
}

// List returns the names of the queues of orgops.
func List(ctx context.Context, rdb redis.Cmdable) ([]string, error) {
	names, err := rdb.SMembers(ctx, listKey).Result()
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return !Ours(name) }), nil
}

// Load is the state of a tenant's queue.
type Load struct {
	// Pending and Active are the numbers of tasks in the queue and in progress.
	Pending, Active int
	// Paused reports whether the queue is paused, as asynqmon can do, and PausedSince since when, by
	// the clock of the program that paused it; zero: unknown.
	Paused      bool
	PausedSince time.Time
}

// ReadLoad returns the load of a queue. One that was never used is empty. It counts tasks by
// asynq's keys and not by its Inspector, as [Read] does.
func ReadLoad(ctx context.Context, rdb redis.Cmdable, name string) (Load, error) {
	prefix := prefixOf(name)
	p := rdb.Pipeline()
	pending := p.LLen(ctx, prefix+"pending")
	active := p.LLen(ctx, prefix+"active")
	paused := p.Get(ctx, prefix+"paused") // in Unix seconds
	if _, err := p.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return Load{}, fmt.Errorf("read queue %s: %w", name, err)
	}
	load := Load{Pending: int(pending.Val()), Active: int(active.Val()), Paused: paused.Err() == nil}
	if since, err := paused.Int64(); err == nil {
		load.PausedSince = time.Unix(since, 0).UTC()
	}
	return load, nil
}

// listKey is asynq's list of all queues.
const listKey = "asynq:queues"

// Enlist adds queues to asynq's list. A process of asynq does so once: after "asynq queue rm" a
// queue is missing while its tasks are executed, and asynq's Inspector knows none of them.
func Enlist(ctx context.Context, rdb redis.Cmdable, names ...string) error {
	if len(names) == 0 {
		return nil
	}
	if err := rdb.SAdd(ctx, listKey, names).Err(); err != nil {
		return fmt.Errorf("add to asynq's list of queues: %w", err)
	}
	return nil
}

// Read returns the states of the named queues. One that was never used is empty.
//
// It reads asynq's keys and not its Inspector, which also asks for the memory of tasks: a user that
// may not run MEMORY, or one id whose task is gone, would make every reading fail.
func Read(ctx context.Context, rdb redis.Cmdable, names ...string) ([]State, error) {
	if len(names) == 0 {
		return nil, nil
	}
	type reading struct {
		pending, active, scheduled, retry, archived, completed, paused *redis.IntCmd
		processed, failed, next                                        *redis.StringCmd
	}
	read := make([]reading, len(names))
	err := pipelined(ctx, rdb, func(p redis.Pipeliner) {
		for i, name := range names {
			prefix := prefixOf(name)
			read[i] = reading{
				pending: p.LLen(ctx, prefix+"pending"), active: p.LLen(ctx, prefix+"active"),
				scheduled: p.ZCard(ctx, prefix+"scheduled"), retry: p.ZCard(ctx, prefix+"retry"),
				archived: p.ZCard(ctx, prefix+"archived"), completed: p.ZCard(ctx, prefix+"completed"),
				paused:    p.Exists(ctx, prefix+"paused"),
				processed: p.Get(ctx, prefix+"processed"), failed: p.Get(ctx, prefix+"failed"),
				next: p.LIndex(ctx, prefix+"pending", -1),
			}
		}
	})
	if err != nil {
		return nil, err
	}
	states := make([]State, len(names))
	next := map[string]string{}
	for i, r := range read {
		// A count that was never written is redis.Nil, and its value 0.
		processed, _ := r.processed.Int()
		failed, _ := r.failed.Int()
		states[i] = State{
			Name: names[i], Pending: int(r.pending.Val()), Active: int(r.active.Val()), Scheduled: int(r.scheduled.Val()),
			Retry: int(r.retry.Val()), Archived: int(r.archived.Val()), Completed: int(r.completed.Val()),
			Processed: processed, Failed: failed, Paused: r.paused.Val() > 0,
		}
		if id := r.next.Val(); id != "" {
			next[names[i]] = id
		}
	}
	return states, readLatencies(ctx, rdb, states, next)
}

// readLatencies sets the latencies of the queues that have a next task, by name. One that was begun
// meanwhile, or does not exist any more, is not waiting.
func readLatencies(ctx context.Context, rdb redis.Cmdable, states []State, next map[string]string) error {
	if len(next) == 0 {
		return nil
	}
	since := map[string]*redis.StringCmd{}
	err := pipelined(ctx, rdb, func(p redis.Pipeliner) {
		for name, id := range next {
			since[name] = p.HGet(ctx, prefixOf(name)+"t:"+id, "pending_since")
		}
	})
	if err != nil {
		return err
	}
	for i, state := range states {
		if next[state.Name] == "" {
			continue
		}
		if ns, err := since[state.Name].Int64(); err == nil && ns > 0 {
			states[i].Latency = max(time.Since(time.Unix(0, ns)), 0)
		}
	}
	return nil
}

// pipelined sends the commands that add adds, and returns the first error among their answers. That
// a key does not exist is none.
func pipelined(ctx context.Context, rdb redis.Cmdable, add func(redis.Pipeliner)) error {
	commands, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		add(p)
		return nil
	})
	for _, command := range commands {
		if failed := command.Err(); failed != nil && !errors.Is(failed, redis.Nil) {
			return fmt.Errorf("read queues: %w", failed)
		}
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("read queues: %w", err)
	}
	return nil
}
