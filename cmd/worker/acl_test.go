package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/redisconn"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/producer"
)

// guarded is a Redis server with the users of deploy/redis, and an administrator that reads
// which commands were refused.
type guarded struct {
	t         *testing.T
	server    *redistest.Server
	passwords map[string]string
	users     string // the file of them
}

// startGuarded starts one with those further settings.
func startGuarded(t *testing.T, settings ...string) *guarded {
	t.Helper()
	dir, passwords := t.TempDir(), map[string]string{}
	args := []string{"../../deploy/redis/render"}
	for _, user := range []string{"worker", "producer", "operator", "reader", "admin"} {
		passwords[user] = rand.Text() + rand.Text()
		file := filepath.Join(dir, user)
		write(t, file, passwords[user]+"\n")
		args = append(args, user+"="+file)
	}
	rules, err := exec.CommandContext(t.Context(), "sh", args...).Output()
	if err != nil {
		t.Fatalf("render: %v", err)
	}
	for user, password := range passwords {
		if strings.Contains(string(rules), password) {
			t.Errorf("the password of %s is in the file", user)
		}
	}
	file := filepath.Join(dir, "users.acl")
	write(t, file, string(rules)+"user auditor on nopass ~* &* +@all\n")
	passwords["auditor"], passwords["health"] = "any", "any"
	return &guarded{t, redistest.Start(t, append(settings, "--aclfile", file)...), passwords, file}
}

// url names the user.
func (g *guarded) url(user string) string { return "redis://" + user + "@" + g.server.Addr + "/0" }

func (g *guarded) client(user string) redis.UniversalClient {
	g.t.Helper()
	c, err := redisconn.Open(redisconn.Config{URL: g.url(user), Password: g.passwords[user]})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = c.Close() })
	return c
}

// refusals returns the commands refused since the last call, each with its user, and the
// number of refused scripts of the ledger.
func (g *guarded) refusals() (all []string) {
	g.t.Helper()
	auditor := g.client("auditor").(*redis.Client)
	log, err := auditor.ACLLog(g.t.Context(), 100).Result()
	if err != nil {
		g.t.Fatal(err)
	}
	for _, entry := range log {
		all = append(all, entry.Username+": "+entry.Reason+" "+entry.Object)
	}
	errors, err := auditor.Info(g.t.Context(), "errorstats").Result()
	if err != nil {
		g.t.Fatal(err)
	}
	if _, denied, ok := strings.Cut(errors, "errorstat_DENIED:"); ok {
		all = append(all, "scripts: "+strings.SplitN(denied, "\r", 2)[0])
	}
	if err := cmp.Or(auditor.ACLLogReset(g.t.Context()).Err(), auditor.ConfigResetStat(g.t.Context()).Err()); err != nil {
		g.t.Fatal(err)
	}
	return all
}

// as makes the processes that start next use that user.
func (g *guarded) as(user string, f *fleet) {
	f.env["ORGOPS_REDIS_URL"], f.env["ORGOPS_REDIS_PASSWORD"] = g.url(user), g.passwords[user]
}

// TestRedisUsers runs every command as its user of deploy/redis and expects no refusal.
func TestRedisUsers(t *testing.T) {
	inProcesses(t)
	t.Parallel()
	g := startGuarded(t)
	client := g.client("worker")
	f := assembleOn(desk{t, client, ledger.New(client)}, "")
	f.box.SeedBulk(sandbox.BulkOptions{Organizations: 40})
	g.as("worker", f)
	one := f.work("one")

	g.as("producer", f)
	f.enqueueAll(60)()
	f.typed("domains", "verify", "--pending", "--run", "found")
	f.typed("domains", "sweep", "--run", "swept")
	f.typed("domains", "sweep", "--dry-run")
	f.awaitEnds()
	await(t, "the ends of the walks", func() bool { return f.run("found").HasAllRows() && f.run("swept").HasAllRows() })
	await(t, "the looks of the sweep", func() bool { return f.run("swept").Ended() })
	remembered := f.swept(g.client("worker"))
	f.control()
	f.looks(remembered)
	if _, err := producer.New(g.client("producer")).Submit(t.Context(), producer.Row{ID: "single", Kind: producer.Remove,
		Row: []byte(`{"organization_id":"org_none","client_id":"client_none"}`)}); err != nil {
		t.Errorf("submit a single row: %v", err)
	}
	f.finished("single")
	if refused := g.refusals(); len(refused) > 0 {
		t.Errorf("refused of what producer and worker do: %q", refused)
	}

	g.as("reader", f)
	f.looks(remembered)
	if refused := g.refusals(); len(refused) > 0 {
		t.Errorf("refused of what a reader looks at: %q", refused)
	}
	submissions := [][]string{{"clients", "remove", filepath.Join(f.dir, "clients.csv")},
		{"runs", "retry", "cancelled-too"}, {"domains", "sweep", "--run", "swept-too"}}
	g.as("producer", f)
	f.typed("domains", "verify", "--run", "cancelled-too", filepath.Join(f.dir, "waiting.csv"))
	f.typed("runs", "cancel", "cancelled-too")
	g.as("reader", f)
	g.refusesAll(f, append(submissions, []string{"runs", "cancel", "held"},
		[]string{"runs", "delete", "--yes", "templates"}, []string{"runs", "resume", "held"},
		[]string{"tenant", "stop", "default"}))
	if f.run("held").Ended() {
		t.Error("the run has ended that the reader was refused to cancel")
	}

	g.as("operator", f)
	f.looks(remembered)
	for _, args := range [][]string{
		{"runs", "pause", "held"}, {"runs", "resume", "held"}, {"tenant", "stop", "default"}, {"tenant", "start", "default"},
		{"runs", "cancel", "held"}, {"runs", "delete", "--yes", "templates"},
	} {
		f.typed(args...)
	}
	one.signal(syscall.SIGTERM)
	await(t, "the end of the worker", func() bool {
		sessions, err := f.ledger.Sessions(t.Context())
		return err == nil && len(sessions) == 0
	})
	f.typed("tenant", "reassign", "default", "--keep")
	if refused := g.refusals(); len(refused) > 0 || !f.run("held").Ended() {
		t.Errorf("refused of what an operator does: %q", refused)
	}
	g.refusesAll(f, submissions)
}

