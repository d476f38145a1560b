package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

	"orgops/internal/cli"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/sandbox"
	"orgops/internal/sweep"
	"orgops/internal/tenant"
	"orgops/producer"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"enqueue": main})
}

// TestScripts runs each script against a Redis of its own.
func TestScripts(t *testing.T) {
	dir, err := filepath.Abs("testdata") // since exits changes the directory
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
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
			env.Values[world{}] = &world{mini: mini, client: client, begun: &executed{}}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":              exits,
			"process":            process,
			"redis-is-clean":     redisIsClean,
			"redis-is-untouched": redisIsUntouched,
			"redis-down":         redisDown,
			"redis-password":     redisPassword,
			"redis-set":          redisSet,
			"runs":               countRuns,
			"open":               countOpen,
			"stored":             storedRow,
			"announce":           announce,
			"settings":           announceSettings,
			"half":               half,
			"settle":             settle,
			"note":               note,
			"begin":              begin,
			"look":               look,
			"later":              later,
			"remember":           remember,
			"state":              state,
			"single":             single,
			"dns":                setDNS,
			"alias":              setAlias,
			"watch":              watchRedis,
			"reached":            reached,
			"submitted":          submitted,
			"block":              block,
			"queue":              changeQueue,
			"gzip":               gzipFile,
			"lines":              lines,
			"no-copy-left":       noCopyLeft,
		},
	})
}

// world is the environment of the command in one script.
type world struct {
	mini    *miniredis.Miniredis
	client  *redis.Client
	watched chan struct{}
	dns     *sandbox.Sandbox // nil until a script sets a name
	begun   *executed
}

func of(ts *testscript.TestScript) *world { return ts.Value(world{}).(*world) }

func (w *world) ledger() *ledger.Ledger { return ledger.New(w.client) }

// want reports a misuse of a script command.
func want(ts *testscript.TestScript, neg bool, args []string, least int, usage string) {
	if neg || len(args) < least {
		ts.Fatalf("usage: %s", usage)
	}
}

// exits runs the command and checks its exit status, in the process of the test and with nothing to
// read from stdin: a process for each would take most of the time of the scripts. Where it matters
// that the command is a process, they use process.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "exits STATUS enqueue [ARG...]")
	if args[1] != "enqueue" {
		ts.Fatalf("exits runs enqueue, not %s", args[1])
	}
	checkStatus(ts, runHere(ts, args[2:]), args[0])
}

// process runs a program as a process and checks its exit status. The text of stdin is for it.
func process(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "process STATUS PROGRAM [ARG...]")
	status := 0
	err := ts.Exec(args[1], args[2:]...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		status = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	checkStatus(ts, status, args[0])
}

func checkStatus(ts *testscript.TestScript, status int, want string) {
	if strconv.Itoa(status) != want {
		ts.Fatalf("exit status %d, want %s", status, want)
	}
}

// here is held while the command runs in the process of the test, in the directory of a script.
var here sync.Mutex

func runHere(ts *testscript.TestScript, args []string) (status int) {
	here.Lock()
	defer here.Unlock()
	environ := settings(ts)
	former, err := os.Getwd()
	ts.Check(err)
	ts.Check(os.Chdir(ts.MkAbs(".")))
	defer func() { ts.Check(os.Chdir(former)) }()
	return run(context.Background(), args, strings.NewReader(""), ts.Stdout(), ts.Stderr(), environ)
}

// named returns the settings that the scripts and this file name.
var named = sync.OnceValues(func() (all []string, err error) {
	files, err := filepath.Glob("testdata/*.txtar")
	setting := regexp.MustCompile(`\bORGOPS_[A-Z0-9_]+`)
	for _, name := range append(files, "script_test.go") {
		text, readErr := os.ReadFile(name)
		err = errors.Join(err, readErr)
		all = append(all, setting.FindAllString(string(text), -1)...)
	}
	slices.Sort(all)
	return slices.Compact(all), err
})

// settings returns the settings in the environment of a script, of which a
// [testscript.TestScript] has no list.
func settings(ts *testscript.TestScript) (environ []string) {
	names, err := named()
	ts.Check(err)
	for _, name := range names {
		if value := ts.Getenv(name); value != "" {
			environ = append(environ, name+"="+value)
		}
	}
	return environ
}

// redisIsClean checks that Redis has no run and no task, only the ledger's version and the
// settings that workers announced.
func redisIsClean(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 0, "redis-is-clean")
	left := slices.DeleteFunc(of(ts).mini.Keys(), func(key string) bool {
		return key == "orgops:schema" || strings.HasPrefix(key, "orgops:v1:{tenant:")
	})
	if len(left) > 0 {
		ts.Fatalf("redis holds %q", left)
	}
}

// redisIsUntouched checks that Redis is empty.
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

// redisPassword restarts Redis, since miniredis reads the password without a lock.
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
	all, err := of(ts).ledger().Runs(context.Background())
	ts.Check(err)
	if fmt.Sprint(len(all)) != args[0] {
		ts.Fatalf("%d runs, want %s", len(all), args[0])
	}
}

// countOpen checks the number of open rows in a tenant's runs.
func countOpen(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "open TENANT NUMBER")
	open, err := of(ts).ledger().OpenByTenant(context.Background())
	ts.Check(err)
	if n := open[args[0]].Rows; fmt.Sprint(n) != args[1] {
		ts.Fatalf("%d rows of tenant %s are open, want %s", n, args[0], args[1])
	}
}

// inSegment calls do with the segment of a run.
func inSegment(ts *testscript.TestScript, run string, do func(*ledger.Ledger, ledger.Segment) error) {
	l := of(ts).ledger()
	seg, found, err := firstSegment(context.Background(), l, run)
	ts.Check(err)
	if !found {
		ts.Fatalf("there is no run %s", run)
	}
	ts.Check(do(l, seg))
}

