package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/intake"
	"orgops/internal/pace"
	"orgops/internal/redistest"
	"orgops/internal/runs"
	"orgops/internal/sandbox"
	"orgops/internal/watch"
	"orgops/tasks"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"enqueue": main})
}

// TestScripts runs the command as it is typed, each script against a Redis of
// its own.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			mini := miniredis.NewMiniRedis()
			if err := mini.Start(); err != nil {
				return err
			}
			mini.ClockTTL(true)
			client := redis.NewClient(&redis.Options{Addr: mini.Addr()})
			env.Defer(func() {
				_ = client.Close()
				mini.Close()
			})
			env.Setenv("ADDR", mini.Addr())
			env.Setenv("GORACE", "atexit_sleep_ms=10") // a second by default, for each run of the command
			env.Setenv("ORGOPS_REDIS_URL", "redis://"+mini.Addr()+"/0")
			env.Setenv("ORGOPS_NO_WORKER_YET", "true")
			env.Values[world{}] = &world{mini: mini, client: client}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":              exits,
			"redis-is-clean":     redisIsClean,
			"redis-is-untouched": redisIsUntouched,
			"redis-down":         redisDown,
			"redis-password":     redisPassword,
			"redis-set":          redisSet,
			"runs":               countRuns,
			"pending":            countPending,
			"stored":             storedRow,
			"announce":           announce,
			"settings":           announceSettings,
			"half":               half,
			"delete-task":        deleteTask,
			"reconcile":          reconcile,
			"settle":             settle,
			"note":               note,
			"begin":              begin,
			"keep":               keep,
			"look":               look,
			"thin":               thin,
			"remember":           remember,
			"state":              state,
			"alone":              alone,
			"dns":                setDNS,
			"alias":              setAlias,
			"watch":              watchRedis,
			"reached":            reached,
			"block":              block,
			"gzip":               gzipFile,
			"lines":              lines,
			"no-copy-left":       noCopyLeft,
		},
	})
}

// world is what stands around the command in one script.
type world struct {
	mini    *miniredis.Miniredis
	client  *redis.Client
	watched chan struct{}
	dns     *sandbox.Sandbox // nil until a script sets a name
}

func of(ts *testscript.TestScript) *world { return ts.Value(world{}).(*world) }

func (w *world) ledger() *runs.Ledger { return runs.New(w.client) }

// want refuses a command's misuse.
func want(ts *testscript.TestScript, neg bool, args []string, least int, usage string) {
	if neg || len(args) < least {
		ts.Fatalf("usage: %s", usage)
	}
}

// exits runs a program and holds its exit status.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "exits STATUS PROGRAM [ARG...]")
	status := 0
	err := ts.Exec(args[1], args[2:]...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		status = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(status) != args[0] {
		ts.Fatalf("exit status %d, want %s", status, args[0])
	}
}

// redisIsClean holds that Redis has no run and no task: nothing but the
// ledger's version and what workers announced.
func redisIsClean(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 0, "redis-is-clean")
	left := slices.DeleteFunc(of(ts).mini.Keys(), func(key string) bool {
		return key == "orgops:schema" || strings.HasPrefix(key, "orgops:v1:{tenant:")
	})
	if len(left) > 0 {
		ts.Fatalf("redis holds %q", left)
	}
}

// redisIsUntouched holds that Redis has nothing at all.
func redisIsUntouched(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 0, "redis-is-untouched")
	if left := of(ts).mini.Keys(); len(left) > 0 {
		ts.Fatalf("redis holds %q", left)
	}
}

func redisDown(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 0, "redis-down")
	of(ts).mini.Close()
}

// redisPassword starts Redis anew: miniredis reads the password without a
// lock.
func redisPassword(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 1, "redis-password PASSWORD")
	mini := of(ts).mini
	mini.Close()
	mini.RequireAuth(args[0])
	ts.Check(mini.Restart())
}

func redisSet(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "redis-set KEY VALUE")
	ts.Check(of(ts).mini.Set(args[0], args[1]))
}

func countRuns(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 1, "runs NUMBER")
	all, err := of(ts).ledger().List(context.Background())
	ts.Check(err)
	if fmt.Sprint(len(all)) != args[0] {
		ts.Fatalf("%d runs, want %s", len(all), args[0])
	}
}

func countPending(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "pending QUEUE NUMBER")
	inspector := asynq.NewInspectorFromRedisClient(of(ts).client)
	queues, err := inspector.Queues()
	ts.Check(err)
	n := 0
	if slices.Contains(queues, args[0]) {
		info, err := inspector.GetQueueInfo(args[0])
		ts.Check(err)
		n = info.Pending
	}
	if fmt.Sprint(n) != args[1] {
		ts.Fatalf("%d tasks pending in %s, want %s", n, args[0], args[1])
	}
}