// refusesAll expects that the user of f may run none of these commands.
func (g *guarded) refusesAll(f *fleet, commands [][]string) {
	g.t.Helper()
	for _, args := range commands {
		said, command := new(strings.Builder), f.command("refused", "enqueue", args...)
		command.Stderr = said
		err := command.Run()
		refused := g.refusals()
		if err == nil || len(refused) == 0 || !strings.Contains(said.String(), "its user may not run enqueue "+args[0]) {
			g.t.Errorf("`enqueue %s`: error %v, refused %q, %q; want a refusal", strings.Join(args, " "), err, refused, said)
		}
	}
}

// control applies every command of a producer to runs.
func (f *fleet) control() {
	f.t.Helper()
	write(f.t, filepath.Join(f.dir, "waiting.csv"), f.waiting())
	for _, run := range []string{"held", "cancelled"} {
		f.typed("domains", "verify", "--run", run, filepath.Join(f.dir, "waiting.csv"))
	}
	f.typed("tenant", "stop", "default")
	f.typed("tenant", "start", "default")
	f.typed("runs", "pause", "held")
	f.typed("runs", "resume", "held")
	f.typed("runs", "cancel", "cancelled")
	await(f.t, "the end of the cancelled run", func() bool { return f.run("cancelled").Ended() })
	f.typed("runs", "retry", "cancelled", "--outcome", "cancelled", "--run", "again")
	f.typed("runs", "delete", "--yes", "updates")
}

// waiting returns a file with a row that waits for hours: its TXT record is not published.
func (f *fleet) waiting() string {
	org := f.box.AddOrganization("", "")
	return "organization_id,discovery_domain_id\n" + org + "," + f.box.AddDomain(org, sandbox.Domain{}).ID + "\n"
}

// swept returns the ID of a domain that the sweep has checked.
func (f *fleet) swept(client redis.UniversalClient) (id string) {
	f.t.Helper()
	rows, err := ledger.New(client).Contents(f.t.Context(), ledgertest.Find(f.t, ledger.New(client), "swept"), 0, 1)
	if err != nil || len(rows) != 1 {
		f.t.Fatalf("rows of the sweep: %q, %v", rows, err)
	}
	var row struct {
		ID string `json:"discovery_domain_id"`
	}
	if err := json.Unmarshal(rows[0], &row); err != nil {
		f.t.Fatal(err)
	}
	return row.ID
}

// looks runs every command that only reads.
func (f *fleet) looks(remembered string) {
	f.t.Helper()
	domain := f.cells("domains.csv")[0]
	for _, args := range [][]string{
		{"runs", "list"}, {"runs", "show", "held"}, {"runs", "show", "held", "--open"}, {"runs", "show", "domains"},
		{"runs", "follow", "clients"}, {"tenant", "show"}, {"tenant", "show", "default"},
		{"runs", "failed", "cancelled"}, {"domains", "show", "--org", domain[0], domain[1]},
		{"domains", "history", remembered},
	} {
		err := f.command("looks", "enqueue", args...).Run()
		if err != nil {
			log, _ := os.ReadFile(f.logOf("looks")) // best effort
			f.t.Errorf("enqueue %s: %v; its log:\n%s", strings.Join(args, " "), err, log)
		}
	}
}

