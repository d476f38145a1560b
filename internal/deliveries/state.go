package deliveries

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/internal/queues"
	"orgops/internal/untrusted"
)

// stateTTL is longer than asynq keeps given-up deliveries: 90 days.
const stateTTL = 100 * 24 * time.Hour

// stateKey returns the key of the state of a tenant's endpoints: a hash. The fields of an endpoint
// begin with its name: .delivered and .failed are the times of the last attempts in ms, .reason is
// that of the failed one, .failing is the time of the first failed attempt since the last delivery,
// .dropped, .dropped_since and .dropped_last are a [Dropped], and .gone is the [Receivers] entry of
// an endpoint that answered 410. The keys of a tenant's
// deliveries have its hash tag, apart from those of asynq.
func stateKey(tenant string) string { return "orgops:v3:{tenant:" + tenant + "}:webhooks" }

// pausedKey returns the key by which asynq serves no task of an endpoint.
func pausedKey(tenant, endpoint string) string {
	return "asynq:{" + Queue(tenant, endpoint) + "}:paused"
}

// droppedFor is how long dropped events are reported, from the last one on.
const droppedFor = 7 * 24 * time.Hour

var (
	//go:embed lua/dropped.lua
	droppedLua    string
	droppedScript = redis.NewScript(droppedLua)
)

// Dropped are events that were dropped, since too many waited for their endpoint.
type Dropped struct {
	Events int64     `json:"events"`
	Since  time.Time `json:"since"`
	Last   time.Time `json:"last"` // less than seven days ago
}

// noteDropped counts events that were dropped.
func noteDropped(ctx context.Context, rdb redis.Scripter, tenant, endpoint string, n int, now time.Time) error {
	err := droppedScript.Run(ctx, rdb, []string{stateKey(tenant)}, endpoint, n, now.UnixMilli(),
		droppedFor.Milliseconds(), stateTTL.Milliseconds()).Err()
	if err != nil {
		return fmt.Errorf("count dropped events of endpoint %s: %w", endpoint, err)
	}
	return nil
}

// droppedOf returns the dropped events of an endpoint; the zero Dropped: there were none.
func droppedOf(state map[string]string, endpoint string) (d Dropped) {
	last := moment(state[endpoint+".dropped_last"])
	events, err := strconv.ParseInt(state[endpoint+".dropped"], 10, 64)
	if err != nil || time.Since(last) > droppedFor {
		return d
	}
	return Dropped{Events: events, Since: moment(state[endpoint+".dropped_since"]), Last: last}
}

// readState reads the state of the endpoints of a tenant, and the names of those that have one.
func readState(ctx context.Context, rdb redis.Cmdable, tenant string) (state map[string]string,
	names []string, err error) {
	if state, err = rdb.HGetAll(ctx, stateKey(tenant)).Result(); err != nil {
		return nil, nil, fmt.Errorf("state of webhooks of tenant %s: %w", tenant, err)
	}
	known := map[string]bool{}
	for field := range state {
		name, _, _ := strings.Cut(field, ".")
		known[name] = true
	}
	return state, slices.Sorted(maps.Keys(known)), nil
}

// resume has an endpoint get deliveries again after it has answered 410. Its queue is resumed
// first: as long as that fails the endpoint remains gone, so that [Reopen] and people try again.
func resume(ctx context.Context, rdb redis.Cmdable, tenant, endpoint string) error {
	if err := rdb.Del(ctx, pausedKey(tenant, endpoint)).Err(); err != nil {
		return fmt.Errorf("resume the deliveries to webhook endpoint %s: %w", endpoint, err)
	}
	if err := rdb.HDel(ctx, stateKey(tenant), endpoint+".gone").Err(); err != nil {
		return fmt.Errorf("forget that webhook endpoint %s answered 410: %w", endpoint, err)
	}
	return nil
}

// Reopen has the endpoints that answered 410 get deliveries again if their settings have changed
// since. It returns other endpoints that had deliveries, whose waiting events are to be given up.
func Reopen(ctx context.Context, cfg Config) (others []string, err error) {
	state, names, err := readState(ctx, cfg.Redis, cfg.Tenant)
	for _, endpoint := range names {
		entry := cfg.Receivers.Entry(endpoint)
		gone := state[endpoint+".gone"]
		if entry == "" {
			others = append(others, endpoint)
		} else if gone != "" && gone != entry {
			err = errors.Join(err, resume(ctx, cfg.Redis, cfg.Tenant, endpoint))
		}
	}
	return others, err
}

// Which are the deliveries that are sent again.
type Which int

const (
	// GivenUp are those that are attempted no more.
	GivenUp Which = iota
	// Waiting are those that wait for their next attempt.
	Waiting
)

