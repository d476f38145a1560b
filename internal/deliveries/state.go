package deliveries

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// stateTTL is longer than asynq keeps given-up deliveries: 90 days.
const stateTTL = 100 * 24 * time.Hour

// stateKey returns the key of the state of a tenant's endpoints: a hash. The fields of an endpoint
// begin with its name: .delivered and .failed are the times of the last attempts in ms, .reason is
// that of the failed one, and .gone the [Receivers] entry of an endpoint that answered 410. All
// keys of a tenant's deliveries have one hash tag.
func stateKey(tenant string) string { return "orgops:v3:{webhooks:" + tenant + "}" }

// pausedKey returns the key by which asynq serves no task of an endpoint.
func pausedKey(tenant, endpoint string) string {
	return "asynq:{" + Queue(tenant, endpoint) + "}:paused"
}

// readState reads the state of the endpoints of a tenant, and the names of those that have one.
func readState(ctx context.Context, rdb redis.UniversalClient, tenant string) (state map[string]string,
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
func resume(ctx context.Context, rdb redis.UniversalClient, tenant, endpoint string) error {
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
		entry, gone := cfg.Receivers.Entry(endpoint), state[endpoint+".gone"]
		if entry == "" {
			others = append(others, endpoint)
		} else if gone != "" && gone != entry {
			err = errors.Join(err, resume(ctx, cfg.Redis, cfg.Tenant, endpoint))
		}
	}
	return others, err
}

// Resend sends the given-up deliveries of an endpoint again, and returns their number.
// An endpoint that answered 410 gets deliveries again.
func Resend(ctx context.Context, rdb redis.UniversalClient, tenant, endpoint string) (n int, err error) {
	_, names, err := readState(ctx, rdb, tenant)
	if err == nil && !slices.Contains(names, endpoint) {
		err = fmt.Errorf("webhook endpoint %.40q of tenant %s had no deliveries", endpoint, tenant)
	}
	if err == nil {
		err = resume(ctx, rdb, tenant, endpoint)
	}
	if err != nil {
		return 0, err
	}
	n, err = asynq.NewInspectorFromRedisClient(rdb).RunAllArchivedTasks(Queue(tenant, endpoint))
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
	Failure     string    // why it failed
	Gone        bool      // it answered 410
	// Queue counts deliveries and attempts: archived ones were given up. Paused ones wait, since
	// the endpoint is gone, or by hand.
	Queue asynq.QueueInfo
}

// Waiting returns how many deliveries are not done.
func (e EndpointState) Waiting() int {
	return e.Queue.Pending + e.Queue.Active + e.Queue.Scheduled + e.Queue.Retry
}

// ReadEndpoints reads the state of the named endpoints of a tenant, and of others that had
// deliveries.
func ReadEndpoints(ctx context.Context, rdb redis.UniversalClient, tenant string,
	names ...string) (all []EndpointState, err error) {
	state, others, err := readState(ctx, rdb, tenant)
	others = slices.DeleteFunc(others, func(name string) bool { return slices.Contains(names, name) })
	for _, name := range slices.Concat(names, others) {
		e := EndpointState{Name: name, DeliveredAt: moment(state[name+".delivered"]), FailedAt: moment(state[name+".failed"]),
			Failure: state[name+".reason"], Gone: state[name+".gone"] != ""}
		queue, failed := asynq.NewInspectorFromRedisClient(rdb).GetQueueInfo(Queue(tenant, name))
		if failed == nil {
			e.Queue = *queue
		} else if !noQueue(failed) {
			err = cmp.Or(err, failed)
		}
		all = append(all, e)
	}
	return all, err
}

// moment returns a stored time; zero: there is none.
func moment(text string) (t time.Time) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		t = time.UnixMilli(ms)
	}
	return t
}

// Counted are the deliveries of a tenant.
type Counted struct {
	Waiting, GivenUp int64
	Failing          map[string]string // endpoints that have some waiting, and whose last attempt failed: why
}

// Count counts the deliveries of a tenant. Pages read them for all tenants, so it does without the
// other readings of asynq's inspector.
func Count(ctx context.Context, rdb redis.UniversalClient, tenant string) (c Counted, err error) {
	state, names, err := readState(ctx, rdb, tenant)
	if err != nil || len(names) == 0 {
		return c, err
	}
	var open, archived []*redis.IntCmd
	_, err = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, name := range names {
			prefix := "asynq:{" + Queue(tenant, name) + "}:"
			open = append(open, p.LLen(ctx, prefix+"pending"), p.LLen(ctx, prefix+"active"),
				p.ZCard(ctx, prefix+"scheduled"), p.ZCard(ctx, prefix+"retry"))
			archived = append(archived, p.ZCard(ctx, prefix+"archived"))
		}
		return nil
	})
	if err != nil {
		return c, fmt.Errorf("count deliveries of tenant %s: %w", tenant, err)
	}
	c.Failing = map[string]string{}
	for i, name := range names {
		n := open[4*i].Val() + open[4*i+1].Val() + open[4*i+2].Val() + open[4*i+3].Val()
		if c.Waiting += n; n > 0 && moment(state[name+".failed"]).After(moment(state[name+".delivered"])) {
			c.Failing[name] = state[name+".reason"]
		}
		c.GivenUp += archived[i].Val()
	}
	return c, nil
}