// storedRow holds how the ledger has a row.
func storedRow(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 3, "stored RUN ITEM ROW")
	item, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	rows, err := of(ts).ledger().Rows(context.Background(), args[0], item, 1)
	ts.Check(err)
	if len(rows) != 1 || string(rows[0]) != args[2] {
		ts.Fatalf("stored is %q, want %s", rows, args[2])
	}
}

func announce(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "announce TENANT GIVE-UP")
	giveUp, err := time.ParseDuration(args[1])
	ts.Check(err)
	ts.Check(pace.Announce(context.Background(), of(ts).client, pace.Settings{Tenant: args[0], Rate: "2/s", GiveUp: giveUp}))
}

// announceSettings announces settings, given as JSON.
func announceSettings(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 1, "settings JSON")
	var s pace.Settings
	ts.Check(json.Unmarshal([]byte(args[0]), &s))
	ts.Check(pace.Announce(context.Background(), of(ts).client, s))
}

// half makes a run of which no rows come.
func half(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 3, "half RUN KIND CREATED-AT")
	at, err := time.Parse(time.RFC3339, args[2])
	ts.Check(err)
	_, _, err = of(ts).ledger().Create(context.Background(), runs.Run{ID: args[0], Kind: args[1], Tenant: "default", CreatedAt: at})
	ts.Check(err)
}

func deleteTask(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "delete-task QUEUE ID")
	inspector := asynq.NewInspectorFromRedisClient(of(ts).client)
	pending, err := inspector.ListPendingTasks(args[0])
	ts.Check(err)
	ts.Check(inspector.DeleteTask(args[0], taskNamed(ts, pending, args[1]).ID))
}

// taskNamed is the one whose id is that, its generation counted from the run's first.
func taskNamed(ts *testscript.TestScript, all []*asynq.TaskInfo, relative string) *asynq.TaskInfo {
	at := slices.IndexFunc(all, func(t *asynq.TaskInfo) bool { return redistest.RelativeTaskID(t.ID) == relative })
	if at < 0 {
		ts.Fatalf("no task %s is pending", relative)
	}
	return all[at]
}

// reconcile does what the workers do now and again.
func reconcile(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 0, "reconcile")
	r := intake.Reconciler{Intake: intake.New(of(ts).client, of(ts).ledger()), Logger: slog.New(slog.DiscardHandler)}
	ts.Check(r.Once(context.Background(), time.Millisecond))
}

func settle(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 4, "settle RUN ITEM OUTCOME DETAIL")
	r, err := of(ts).ledger().Get(context.Background(), args[0])
	ts.Check(err)
	item, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(of(ts).ledger().Settle(context.Background(), r.ID, r.Kind, 0, []int64{item}, args[2], args[3]))
}

func note(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 4, "note RUN ITEM REASON NEXT")
	item, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	next, err := time.Parse(time.RFC3339, args[3])
	ts.Check(err)
	ts.Check(of(ts).ledger().Note(context.Background(), args[0], 0, []int64{item}, args[2], next))
}

// begin has a row begin, as a worker does before its request.
func begin(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "begin RUN ITEM")
	item, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	_, err = of(ts).ledger().Begin(context.Background(), args[0], item, 0, "post", []byte("x"), nil)
	ts.Check(err)
}

func keep(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 4, "keep RUN ITEM NAME VALUE")
	item, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(of(ts).ledger().Looked(context.Background(), args[0], item, 0, "", time.Time{}, nil, map[string][]byte{args[2]: []byte(args[3])}))
}

// look does what a worker does with a task, a look for the domain that is then in
// the tenant.
func look(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 7, "look QUEUE TASK ORG ID DOMAIN HOST TXT")
	execute(ts, args, 1, func(*tasks.Config) {})
}

// thin does the same with a confirm for an hour, in which its proofs are all thin.
func thin(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 7, "thin QUEUE TASK ORG ID DOMAIN HOST TXT")
	now := time.Now()
	execute(ts, args, 5, func(c *tasks.Config) {
		c.DNS, c.ThinProofAfter = thinDNS{c.DNS}, time.Hour
		c.Now = func() time.Time { return now }
	}, func() { now = now.Add(15 * time.Minute) })
}

type thinDNS struct{ tasks.DNS }

func (d thinDNS) Prove(ctx context.Context, host, token string) (dnscheck.Verdict, error) {
	v, err := d.DNS.Prove(ctx, host, token)
	v.State, v.Reason, v.Thin = dnscheck.Unknown, dnscheck.ReasonTooFew, true
	return v, err
}

