package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"orgops/apiclient"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/sandbox"
	"orgops/internal/scan"
)

// finder executes the scans of the default tenant, and no removal.
type finder struct {
	t       *testing.T
	ledger  *ledger.Ledger
	engine  *engine.Engine
	sandbox *sandbox.Sandbox
}

func newFinder(t *testing.T, client redis.UniversalClient) *finder {
	t.Helper()
	box, err := sandbox.Start(sandbox.Options{Seed: 1, Resolvers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = box.Close() })
	api, err := apiclient.New(apiclient.Config{BaseURL: box.BaseURL(),
		Tokens: apiclient.StaticToken(apiclient.NewSecret(box.Token()))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.CloseIdle)
	l := ledger.New(client)
	return &finder{t, l, engine.New(engine.Config{
		Tenant: "default", Ledger: l, Session: ledger.NewSessionID(), Logger: slog.New(slog.DiscardHandler),
		Handlers: scan.Handlers(scan.Config{Lists: l, Logger: slog.New(slog.DiscardHandler),
			API: func(b apiclient.Binding) scan.API { return api.For(b) }}),
	}), box}
}

// work executes the scans of all runs until stop is called, which has to be before the test ends:
// the scans have its context.
func (f *finder) work() (stop func()) {
	done := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			runs, err := f.ledger.Runs(f.t.Context())
			if err != nil {
				f.t.Error(err)
				return
			}
			for _, r := range runs {
				if r.Scanning() {
					f.scan(r)
				}
			}
		}
	})
	return func() {
		close(done)
		all.Wait()
	}
}

// scan executes the row of a scan.
func (f *finder) scan(r ledger.Run) {
	seg := ledger.Segment{Tenant: r.Tenant, Run: r.ID, Incarnation: r.Incarnation, Number: ledger.ScanSegment}
	released, err := f.ledger.Release(f.t.Context(), seg, ledger.Quota{First: 1, Check: 1, Ready: 1})
	if err != nil {
		f.t.Error(err)
		return
	}
	if len(released.Rows) == 0 {
		return
	}
	r.Kind = ledger.ScanOf(r.Kind)
	task := engine.NewTask(r, seg, released.Token, released.Rows...)
	payload, err := task.Marshal()
	if err != nil {
		f.t.Error(err)
		return
	}
	_ = f.engine.ProcessTask(f.t.Context(), asynq.NewTask(string(task.Kind), payload)) // the error is in the ledger too
}

// TestRemoveEverywhere: a client is removed everywhere only after the number of its organizations
// was typed on a terminal, or was expected. Everything else leaves the list, and no removal.
func TestRemoveEverywhere(t *testing.T) {
	mini := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: mini.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	f := newFinder(t, client)
	for i := range 150 {
		f.sandbox.AddOrganization(fmt.Sprintf("org_%03d", i), "")
	}
	for _, org := range []string{"org_003", "org_040", "org_149"} {
		f.sandbox.AddClients(org, "client_1")
	}
	f.sandbox.EntitleApps("org_040", true)
	stop := f.work()
	defer stop()

	const command = "clients remove --no-worker-yet --everywhere --run job --client "
	const no = "nothing was removed: the answer was not 3"
	for name, tc := range map[string]struct {
		args, typed string // no text: there is no terminal
		status      int
		says        string
		removals    int64 // rows of the run; below 0: there is no run
	}{
		"the number": {command + "client_1", "3\n", 0,
			"To remove client client_1 from these organizations, type their number: ", 3},
		"another number":      {command + "client_1", "2\n", 1, no, -1},
		"yes":                 {command + "client_1", "y\n", 1, no, -1},
		"enter":               {command + "client_1", "\n", 1, no, -1},
		"end of file":         {command + "client_1", "\x04", 1, no, -1},
		"expected":            {command + "client_1 --expect 3", "", 0, "with the client         3", 3},
		"fewer than expected": {command + "client_1 --expect 4", "", 0, "fewer organizations have the client than expected", 3},
		"more than expected": {command + "client_1 --expect 2", "", 3,
			"expected 2 organizations with client client_1, found 3: nothing was removed", -1},
		"a dry run":       {command + "client_1 --dry-run", "", 0, "1 of these, whose members lose the application", -1},
		"nobody is asked": {command + "client_1", "", 2, "give it by --expect", -1},
		"no organization": {command + "client_2 --expect 1", "", 3, "no organization says that it has client client_2", -1},
		"no client":       {"clients remove --everywhere --expect 1", "", 2, "name the client by --client", -1},
		"a file too":      {command + "client_1 --expect 1 clients.csv", "", 2, "--everywhere and a file do not go together", -1},
		"a bad id":        {command + "a/b --expect 1", "", 2, "client_id: want 1 to 128 letters", -1},
		"not everywhere":  {"clients remove --client client_1", "", 2, "--client and --expect require --everywhere", -1},
	} {
		t.Run(name, func(t *testing.T) {
			mini.FlushAll()
			var text bytes.Buffer
			args, environ := strings.Fields(tc.args), []string{"ORGOPS_REDIS_URL=redis://" + mini.Addr()}
			status := 0
			if tc.typed == "" {
				status = run(t.Context(), args, strings.NewReader(""), &text, &text, environ)
			} else {
				status = run(t.Context(), args, terminalWith(t, tc.typed), &text, &text, environ)
			}
			if status != tc.status || !strings.Contains(text.String(), tc.says) {
				t.Errorf("exit status %d, want %d; %s; want %q in it", status, tc.status, text.String(), tc.says)
			}
			r, err := f.ledger.Get(t.Context(), "default", "job")
			if (err == nil) != (tc.removals >= 0) {
				t.Fatalf("run %+v, %v", r, err)
			}
			for deadline := time.Now().Add(time.Minute); err == nil && r.Scanning() && time.Now().Before(deadline); {
				r, err = f.ledger.Get(t.Context(), "default", "job")
			}
			if r.Rows != max(tc.removals, 0) || (tc.removals > 0 && r.Ended()) {
				t.Errorf("rows %d, ended %t: want %d that are open", r.Rows, r.Ended(), tc.removals)
			}
		})
	}
}
