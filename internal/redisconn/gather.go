package redisconn

import (
	"context"
	"runtime"
	"sync"

	"github.com/redis/go-redis/v9"
)

// ForProducer is Open for who enqueues from many goroutines at once: scripts
// that they run at the same time go to Redis in one pipeline, which costs both
// sides one system call instead of dozens. The scripts have to be such that
// running one twice does what running it once does, as asynq's are that enqueue
// a task with an id.
//
// go-redis can do the like by itself (AutoPipeline), but not as asynq needs it:
// a command there no longer ends with its context, and a reply that names
// another master, or says that this one is loading, fails its command in the
// place of being followed.
func ForProducer(c Config) (redis.UniversalClient, error) {
	client, err := Open(c)
	if err != nil {
		return nil, err
	}
	client.AddHook(&gather{pipeline: client.Pipeline})
	return client, nil
}

// mostFlights is how many pipelines are under way at a time: one is filled while
// Redis works on the other.
const mostFlights = 2

// gather lets scripts that are run at the same time share a pipeline. Nobody
// waits for company: what comes while all pipelines are under way is the next
// one.
type gather struct {
	pipeline func() redis.Pipeliner

	mu      sync.Mutex
	next    *flight // that commands still join; nil: none has
	flights int     // under way
}

// flight is a pipeline.
type flight struct {
	commands []redis.Cmder
	landed   chan struct{} // closed when each command has its reply, or its error
}

func (g *gather) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *gather) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook sends a script along with others. One that fails there, whatever
// the reason, is sent again by itself, so that go-redis treats it as ever: it
// dials, follows a redirection, or waits for a master that is not ready, as long
// as the command's own context lets it.
func (g *gather) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		script, ok := cmd.(*redis.Cmd)
		if !ok || script.Name() != "evalsha" {
			return next(ctx, cmd)
		}
		// Of its own, as the reply may come when the caller has gone.
		sent := redis.NewCmd(ctx, script.Args()...)
		f := g.join(sent)
		select {
		case <-f.landed:
		case <-ctx.Done():
			cmd.SetErr(ctx.Err())
			return ctx.Err()
		}
		// A script that returns nothing gives redis.Nil: without either there was
		// no reply.
		if sent.Err() != nil || sent.Val() == nil {
			return next(ctx, cmd)
		}
		script.SetVal(sent.Val())
		return nil
	}
}

func (g *gather) join(cmd redis.Cmder) *flight {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.next == nil {
		g.next = &flight{landed: make(chan struct{})}
	}
	f := g.next
	f.commands = append(f.commands, cmd)
	if g.flights < mostFlights {
		g.flights++
		go g.fly()
	}
	return f
}

// fly sends pipelines for as long as there are commands.
func (g *gather) fly() {
	for {
		runtime.Gosched() // whoever is about to join does
		f := g.take()
		if f == nil {
			return
		}
		g.send(f)
	}
}

// take takes the commands that have joined so far; nil where none has, and then
// there is one flight less.
func (g *gather) take() *flight {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.next
	g.next = nil
	if f == nil {
		g.flights--
	}
	return f
}

// send has a context of its own: no caller's end may be that of the others.
func (g *gather) send(f *flight) {
	defer close(f.landed)
	ctx, cancel := context.WithTimeout(context.Background(), ownTimeout)
	defer cancel()
	p := g.pipeline()
	for _, cmd := range f.commands {
		_ = p.Process(ctx, cmd) // it is only kept
	}
	_, _ = p.Exec(ctx) // each command has its own error
}