// storedRow checks a row as stored in the ledger.
func storedRow(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 3, "stored RUN ITEM ROW")
	item, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	rows, err := of(ts).ledger().Contents(context.Background(),
		ledger.Run{Tenant: "default", ID: ledger.RunID(args[0])}, item, 1)
	ts.Check(err)
	if len(rows) != 1 || string(rows[0]) != args[2] {
		ts.Fatalf("stored is %q, want %s", rows, args[2])
	}
}

func announce(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "announce TENANT GIVE-UP")
	giveUp, err := time.ParseDuration(args[1])
	ts.Check(err)
	_, err = tenant.Announce(context.Background(), of(ts).client,
		tenant.Announced{Tenant: args[0], Rate: "2/s", GiveUp: cli.Duration(giveUp)})
	ts.Check(err)
}

// announceSettings announces settings, given as JSON.
func announceSettings(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 1, "settings JSON")
	var s tenant.Announced
	ts.Check(json.Unmarshal([]byte(args[0]), &s))
	_, err := tenant.Announce(context.Background(), of(ts).client, s)
	ts.Check(err)
}

// half creates a run in the core whose rows are never staged.
func half(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "half RUN KIND")
	_, _, err := of(ts).ledger().Create(context.Background(),
		ledger.NewRun{ID: ledger.RunID(args[0]), Kind: ledger.Kind(args[1]), Tenant: "default"})
	ts.Check(err)
}

func settle(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 4, "settle RUN ITEM OUTCOME DETAIL")
	item, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	inSegment(ts, args[0], func(core *ledger.Ledger, seg ledger.Segment) error {
		return of(ts).begun.settle(context.Background(), core, seg, item, args[2], args[3])
	})
}

// note makes a row of a run in the core wait for an hour, with a reason.
func note(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 3, "note RUN ITEM REASON")
	item, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	inSegment(ts, args[0], func(core *ledger.Ledger, seg ledger.Segment) error {
		return of(ts).begun.note(context.Background(), core, seg, item, args[2], time.Hour)
	})
}

// begin starts a row of a run in the core, as a worker does before its request.
func begin(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "begin RUN ITEM")
	item, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	inSegment(ts, args[0], func(core *ledger.Ledger, seg ledger.Segment) error {
		return of(ts).begun.request(context.Background(), core, seg, item)
	})
}

// remember stores states of discovery domains, one a line: its ID, a blank, the state as JSON.
// Absent domains and those taken away are watched.
func remember(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "remember TENANT FILE")
	store := sweep.NewStore(of(ts).client, args[0])
	for line := range strings.Lines(ts.ReadFile(args[1])) {
		id, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		former, err := store.Domain(context.Background(), id)
		ts.Check(err)
		attend := strings.Contains(value, `"absence"`) || strings.Contains(value, `"taken"`)
		_, err = store.SetDomain(context.Background(), sweep.DomainWrite{ID: id, Former: former, Value: []byte(value),
			Watched: attend, Tick: 1})
		ts.Check(err)
	}
}

// state stores a state of the whole tenant.
func state(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 3, "state TENANT NAME VALUE")
	store := sweep.NewStore(of(ts).client, args[0])
	former, err := store.State(context.Background(), args[1])
	ts.Check(err)
	_, err = store.SetState(context.Background(), args[1], former, []byte(args[2]))
	ts.Check(err)
}

// single submits a single row, as a Go service does.
func single(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, false, args, 3, "single ID KIND ROW")
	_, err := producer.New(of(ts).client).Submit(context.Background(),
		producer.Row{ID: args[0], Kind: args[1], Row: []byte(args[2])})
	if neg && !errors.Is(err, producer.ErrMismatch) {
		ts.Fatalf("submitted: %v", err)
	}
	if !neg {
		ts.Check(err)
	}
}

// watchRedis makes reached wait for the next command of that name at Redis.
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
	case <-time.After(patience):
		ts.Fatalf("it never came")
	}
}

// submitted waits until all rows of a run are in.
func submitted(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 1, "submitted RUN")
	end := time.After(patience)
	for tick := time.Tick(5 * time.Millisecond); ; {
		if r, err := of(ts).ledger().Get(context.Background(), "", ledger.RunID(args[0])); err == nil && r.HasAllRows() {
			return
		}
		select {
		case <-tick:
		case <-end:
			ts.Fatalf("run %s is not submitted", args[0])
		}
	}
}

// zone starts a sandbox with resolvers, and has the command query them.
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
	budget := pace.New(pace.Config{Redis: of(ts).client, Tenant: args[0]})
	ts.Check(budget.Block(context.Background(), args[1], args[2], "fix it"))
}

// changeQueue pauses a queue as asynqmon does, and resumes it.
func changeQueue(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "queue pause|resume QUEUE")
	client := asynq.NewClientFromRedisClient(of(ts).client)
	_, err := client.Enqueue(asynq.NewTask("x", nil), asynq.Queue(args[1]), asynq.TaskID("x"))
	if err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) { // without a task, there is no queue
		ts.Check(err)
	}
	inspector := asynq.NewInspectorFromRedisClient(of(ts).client)
	if args[0] == "pause" {
		ts.Check(inspector.PauseQueue(args[1]))
	} else {
		ts.Check(inspector.UnpauseQueue(args[1]))
	}
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

// noCopyLeft checks that no copy of stdin is left.
func noCopyLeft(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 0, "no-copy-left")
	found, err := filepath.Glob(filepath.Join(ts.Getenv("TMPDIR"), "orgops-*"))
	ts.Check(err)
	if len(found) > 0 {
		ts.Fatalf("left behind: %q", found)
	}
}
