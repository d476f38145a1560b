package redisconn_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"orgops/internal/redisconn"
	"orgops/internal/redistest"
)

func forProducer(t *testing.T, url string) redis.UniversalClient {
	t.Helper()
	client, err := redisconn.ForProducer(redisconn.Config{URL: url, AllowURLPassword: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// answering is a Redis that answers each script with its argument: those of a
// pipeline once they are let, and those that come alone at once.
type answering struct {
	let       chan struct{}               // closed: pipelines are answered
	refuse    func(cmd redis.Cmder) error // what becomes of a command of a pipeline; nil: it is answered
	pipelines []int                       // how many commands each had
	alone     int
	mu        sync.Mutex
}

func (a *answering) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a *answering) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.alone++
		return echo(cmd)
	}
}

func (a *answering) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		a.mu.Lock()
		a.pipelines = append(a.pipelines, len(cmds))
		a.mu.Unlock()
		<-a.let
		for _, cmd := range cmds {
			if a.refuse == nil {
				_ = echo(cmd)
			} else {
				cmd.SetErr(a.refuse(cmd))
			}
		}
		return nil
	}
}

// echo answers a script with its last argument.
func echo(cmd redis.Cmder) error {
	args := cmd.Args()
	if s, ok := cmd.(*redis.Cmd); ok {
		s.SetVal(args[len(args)-1])
	}
	return nil
}

// runScript runs a script that Redis would answer with arg.
func runScript(ctx context.Context, client redis.UniversalClient, arg string) (string, error) {
	return client.EvalSha(ctx, "0123456789012345678901234567890123456789", []string{"k"}, arg).Text()
}

func TestScriptsOfOneMomentShareAPipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := forProducer(t, "redis://127.0.0.1:1/0")
		server := &answering{let: make(chan struct{})}
		client.AddHook(server)
		const callers = 500
		got := make([]string, callers)
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				text, err := runScript(t.Context(), client, strconv.Itoa(i))
				if err != nil {
					t.Error(err)
				}
				got[i] = text
			})
		}
		synctest.Wait() // every caller waits: two pipelines are under way, the others are in the third
		close(server.let)
		all.Wait()
		for i := range callers {
			if got[i] != strconv.Itoa(i) {
				t.Errorf("caller %d got the result of %s", i, got[i])
			}
		}
		sum := 0
		for _, n := range server.pipelines {
			sum += n
		}
		if sum != callers || len(server.pipelines) > 3 || server.alone != 0 {
			t.Errorf("%d scripts went in pipelines of %v, and %d alone: want all in at most three", callers, server.pipelines, server.alone)
		}
	})
}

func TestWhoNoLongerWaitsForAPipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := forProducer(t, "redis://127.0.0.1:1/0")
		server := &answering{let: make(chan struct{})}
		client.AddHook(server)
		ctx, cancel := context.WithCancel(t.Context())
		var left, stays error
		var all sync.WaitGroup
		all.Go(func() { _, left = runScript(ctx, client, "leaves") })
		all.Go(func() { _, stays = runScript(t.Context(), client, "stays") })
		synctest.Wait()
		cancel()
		synctest.Wait()
		if !errors.Is(left, context.Canceled) {
			t.Errorf("whoever's context ends gets %v before there is an answer, want its end", left)
		}
		close(server.let)
		all.Wait()
		if stays != nil {
			t.Errorf("who was in the same pipeline gets %v", stays)
		}
	})
}

func TestWhatAPipelineDoesNotAnswerIsSentAlone(t *testing.T) {
	tests := []struct {
		name string
		err  error
	}{
		{"a former master", answer("READONLY You can't write against a read only replica.")},
		{"a lost connection", io.ErrUnexpectedEOF},
		{"no reply and no error", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := forProducer(t, "redis://127.0.0.1:1/0")
			server := &answering{let: make(chan struct{}), refuse: func(redis.Cmder) error { return tt.err }}
			close(server.let)
			client.AddHook(server)
			if got, err := runScript(t.Context(), client, "said"); got != "said" || err != nil || server.alone != 1 {
				t.Errorf("got %q, %v after %d commands sent alone: want the answer that one gets", got, err, server.alone)
			}
		})
	}
}

