package redisconn

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// batchCalls is how many calls of a [Batch] run at a time.
	batchCalls = 200
	// batchCommands is how many commands are sent in one pipeline: answers of many large
	// ones would fill Redis' output buffer.
	batchCommands = 1000
)

// Batch calls f for the numbers 0 to n-1, 200 at a time, with a client that sends the
// commands of all these calls together. It sends a pipeline as soon as each of the calls
// waits for an answer or has returned. So n calls that send k commands each, one after the
// other, take about k*n/200 round trips, whatever package sends the commands. The client is
// for commands and pipelines that read, and only valid within f; a call must not wait for
// another. None is sent after the end of ctx; the contexts that commands are given are ignored.
//
// After an error no more calls begin, and Batch returns the first one.
//
// It exists since go-redis' AutoPipeline is experimental, sends batches at times that depend
// on the scheduler, and does not end with a context.
func Batch(ctx context.Context, rdb redis.Cmdable, n int,
	f func(i int, rdb redis.Cmdable) error) error {
	calls := min(n, batchCalls)
	b := &batch{n: n, running: calls, exec: func(cmds []redis.Cmder) error {
		if err := ctx.Err(); err != nil {
			return err // some clients ignore it
		}
		_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, cmd := range cmds {
				_ = p.Process(ctx, cmd) // it is stored
			}
			return nil
		})
		return err
	}}
	client := b.client()
	defer client.Close() //nolint:errcheck // it has no connections
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			for i, ok := b.next(); ok; i, ok = b.next() {
				b.returned(f(i, client))
			}
		})
	}
	all.Wait()
	return b.err
}

// batch is the state of a [Batch].
type batch struct {
	exec func([]redis.Cmder) error // sends a pipeline

	mu      sync.Mutex
	n, i    int   // the numbers, and the next of them
	err     error // the first one of a call
	running int   // calls that do not wait for an answer
	waiting []*request
}

// request is a command, or a pipeline, of a call.
type request struct {
	cmds     []redis.Cmder
	answered chan struct{} // closed when all commands have their answers
}

// client returns a client whose commands become part of the batch. It has no connections.
func (b *batch) client() *redis.Client {
	client := redis.NewClient(&redis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("redisconn: a client of Batch takes commands and pipelines only")
		},
		PoolSize: 1, PipelinePoolSize: -1, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	client.AddHook(around(func(_ context.Context, cmds []redis.Cmder, _ func(context.Context) error) error {
		return b.do(cmds)
	}))
	return client
}

// next returns the number of the next call; a goroutine for which there is none has ended.
func (b *batch) next() (i int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i = b.i; i < b.n && b.err == nil {
		b.i++
		return i, true
	}
	b.running--
	b.sendIfAllWait()
	return 0, false
}

// returned takes the error of a call.
func (b *batch) returned(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
	}
}

// do waits for the answers to commands, and returns the first error among them.
func (b *batch) do(cmds []redis.Cmder) error {
	r := &request{cmds, make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, r)
	b.running--
	b.sendIfAllWait()
	b.mu.Unlock()
	<-r.answered
	return firstError(cmds)
}

// firstError returns the first error of commands that were sent.
func firstError(cmds []redis.Cmder) error {
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil {
			return err
		}
	}
	return nil
}

// sendIfAllWait sends the commands if no call is left that could add to them. b.mu is held.
// running is below 0 if a call sends commands from goroutines of its own.
func (b *batch) sendIfAllWait() {
	if b.running > 0 || len(b.waiting) == 0 {
		return
	}
	requests := b.waiting
	b.waiting = nil
	b.running += len(requests)
	go b.send(requests)
}

// send sends the commands of requests.
func (b *batch) send(requests []*request) {
	var cmds []redis.Cmder
	for _, r := range requests {
		cmds = append(cmds, r.cmds...)
	}
	for part := range slices.Chunk(cmds, batchCommands) {
		if err := b.exec(part); err != nil && firstError(part) == nil {
			for _, cmd := range part {
				cmd.SetErr(err) // none was sent
			}
		}
	}
	for _, r := range requests {
		close(r.answered)
	}
}
