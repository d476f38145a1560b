package redisconn

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// pollAgain is how long a queue is not polled after a dequeue has failed. It also bounds
// how much longer a worker takes to stop: asynq waits for the poll that is under way.
const pollAgain = time.Second

// polls delays asynq's polls of a queue after a dequeue of that queue has failed. asynq
// dequeues again at once after an error, so that each idle server sends thousands of
// commands a second to a Redis that refuses writes. The forwarder's polls wait as well:
// they write nothing while no task is due, so Redis does not refuse them, and at five a
// second of each server they would be most of the rest. All other commands are sent
// at once: asynq repeats those at intervals of its own, and a lease, an acknowledgement or
// the ledger must not wait. A queue whose dequeues succeed is not held up by another.
type polls struct {
	closed sync.Map // queue -> time.Time until which it is not polled
}

// send is an [around]. asynq polls by single commands.
func (p *polls) send(ctx context.Context, cmds []redis.Cmder, send func(context.Context) error) error {
	queue, dequeues := polled(cmds[0])
	if queue == "" {
		return send(ctx)
	}
	if until, ok := p.closed.Load(queue); ok {
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(until.(time.Time))):
		}
	}
	err := send(ctx)
	if dequeues && failed(err) {
		p.closed.Store(queue, time.Now().Add(pollAgain))
	}
	return err
}

// failed reports whether a dequeue failed. An empty queue is no failure, nor is a script
// that Redis does not know yet: go-redis sends its text next.
func failed(err error) bool {
	return err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "NOSCRIPT")
}

// pollKeys are the first two keys of a script that dequeues a task, or forwards those that are due.
var pollKeys = map[string]string{"pending": "paused", "scheduled": "pending", "retry": "pending"}

// polled returns the queue that cmd polls, "" if it polls none, and whether it dequeues a
// task or forwards those that are due: both are scripts of asynq, known by their keys.
func polled(cmd redis.Cmder) (queue string, dequeues bool) {
	args := cmd.Args() // evalsha, script, number of keys, the keys, arguments
	if name := cmd.Name(); len(args) < 5 || (name != "evalsha" && name != "eval") {
		return "", false
	}
	first, _ := args[3].(string)
	second, _ := args[4].(string)
	queue, from, _ := strings.Cut(first, "}:")
	into, polls := pollKeys[from]
	if !polls || !strings.HasPrefix(queue, "asynq:{") || second != queue+"}:"+into {
		return "", false
	}
	return queue, from == "pending"
}