// TestRedisUsersAreBounded checks that each user is refused the commands that it must not run.
func TestRedisUsersAreBounded(t *testing.T) {
	inProcesses(t)
	t.Parallel()
	g := startGuarded(t)
	everybody := [][]any{
		{"FLUSHALL"}, {"FLUSHDB"}, {"SWAPDB", 0, 1}, {"KEYS", "*"}, {"SCAN", 0}, {"RANDOMKEY"}, {"DBSIZE"},
		{"CONFIG", "GET", "*"}, {"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"}, {"CONFIG", "REWRITE"},
		{"ACL", "LIST"}, {"ACL", "SETUSER", "me", "on", "nopass", "~*", "+@all"}, {"MONITOR"}, {"SHUTDOWN", "NOSAVE"},
		{"SAVE"}, {"BGREWRITEAOF"}, {"REPLICAOF", "192.0.2.1", 6379}, {"MODULE", "LIST"},
		{"FUNCTION", "FLUSH"}, {"SCRIPT", "FLUSH"},
		{"CLIENT", "LIST"}, {"CLIENT", "KILL", "TYPE", "normal"}, {"SLOWLOG", "GET"}, {"CLUSTER", "RESET"},
		{"MIGRATE", "192.0.2.1", 6379, "orgops:schema", 0, 100}, {"DUMP", "other"},
		{"RESTORE", "orgops:x", 0, "x"}, {"SORT", "orgops:x"},
		{"GET", "other"}, {"SET", "other", 1}, {"EVAL", "return redis.call('GET', 'other')", 0},
		{"EVAL", "return redis.call('FLUSHALL')", 0},
		{"SUBSCRIBE", "other"}, {"PUBLISH", "other", "x"}, {"RENAME", "orgops:schema", "other"},
	}
	own := map[string][][]any{
		"default": {{"GET", "orgops:schema"}, {"INFO"}, {"PING"}},
		"health":  {{"GET", "orgops:schema"}, {"INFO"}},
		"worker":  nil,
		"producer": {
			// A tenant's settings belong to the workers.
			{"SET", "orgops:v1:{tenant:default}:settings", "{}"}, {"DEL", "orgops:v1:{tenant:default}:workers"},
			{"EVAL", "return redis.call('DEL', KEYS[1])", 1, "orgops:v1:{tenant:default}:settings"},
			{"PUBLISH", "asynq:cancel", "x"}, {"SUBSCRIBE", "asynq:cancel"}, {"SUBSCRIBE", "orgops:v3:wake"},
			{"DEL", "asynq:servers"}, {"SET", "asynq:other", 1},
		},
		"operator": {
			{"SET", "orgops:schema", 2}, {"DEL", "orgops:v1:other"}, {"SADD", "orgops:v3:tenants", "x"},
			{"SET", "orgops:v1:{tenant:default}:settings", "{}"}, {"LPUSH", "asynq:{default.api}:pending", "x"},
			{"PUBLISH", "asynq:cancel", "x"}, {"SUBSCRIBE", "orgops:v3:wake"},
		},
		"reader": {
			{"SET", "orgops:schema", 2}, {"DEL", "orgops:v1:other"}, {"LPUSH", "asynq:{default.api}:pending", "x"},
			{"PUBLISH", "asynq:cancel", "x"},
			{"EVAL", "return redis.call('DEL', KEYS[1])", 1, "orgops:v1:other"},
			{"HSET", "orgops:v1:{tenant:default}:pace", "tat", 1},
			{"PUBLISH", "orgops:v3:wake", "default"}, {"HSET", "orgops:v3:{tenant:default}:run:a:header", "flags", "p"},
		},
	}
	for user, others := range own {
		t.Run(user, func(t *testing.T) {
			for _, command := range append(others, everybody...) {
				if err := g.try(user, command); !refused(err) {
					t.Errorf("%v: got %v, want it refused to the user", command, err)
				}
			}
		})
	}
	// The commands refused above are valid: the user that may run them succeeds.
	for _, command := range [][]any{{"SADD", "asynq:queues", "default.webhook.crm"},
		{"LPUSH", "asynq:{default.webhook.crm}:pending", "x"}} {
		if err := g.try("operator", command); err != nil {
			t.Errorf("operator: %v: %v", command, err)
		}
	}
	for user, command := range map[string][]any{
		"health": {"PING"}, "producer": {"PUBLISH", "orgops:v3:wake", "default"},
		"worker":   {"SET", "orgops:v1:{tenant:default}:settings", "{}"},
		"operator": {"PUBLISH", "orgops:v3:wake", "default"},
		"reader":   {"HGETALL", "orgops:v3:{tenant:default}:run:a:header"},
	} {
		if err := g.try(user, command); err != nil && err != redis.Nil { //nolint:errorlint // as the client gives it
			t.Errorf("%s: %v: %v", user, command, err)
		}
	}
}

