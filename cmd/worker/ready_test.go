package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"orgops/internal/engine"
	"orgops/internal/health"
	"orgops/internal/redisconn"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/internal/tenant"
)

// closed returns an address without a listener.
func closed(t *testing.T) string {
	t.Helper()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = packets.Close() }()
	return packets.LocalAddr().String()
}

func TestReadinessSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(t *testing.T, env map[string]string, box *sandbox.Sandbox)
		status int
		want   []string
	}{
		{"nothing", nil, http.StatusOK, []string{"redis: ok\n", "tenant default: ok\n", "tenant default queue: ok\n",
			"tenant default token: ok\n", "tenant default resolvers: ok\n"}},
		{"a paused queue", func(t *testing.T, env map[string]string, _ *sandbox.Sandbox) {
			rdb := redistest.Open(t)
			_, err := asynq.NewClientFromRedisClient(rdb).Enqueue(asynq.NewTask("domain:update", nil),
				asynq.Queue("default.rows"))
			if err == nil {
				err = asynq.NewInspectorFromRedisClient(rdb).PauseQueue("default.rows")
			}
			if err != nil {
				t.Fatal(err)
			}
		}, http.StatusOK, []string{"ready\n", "tenant default queue: ok, but the queue default.rows is paused",
			"resume it on the page Queues"}},
		{"one resolver of three", func(t *testing.T, env map[string]string, _ *sandbox.Sandbox) {
			all := strings.Split(env["ORGOPS_RESOLVERS"], ",")
			env["ORGOPS_RESOLVERS"] = strings.Join(append(all[:2:2], closed(t)), ",")
		}, http.StatusOK, []string{
			"ready\n", "tenant default resolvers: ok, but 1 of 3 resolvers do not answer: 127.0.0.1:",
		}},
		{"the quorum of resolvers", func(t *testing.T, env map[string]string, _ *sandbox.Sandbox) {
			all := strings.Split(env["ORGOPS_RESOLVERS"], ",")
			env["ORGOPS_RESOLVERS"] = strings.Join([]string{all[0], closed(t), closed(t)}, ",")
		}, http.StatusServiceUnavailable, []string{"not ready\n",
			"tenant default resolvers: 2 of 3 resolvers do not answer: 127.0.0.1:", "a proof needs 2: check that this machine"}},
		{"all of one perspective", func(t *testing.T, env map[string]string, _ *sandbox.Sandbox) {
			all := strings.Split(env["ORGOPS_RESOLVERS"], ",")
			env["ORGOPS_RESOLVERS"] = strings.Join([]string{all[0] + "@eu", all[1] + "@eu", closed(t) + "@us"}, ",")
		}, http.StatusServiceUnavailable, []string{"not ready\n",
			"tenant default resolvers: 1 of 3 resolvers do not answer: 127.0.0.1:",
			"a proof needs 2 of 2 perspectives, each by more than half of its resolvers: check that this machine"}},
		{"the secret", func(_ *testing.T, env map[string]string, _ *sandbox.Sandbox) {
			env["ORGOPS_CLIENT_SECRET"] = "no such secret"
		},
			http.StatusServiceUnavailable, []string{"not ready\n", "tenant default token: no token: POST http://", "401",
				"the secret in ORGOPS_CLIENT_SECRET"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			box := startBox(t, sandbox.Options{})
			env := pointedAt(box, redistest.URL(t), map[string]string{"ORGOPS_PROBE_ADDR": "127.0.0.1:0"})
			if tc.change != nil {
				tc.change(t, env, box)
			}
			p := begin(t, env)
			p.says("worker started", nil)
			var status int
			var body string
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("/readyz: %d %s\nwant %d and it to say %q", status, body, tc.status, tc.want)
				}
			})
			await(t, "the findings", func() bool { // each is made by a poll of its own
				status, body = p.page("probe-addr", "/readyz")
				return status == tc.status && !slices.ContainsFunc(tc.want, func(want string) bool {
					return !strings.Contains(body, want)
				})
			})
			if strings.Contains(body, "no such secret") {
				t.Error("the secret is told")
			}
		})
	}
}