// Where the scripts are not known, where one fails, and where one says nothing:
// each caller gets what it would have got alone.
func TestAScriptThatFailsFailsAlone(t *testing.T) {
	client := forProducer(t, redistest.URL(t))
	script := redis.NewScript(`if ARGV[1] == 'fail' then return redis.error_reply('ERR told to fail') end
if ARGV[1] == 'nothing' then return false end
return {ARGV[1], redis.call('INCR', KEYS[1])}`)
	args := []string{"a", "fail", "b", "nothing"}
	var g errgroup.Group
	for i := range 400 {
		g.Go(func() error {
			arg := args[i%len(args)]
			got, err := script.Run(t.Context(), client, []string{fmt.Sprint("key-", i)}, arg).Slice()
			switch {
			case arg == "fail" && (err == nil || err.Error() != "ERR told to fail"):
				return fmt.Errorf("one that fails: %v, %w", got, err)
			case arg == "nothing" && !errors.Is(err, redis.Nil):
				return fmt.Errorf("one that says nothing: %v, %w", got, err)
			case arg == "fail", arg == "nothing":
				return nil
			}
			if diff := cmp.Diff([]any{arg, int64(1)}, got); diff != "" || err != nil {
				return fmt.Errorf("%s: %w (-want +got):\n%s", arg, err, diff)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// cut is a network on which connections break: reads of these numbers after half
// of what came, and writes after half of what was to go. They are fewer than the
// times that go-redis tries.
type cut struct {
	reads, writes []int64

	armed         atomic.Bool
	reading, sent atomic.Int64
}

func (c *cut) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		return &cutConn{Conn: conn, cut: c}, err
	}
}

func (c *cut) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (c *cut) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

type cutConn struct {
	net.Conn

	cut *cut
}

var errCut = &net.OpError{Op: "cut", Net: "tcp", Err: errors.New("connection reset by peer")}

func (c *cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.cut.armed.Load() && slices.Contains(c.cut.reads, c.cut.reading.Add(1)) {
		_ = c.Close()
		return n / 2, errCut // Redis has carried out what these replies were to
	}
	return n, err
}

func (c *cutConn) Write(p []byte) (int, error) {
	if c.cut.armed.Load() && slices.Contains(c.cut.writes, c.cut.sent.Add(1)) {
		n, _ := c.Conn.Write(p[:len(p)/2])
		_ = c.Close()
		return n, errCut
	}
	return c.Conn.Write(p)
}

// However connections break, a task whose enqueue succeeded, or met a task of
// its id, is in the queue; and with connections to be had all do succeed.
func TestNoEnqueueIsLostWithAConnection(t *testing.T) {
	tests := []struct {
		name string
		cut  *cut
	}{
		{"replies are lost", &cut{reads: []int64{3, 6, 9}}},
		{"commands are lost", &cut{writes: []int64{3, 6, 9}}},
		{"both", &cut{reads: []int64{3, 9}, writes: []int64{6}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := forProducer(t, redistest.URL(t))
			if cluster, ok := client.(*redis.ClusterClient); ok {
				cluster.OnNewNode(func(node *redis.Client) { node.AddHook(tt.cut) }) // it dials, not the cluster's client
			} else {
				client.AddHook(tt.cut)
			}
			queue := asynq.NewClientFromRedisClient(client)
			if _, err := queue.Enqueue(asynq.NewTask("probe", nil)); err != nil { // the queue and the script are known
				t.Fatal(err)
			}
			tt.cut.armed.Store(true)
			const callers, each = 60, 12
			var g errgroup.Group
			for caller := range callers {
				g.Go(func() error {
					for i := range each {
						_, err := queue.EnqueueContext(t.Context(), asynq.NewTask("probe", nil), asynq.TaskID(fmt.Sprintf("%d-%d", caller, i)))
						if err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) {
							return err
						}
					}
					return nil
				})
			}
			if err := g.Wait(); err != nil {
				t.Fatal(err)
			}
			if tt.cut.reading.Load() < slices.Max(append(tt.cut.reads, 0)) || tt.cut.sent.Load() < slices.Max(append(tt.cut.writes, 0)) {
				t.Errorf("after %d reads and %d writes some connections are yet to break", tt.cut.reading.Load(), tt.cut.sent.Load())
			}
			if n := redistest.New(t).LLen(t.Context(), "asynq:{default}:pending").Val(); n != 1+callers*each {
				t.Errorf("%d tasks are in the queue, want %d", n, 1+callers*each)
			}
		})
	}
}

// What its pipelines do not get through, each command goes on to try by itself.
func TestAProducerOutlastsAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := forProducer(t, "redis://127.0.0.1:1/0")
		redisconn.Outlast(client, time.Minute, func(error) {})
		a := &away{err: io.EOF, until: time.Now().Add(20 * time.Second)}
		client.AddHook(inner{see: a.see})
		start := time.Now()
		_, err := runScript(t.Context(), client, "said")
		if took := time.Since(start); !errors.Is(err, errDone) || took < 20*time.Second || took > 22*time.Second {
			t.Errorf("%v after %v, want an answer within moments of an outage of 20s", err, took)
		}
	})
}