// refused reports whether err denies the user permission, for a command or inside a script.
func refused(err error) bool {
	if err == nil {
		return false
	}
	return redis.IsPermissionError(err) || redis.IsAuthError(err) ||
		strings.Contains(err.Error(), "The user executing the script can't")
}

// TestRedisUsersKeepTransactions checks that a Redis with these users retains the writes of a
// worker's scripts over a restart.
func TestRedisUsersKeepTransactions(t *testing.T) {
	inProcesses(t)
	t.Parallel()
	g := startGuarded(t, "--appendonly", "yes", "--appendfsync", "always")
	keys := []string{"orgops:v3:a", "orgops:v3:b"}
	const script = "redis.call('SET', KEYS[1], 1) redis.call('SET', KEYS[2], 1) return 1"
	if err := g.client("worker").Eval(t.Context(), script, keys).Err(); err != nil {
		t.Fatal(err)
	}
	g.server.Kill()
	g.server.Restart()
	auditor, n := g.client("auditor"), int64(0)
	await(t, "Redis to load its file", func() (loaded bool) {
		var err error
		n, err = auditor.Exists(t.Context(), keys...).Result()
		return err == nil
	})
	if n != 2 {
		t.Errorf("after a restart %d of the script's 2 keys exist", n)
	}
}

// TestRedisAdmin checks that the user admin can do what deploy/redis and docs/operations/backup.md
// have it do, and that it has no access to keys.
func TestRedisAdmin(t *testing.T) {
	inProcesses(t)
	t.Parallel()
	g := startGuarded(t, "--appendonly", "yes")
	for _, command := range [][]any{{"PING"}, {"CONFIG", "SET", "auto-aof-rewrite-percentage", 0}, {"BGREWRITEAOF"},
		{"INFO", "persistence"}, {"CONFIG", "SET", "auto-aof-rewrite-percentage", 100}, {"ACL", "LOG"}} {
		if err := g.try("admin", command); err != nil {
			t.Errorf("%v: %v", command, err)
		}
	}
	for _, command := range [][]any{{"GET", "orgops:schema"}, {"SET", "orgops:schema", 1}, {"KEYS", "*"}, {"FLUSHALL"},
		{"SHUTDOWN", "NOSAVE"}, {"ACL", "SETUSER", "me", "on", "nopass", "~*", "+@all"}, {"ACL", "LIST"}, {"MONITOR"},
		{"EVAL", "return 1", 0}, {"REPLICAOF", "192.0.2.1", 6379}, {"MODULE", "LIST"}} {
		if err := g.try("admin", command); !refused(err) {
			t.Errorf("%v: got %v, want it refused to the user", command, err)
		}
	}

	// Replace the worker's password. Both are valid between the two loads.
	former := g.passwords["worker"]
	next := rand.Text() + rand.Text()
	write(t, g.users, strings.Replace(g.read(), "user worker on ", "user worker on "+hashed(next)+" ", 1))
	g.loads()
	for _, password := range []string{former, next} {
		g.passwords["worker"] = password
		if err := g.try("worker", []any{"PING"}); err != nil {
			t.Errorf("while there are two passwords: %v", err)
		}
	}
	write(t, g.users, strings.Replace(g.read(), " "+hashed(former), "", 1))
	g.loads()
	if err := g.try("worker", []any{"PING"}); err != nil {
		t.Errorf("the new password: %v", err)
	}
	g.passwords["worker"] = former
	if err := g.try("worker", []any{"PING"}); !refused(err) {
		t.Errorf("the former password: %v, want a refusal", err)
	}
}

// loads has the user admin load the file of the users.
func (g *guarded) loads() {
	g.t.Helper()
	if err := g.try("admin", []any{"ACL", "LOAD"}); err != nil {
		g.t.Fatal(err)
	}
}

// read returns the file of the users.
func (g *guarded) read() string {
	g.t.Helper()
	text, err := os.ReadFile(g.users)
	if err != nil {
		g.t.Fatal(err)
	}
	return string(text)
}

// hashed returns a password as the file of the users has it.
func hashed(password string) string { return fmt.Sprintf("#%x", sha256.Sum256([]byte(password))) }

// try sends one command on a connection of its own, since some commands change the
// connection's state.
func (g *guarded) try(user string, command []any) error {
	o := &redis.Options{Addr: g.server.Addr, Username: user, Password: g.passwords[user],
		DisableIdentity: true, MaxRetries: -1}
	if user == "default" {
		o.Username, o.Protocol = "", 2
	}
	c := redis.NewClient(o)
	defer func() { _ = c.Close() }()
	return c.Do(context.WithoutCancel(g.t.Context()), command...).Err()
}