// TestNotReadyBeforeTheFirstToken checks that an idle worker fetches its token, and is ready
// once it has one.
func TestNotReadyBeforeTheFirstToken(t *testing.T) {
	t.Parallel()
	box := startBox(t, sandbox.Options{})
	env := pointedAt(box, redistest.URL(t), map[string]string{"ORGOPS_PROBE_ADDR": "127.0.0.1:0"})
	release := make(chan struct{})
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"t","token_type":"Bearer","expires_in":86400}`)
	}))
	t.Cleanup(endpoint.Close)
	env["ORGOPS_TOKEN_URL"] = endpoint.URL
	p := begin(t, env)
	p.says("worker started", nil)
	status, body := p.page("probe-addr", "/readyz")
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "tenant default token: not fetched yet\n") {
		t.Errorf("before the token: %d\n%s", status, body)
	}
	close(release)
	await(t, "readiness", func() bool {
		status, body = p.page("probe-addr", "/readyz")
		return status == http.StatusOK
	})
}

func TestStartedNamesTheSettings(t *testing.T) {
	box := startBox(t, sandbox.Options{})
	env := pointedAt(box, redistest.URL(t), map[string]string{"ORGOPS_PROBE_ADDR": "127.0.0.1:0", "ORGOPS_RATE": "100/s",
		"ORGOPS_BURST": "20", "ORGOPS_RESERVE": "10"})
	line := begin(t, env).says("worker started", map[string]string{"tenant": "default", "version": "dev", "rate": "100/s",
		"dns_mode": "resolvers"})
	api, err := url.Parse(box.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	if line["api"] != api.Host || line["burst"] != 20.0 || line["reserve"] != 0.1 || line["quorum"] != 2.0 {
		t.Errorf("api %v, burst %v, reserve %v, quorum %v", line["api"], line["burst"], line["reserve"], line["quorum"])
	}
	for member, want := range map[string]int{"resolvers": 3, "queues": 2, "addresses": 1} {
		if list, _ := line[member].([]any); len(list) != want {
			t.Errorf("%s: %v, want %d", member, line[member], want)
		}
	}
}

// TestRedisThatRefusesInfo checks that a worker starts and is ready on a Redis whose settings
// it may not read, and says so.
func TestRedisThatRefusesInfo(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--rename-command", "INFO", "", "--rename-command", "CONFIG", "")
	p := begin(t, pointedAt(startBox(t, sandbox.Options{}), server.URL(),
		map[string]string{"ORGOPS_PROBE_ADDR": "127.0.0.1:0"}))
	p.says("worker started", nil)
	p.says("redis may lose data", map[string]string{
		"fix": "allow this user INFO, or make sure of it",
	})
	await(t, "the note", func() bool {
		status, body := p.page("probe-addr", "/readyz")
		return status == http.StatusOK && strings.Contains(body, "redis data: ok, but taken for 6.2 or newer, a master, ")
	})
}

// TestWrongClock checks that a worker fetches no tasks while its clock is wrong, says so once, and
// goes on once it is right.
func TestWrongClock(t *testing.T) {
	mini, start := redistest.Mini(t), time.Now()
	var log bytes.Buffer
	w, err := newWorker(t.Context(), settings{}, redisconn.Config{URL: redistest.URL(t), AllowURLPassword: true},
		slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	w.setTenants([]*served{{Settings: tenant.Settings{Name: "acme"},
		engine: engine.New(engine.Config{})}})
	for _, step := range []struct {
		ahead time.Duration
		wrong bool
		lines int // in all
	}{
		{0, false, 0}, {8 * time.Second, false, 0}, {time.Minute, true, 1}, {2 * time.Minute, true, 1}, {0, false, 2},
		{-8 * time.Second, false, 2}, {-time.Minute, true, 3},
	} {
		mini.SetTime(start.Add(step.ahead))
		for range 2 {
			if _, err := w.Renew(t.Context(), w.about()); err != nil {
				t.Fatal(err)
			}
		}
		all, err := w.ledger.Sessions(t.Context())
		if err != nil || len(all) != 1 || (len(all[0].Tenants) == 0) != step.wrong {
			t.Errorf("%v ahead: sessions %+v, %v", step.ahead, all, err)
		}
		isWrong := slices.ContainsFunc(w.faults(), func(f health.Finding) bool {
			return f.Subject == "clock" && f.Level == health.Wrong
		})
		if lines := strings.Count(log.String(), "clock is right"); isWrong != step.wrong || lines != step.lines {
			t.Errorf("%v ahead: wrong %v, %d lines, want %v, %d:\n%s", step.ahead, isWrong, lines, step.wrong, step.lines, &log)
		}
	}
}

// TestRedisThatLosesData checks that a worker reports a Redis that will lose rows, once, and one
// that has lost them.
func TestRedisThatLosesData(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--maxmemory-policy", "allkeys-lru", "--save", "900 1")
	var log bytes.Buffer
	w, err := newWorker(t.Context(), settings{}, redisconn.Config{URL: server.URL(), AllowURLPassword: true},
		slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	w.setTenants(nil)
	renew := func() error {
		_, err := w.Renew(t.Context(), w.about())
		return err
	}
	const evicts, persistsNothing, lost = "maxmemory-policy allkeys-lru", "it has appendonly no", "Redis lost data shortly"
	for _, step := range []struct {
		name string
		do   func() error
		want []string // how the findings begin
	}{
		{"at the start", func() error { return nil }, []string{evicts, persistsNothing}},
		{"with its data", func() error { return errors.Join(renew(), renew()) }, []string{evicts, persistsNothing}},
		{"emptied", func() error { return errors.Join(server.Client().FlushAll(t.Context()).Err(), renew(), renew()) },
			[]string{lost, evicts, persistsNothing}},
		{"corrected", func() error {
			return server.Client().ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err()
		}, []string{lost, persistsNothing}},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		w.checkStorage(t.Context())
		w.checkStorage(t.Context())
		var got []string
		for _, f := range w.findings(t.Context()) {
			if f.Level == health.Wrong {
				t.Errorf("%s: not ready: %s", step.name, f)
			}
			if f.Subject == "redis data" {
				got = append(got, f.Text)
			}
		}
		if !slices.EqualFunc(got, step.want, strings.HasPrefix) {
			t.Errorf("%s: findings %q, want %q", step.name, got, step.want)
		}
	}
	if n := strings.Count(log.String(), `level=WARN msg="redis may lose data"`); n != 2 {
		t.Errorf("%d lines of the settings, want 2:\n%s", n, log.String())
	}
	if n := strings.Count(log.String(), `level=ERROR msg="redis has lost data"`); n != 1 {
		t.Errorf("%d lines of the loss, want 1:\n%s", n, log.String())
	}
}

// serveSandbox has the worker serve n tenants, which share a sandbox and a secret.
func serveSandbox(t *testing.T, w *worker, box *sandbox.Sandbox, secret string, n int) {
	t.Helper()
	for i := len(w.tenants()); i < n; i++ {
		tenant := sandboxTenant(box)
		if err := tenant.Complete(func(string) string { return secret }); err != nil {
			t.Fatal(err)
		}
		tenant.Name = fmt.Sprint("tenant-", i)
		one, err := w.serve(tenant)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(one.dns.Close)
		w.setTenants(append(w.tenants(), one))
	}
}

// TestStartLogsFaults checks that a worker logs at its start the faults that doctor reports.
func TestStartLogsFaults(t *testing.T) {
	t.Parallel()
	server, box := redistest.Start(t), startBox(t, sandbox.Options{})
	box.SetScopes(slices.DeleteFunc(sandbox.AllScopes(),
		func(s string) bool { return s == "update:organization_discovery_domains" })...)
	env := pointedAt(box, strings.Replace(server.URL(), "redis://", "redis://partly:pw@", 1), nil)
	if err := server.Client().ACLSetUser(t.Context(), "partly", "on", ">pw", "~*", "&*", "+@all",
		"-rpush").Err(); err != nil {
		t.Fatal(err)
	}
	all := strings.Split(env["ORGOPS_RESOLVERS"], ",")
	env["ORGOPS_RESOLVERS"] = strings.Join(append(all[:2:2], everything(t)), ",")
	p := begin(t, env)
	for subject, problem := range map[string]string{
		"redis":          "this user may not run commands that rows need: RPUSH",
		"tenant default": "the token has no update:organization_discovery_domains",
	} {
		p.says("something is wrong", map[string]string{"subject": subject, "problem": problem, "level": "ERROR"})
	}
	p.says("something is wrong", map[string]string{"problem": "answers for names that do not exist", "fix": "--resolvers"})
}