// execute carries out a task so many times.
func execute(ts *testscript.TestScript, args []string, times int, change func(*tasks.Config), between ...func()) {
	w, box := of(ts), zone(ts)
	box.AddDomain(args[2], sandbox.Domain{ID: args[3], Domain: args[4], Host: args[5], TXT: args[6]})
	api, err := apiclient.New(apiclient.Config{BaseURL: box.BaseURL(), Tokens: apiclient.StaticToken(apiclient.NewSecret(box.Token()))})
	ts.Check(err)
	defer api.CloseIdle()
	var resolvers []dnscheck.Resolver
	for _, address := range box.DNSAddrs() {
		r, err := dnscheck.ParseResolver(address)
		ts.Check(err)
		resolvers = append(resolvers, r)
	}
	checker, err := dnscheck.New(dnscheck.Config{Resolvers: resolvers})
	ts.Check(err)
	defer checker.Close()
	pending, err := asynq.NewInspectorFromRedisClient(w.client).ListPendingTasks(args[0])
	ts.Check(err)
	task := taskNamed(ts, pending, args[1])
	config := tasks.Config{
		Tenant: "default", API: api, DNS: checker, Ledger: w.ledger(), Enqueuer: asynq.NewClientFromRedisClient(w.client), Logger: slog.New(slog.DiscardHandler),
	}
	change(&config)
	mux := tasks.NewMux(config)
	for range times {
		// How it went is what the ledger says.
		_ = mux.ProcessTask(context.Background(), asynq.NewTask(task.Type, task.Payload))
		for _, f := range between {
			f()
		}
	}
}

// remember writes down what is remembered of discovery domains, one a line: its id, a
// blank, the memory as JSON. Those that are absent or were taken away are attended.
func remember(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "remember TENANT FILE")
	store := watch.New(of(ts).client, args[0])
	for line := range strings.Lines(ts.ReadFile(args[1])) {
		id, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		former, err := store.Memory(context.Background(), id)
		ts.Check(err)
		attend := strings.Contains(value, `"absence"`) || strings.Contains(value, `"taken"`)
		_, err = store.Remember(context.Background(), id, former, []byte(value), attend, 1)
		ts.Check(err)
	}
}

// state keeps something for the whole tenant.
func state(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 3, "state TENANT NAME VALUE")
	store := watch.New(of(ts).client, args[0])
	former, err := store.State(context.Background(), args[1])
	ts.Check(err)
	_, err = store.SetState(context.Background(), args[1], former, []byte(args[2]))
	ts.Check(err)
}

// alone writes a row down as a worker does that came in no run.
func alone(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 3, "alone ID KIND ROW")
	at := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	ts.Check(of(ts).ledger().Register(context.Background(), args[0], args[1], "default", 0, at, [][]byte{[]byte(args[2])}))
}

// watchRedis has reached wait for the next command of that name at Redis.
func watchRedis(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 1, "watch COMMAND")
	w := of(ts)
	seen := make(chan struct{})
	once := sync.OnceFunc(func() { close(seen) })
	w.watched = seen
	w.mini.Server().SetPreHook(func(_ *server.Peer, command string, _ ...string) bool {
		if command == args[0] {
			once()
		}
		return false
	})
}

func reached(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 0, "reached")
	select {
	case <-of(ts).watched:
	case <-time.After(time.Minute):
		ts.Fatalf("it never came")
	}
}

// zone has resolvers answer, and the command ask them.
func zone(ts *testscript.TestScript) *sandbox.Sandbox {
	w := of(ts)
	if w.dns == nil {
		box, err := sandbox.Start(sandbox.Options{Resolvers: 3, NegativeTTL: time.Minute})
		ts.Check(err)
		ts.Defer(func() { _ = box.Close() })
		ts.Setenv("ORGOPS_RESOLVERS_IN_EU", strings.Join(box.DNSAddrs()[:2], "@eu,")+"@eu")
		ts.Setenv("ORGOPS_RESOLVERS", strings.Join(box.DNSAddrs(), ","))
		ts.Setenv("ORGOPS_TEST_ONE_RESOLVER", box.DNSAddr())
		ts.Setenv("ORGOPS_DNS_MODE", "resolvers")
		w.dns = box
	}
	return w.dns
}

func setDNS(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 1, "dns HOST [VALUE...]")
	zone(ts).SetTXT(args[0], args[1:]...)
}

func setAlias(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "alias HOST TARGET")
	zone(ts).SetCNAME(args[0], args[1])
}

func block(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 3, "block TENANT OPERATION REASON")
	ts.Check(pace.New(pace.Config{Redis: of(ts).client, Tenant: args[0]}).Block(context.Background(), args[1], args[2]))
}

func gzipFile(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "gzip FROM TO")
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, err := w.Write([]byte(ts.ReadFile(args[0])))
	ts.Check(errors.Join(err, w.Close()))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), zipped.Bytes(), 0o600))
}

// lines appends N lines to a file; {n} in them is their number from 1.
func lines(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 3, "lines FILE N LINE")
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	ts.Check(err)
	for i := range n {
		_, err := fmt.Fprintln(f, strings.ReplaceAll(args[2], "{n}", strconv.Itoa(i+1)))
		ts.Check(err)
	}
	ts.Check(f.Close())
}

// noCopyLeft holds that no copy of stdin was left behind.
func noCopyLeft(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 0, "no-copy-left")
	found, err := filepath.Glob(filepath.Join(ts.Getenv("TMPDIR"), "orgops-*"))
	ts.Check(err)
	if len(found) > 0 {
		ts.Fatalf("left behind: %q", found)
	}
}