// Resend sends deliveries of an endpoint again now, and returns their number. An endpoint that
// answered 410 gets deliveries again. Workers spare one that does not answer: it gets one attempt
// within two minutes, and the others after the first success.
func Resend(ctx context.Context, rdb redis.Cmdable, tenant, endpoint string, which Which) (n int, err error) {
	_, names, err := readState(ctx, rdb, tenant)
	if err == nil && !slices.Contains(names, endpoint) {
		err = fmt.Errorf("webhook endpoint %s of tenant %s had no deliveries", untrusted.Value(endpoint), tenant)
	}
	if err == nil {
		err = resume(ctx, rdb, tenant, endpoint)
	}
	if err != nil {
		return 0, err
	}
	if err := queues.Enlist(ctx, rdb, Queue(tenant, endpoint)); err != nil { // or asynq knows none of its tasks
		return 0, err
	}
	client := rdb.(redis.UniversalClient) // which views, that pass it on, hold as commands only
	queue := asynq.NewInspectorFromRedisClient(client)
	run := queue.RunAllArchivedTasks
	if which == Waiting {
		run = queue.RunAllRetryTasks
	}
	n, err = run(Queue(tenant, endpoint))
	if err != nil && !noQueue(err) {
		return n, fmt.Errorf("send again to webhook endpoint %s: %w", endpoint, err)
	}
	return n, nil
}

// noQueue reports whether an error of asynq says that there never was a task of a queue.
func noQueue(err error) bool { return strings.Contains(err.Error(), "NOT_FOUND") }

// EndpointState is the state of the deliveries to an endpoint, of all workers.
type EndpointState struct {
	Name        string
	DeliveredAt time.Time // the last delivery; zero: there was none
	FailedAt    time.Time // the last failed attempt; zero: there was none
	// FailingSince is the first failed attempt since the last delivery; zero: there was none.
	FailingSince time.Time
	Failure      string // why it failed
	Gone         bool   // it answered 410
	Dropped      Dropped
	// Queue counts deliveries and attempts: archived ones were given up. Paused ones wait, since
	// the endpoint is gone, or by hand.
	Queue queues.State
}

// Waiting returns how many deliveries are not done.
func (e EndpointState) Waiting() int64 { return waiting(e.Queue) }

// ReadEndpoints reads the state of the named endpoints of a tenant, and of others that had
// deliveries.
func ReadEndpoints(ctx context.Context, rdb redis.Cmdable, tenant string,
	names ...string) (all []EndpointState, err error) {
	state, others, err := readState(ctx, rdb, tenant)
	others = slices.DeleteFunc(others, func(name string) bool { return slices.Contains(names, name) })
	names = slices.Concat(names, others)
	read, unread := readQueues(ctx, rdb, tenant, names)
	for i, name := range names {
		e := EndpointState{Name: name, DeliveredAt: moment(state[name+".delivered"]), FailedAt: moment(state[name+".failed"]),
			FailingSince: moment(state[name+".failing"]), Failure: state[name+".reason"], Gone: state[name+".gone"] != "",
			Dropped: droppedOf(state, name)}
		if unread == nil {
			e.Queue = read[i]
		}
		all = append(all, e)
	}
	return all, errors.Join(err, unread)
}

// readQueues reads the queues of endpoints.
func readQueues(ctx context.Context, rdb redis.Cmdable, tenant string,
	endpoints []string) ([]queues.State, error) {
	var names []string
	for _, endpoint := range endpoints {
		names = append(names, Queue(tenant, endpoint))
	}
	states, err := queues.Read(ctx, rdb, names...)
	if err != nil {
		return nil, fmt.Errorf("deliveries of tenant %s: %w", tenant, err)
	}
	return states, nil
}

// moment returns a stored time; zero: there is none.
func moment(text string) (t time.Time) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		t = time.UnixMilli(ms).UTC()
	}
	return t
}

// Counted are the deliveries of a tenant.
type Counted struct {
	Waiting, GivenUp int64
	Failing          map[string]Failing // endpoints that have some waiting, and whose last attempt failed
	Dropped          map[string]Dropped // by endpoint, those that have some
}

// Failing describes an endpoint to which deliveries fail.
type Failing struct {
	Since  time.Time `json:"since"`  // the first failed attempt since the last delivery
	Reason string    `json:"reason"` // of the last one
}

// Count counts the deliveries of a tenant.
func Count(ctx context.Context, rdb redis.Cmdable, tenant string) (c Counted, err error) {
	state, names, err := readState(ctx, rdb, tenant)
	if err != nil || len(names) == 0 {
		return c, err
	}
	read, err := readQueues(ctx, rdb, tenant, names)
	if err != nil {
		return c, err
	}
	c.Failing = map[string]Failing{}
	for i, name := range names {
		waiting := waiting(read[i])
		c.Waiting += waiting
		if since := moment(state[name+".failing"]); waiting > 0 && !since.IsZero() {
			c.Failing[name] = Failing{Since: since, Reason: state[name+".reason"]}
		}
		c.GivenUp += int64(read[i].Archived)
		if dropped := droppedOf(state, name); dropped.Events > 0 {
			if c.Dropped == nil {
				c.Dropped = map[string]Dropped{}
			}
			c.Dropped[name] = dropped
		}
	}
	return c, nil
}

// waiting returns how many deliveries of a queue are not done.
func waiting(q queues.State) int64 { return int64(q.Pending + q.Active + q.Scheduled + q.Retry) }
