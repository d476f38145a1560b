package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// olderWorkerVar names the environment variable with the absolute path of an older
// version's worker.
const olderWorkerVar = "ORGOPS_TEST_OLDER_WORKER"

// assembleVersions is like assemble, with an older worker as the program "older".
func assembleVersions(t *testing.T) *fleet {
	t.Helper()
	path := os.Getenv(olderWorkerVar)
	if path == "" {
		t.Skip("needs an older version's worker, whose path is in " + olderWorkerVar + ": .ci/run versions builds one")
	}
	f := assemble(t)
	if err := os.Symlink(path, filepath.Join(f.dir, "older")); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestOlderWorkerBeside has an older worker and the present one execute rows of the same
// runs, and kills each of them once while it has rows in progress. First the older one
// dispatches, and after its death the present one. Each row that no killed worker had in
// progress needs one change at the tenant.
func TestOlderWorkerBeside(t *testing.T) {
	const rows, all = 600, 3 * 600 // of each kind, and together
	submitted := submissions[:3]   // no templates: a worker searches for one with a lost answer after a minute only
	f := assembleVersions(t)
	t.Parallel()
	f.box.AddFault(sandbox.Fault{Latency: 200 * time.Millisecond, AnswerLatency: 300 * time.Millisecond})
	older := f.startSession("older", "older")
	present := f.startSession("present", "worker")
	committed := f.enqueue(rows, submitted...)

	interrupted := map[string]int{}
	for i, w := range []session{present, older} {
		percent := []int64{20, 50}[i]
		await(t, fmt.Sprintf("%d %% of the rows, and some in progress at worker %s", percent, w.name), func() bool {
			return f.settled() >= all*percent/100 && rowsOf(f.inProgress(w.id, submitted)) > 10
		})
		f.kill(w, submitted, interrupted)
		f.startSession(w.name, w.program)
	}
	committed()
	for _, s := range submitted {
		f.ended(s.run)
	}

	f.changedOnce(submitted, interrupted)
	f.compare(rows, 2*apiTasks, submitted...)
	f.settledOnce("older", "present")
	f.executed("older", "present")
	f.archivedNothing()
}

// session is the life of a worker of some version.
type session struct {
	*running

	name, program string
	id            ledger.SessionID
}

// startSession starts a worker and finds its session.
func (f *fleet) startSession(name, program string) session {
	f.t.Helper()
	before := f.sessions()
	s := session{running: f.start(name, program), name: name, program: program}
	for _, id := range f.sessions() {
		if !slices.Contains(before, id) {
			s.id = id
		}
	}
	if s.id == "" {
		f.t.Fatalf("worker %s has started without a session", name)
	}
	return s
}

func (f *fleet) sessions() (ids []ledger.SessionID) {
	f.t.Helper()
	all, err := f.ledger.Sessions(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	for _, s := range all {
		ids = append(ids, s.ID)
	}
	return ids
}

// kill kills a worker, and counts the rows that it had in progress, by run and number.
func (f *fleet) kill(s session, of []submission, interrupted map[string]int) {
	f.t.Helper()
	s.signal(syscall.SIGKILL)
	_ = s.wait(patience) // killed
	inProgress := f.inProgress(s.id, of)
	for seg, rows := range inProgress {
		for _, row := range rows {
			interrupted[fmt.Sprint(seg.Run, row)]++
			f.ageIntent(seg, row)
		}
	}
	rows := rowsOf(inProgress)
	if f.t.Logf("worker %s was killed with %d rows in progress", s.name, rows); rows == 0 {
		f.t.Error("the killed worker had no rows in progress: the test shows nothing")
	}
}

// inProgress returns the rows that a session has in progress, of these runs, which have one segment
// each.
func (f *fleet) inProgress(id ledger.SessionID, of []submission) (all map[ledger.Segment][]ledger.Row) {
	f.t.Helper()
	all = map[ledger.Segment][]ledger.Row{}
	for _, s := range of {
		run, err := f.ledger.Get(f.t.Context(), "", ledger.RunID(s.run))
		if errors.Is(err, ledger.ErrNotFound) { // it is not created yet
			continue
		}
		if err != nil {
			f.t.Fatal(err)
		}
		seg := ledger.Segment{Tenant: run.Tenant, Run: run.ID, Incarnation: run.Incarnation}
		rows, err := f.redis.HGetAll(f.t.Context(), segmentKey(seg, "executions")).Result()
		if err != nil {
			f.t.Fatal(err)
		}
		for row, execution := range rows {
			n, err := strconv.Atoi(row)
			if err != nil {
				f.t.Fatal(err)
			}
			if strings.HasPrefix(execution, "b") && strings.HasSuffix(execution, ","+string(id)) { // begun by the session
				all[seg] = append(all[seg], ledger.Row(n))
			}
		}
	}
	return all
}

// rowsOf counts rows.
func rowsOf(all map[ledger.Segment][]ledger.Row) (n int) {
	for _, rows := range all {
		n += len(rows)
	}
	return n
}

// segmentKey returns a key of a segment.
func segmentKey(seg ledger.Segment, part string) string {
	return fmt.Sprintf("orgops:v3:{tenant:%s}:%s.%d:%s", seg.Tenant, seg.Incarnation, seg.Number, part)
}

// ageIntent makes the intent of a row a minute older, if it has one: a request whose answer
// was lost is repeated a minute after its intent. No request of a worker that is dead for 15
// seconds can take effect here.
func (f *fleet) ageIntent(seg ledger.Segment, row ledger.Row) {
	f.t.Helper()
	key, field := segmentKey(seg, "intents"), fmt.Sprint(row)
	intent, err := f.redis.HGet(f.t.Context(), key, field).Result()
	if errors.Is(err, redis.Nil) {
		return
	}
	at, value, _ := strings.Cut(intent, ":")
	ms, err2 := strconv.ParseInt(at, 10, 64)
	if err = errors.Join(err, err2); err == nil {
		err = f.redis.HSet(f.t.Context(), key, field, fmt.Sprintf("%d:%s", ms-time.Minute.Milliseconds(), value)).Err()
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// changedOnce checks that the tenant was changed once for each row, and once more for each
// killed worker that had the row in progress.
func (f *fleet) changedOnce(of []submission, interrupted map[string]int) {
	f.t.Helper()
	changes, _ := byRecord(f.box.Requests())
	for _, s := range of {
		for i, row := range f.cells(s.file) {
			n, most := len(changes[keyOf(row)]), 1+interrupted[fmt.Sprint(s.run, i)]
			if n < 1 || n > most {
				f.t.Errorf("run %s: row %d (%s %s) was changed %d times, want 1 to %d", s.run, i, row[0], row[1], n, most)
			}
		}
	}
}

// executed checks that each of the workers has executed rows, and gave none back as unknown.
func (f *fleet) executed(names ...string) {
	f.t.Helper()
	for _, name := range names {
		done := 0
		for _, line := range f.log(name) {
			if line["msg"] != "task" {
				continue
			}
			switch line["outcome"] {
			case string(ledger.Done):
				done++
			case string(engine.Unrecognized):
				f.t.Errorf("worker %s: %v", name, line)
			}
		}
		if f.t.Logf("worker %s has done %d tasks", name, done); done == 0 {
			f.t.Errorf("worker %s has done no task", name)
		}
	}
}

// archivedNothing checks that asynq has archived no task of rows.
func (f *fleet) archivedNothing() {
	f.t.Helper()
	queue := engine.Queue(tasks.DefaultTenant)
	info, err := asynq.NewInspectorFromRedisClient(f.redis).GetQueueInfo(queue)
	if err != nil || info.Archived != 0 {
		f.t.Errorf("%+v, %v; want no archived task", info, err)
	}
}
