package health_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"orgops/internal/health"
	"orgops/internal/redisconn"
	"orgops/internal/redistest"
)

// complaints are the findings that are not ok, as lines.
func complaints(all []health.Finding) (lines []string) {
	for _, f := range all {
		if f.Level != health.OK {
			lines = append(lines, f.String())
		}
	}
	return lines
}

func examined(t *testing.T, url string, schema error) []health.Finding {
	t.Helper()
	client, err := redisconn.Open(redisconn.Config{URL: url, AllowURLPassword: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return health.Redis(ctx, health.RedisSettings{
		Client: client, URL: url, Known: func(q string) bool { return strings.HasSuffix(q, ".rows") },
		Schema: func(context.Context) error { return schema },
	})
}

func TestRealRedis(t *testing.T) {
	for _, tc := range []struct {
		name     string
		settings []string
		want     []string
	}{
		{"as it should be", []string{"--appendonly", "yes"}, nil},
		{"it evicts", []string{"--appendonly", "yes", "--maxmemory-policy", "allkeys-lru"},
			[]string{
				"wrong    redis: maxmemory-policy allkeys-lru deletes rows when memory is full -> set maxmemory-policy noeviction",
			}},
		{"it keeps nothing", nil,
			[]string{
				"wrong    redis: it persists nothing: appendonly no, and no save points; a restart forgets every run -> set appendonly yes",
			}},
		{"snapshots alone", []string{"--save", "900 1"},
			[]string{
				"warning  redis: it has appendonly no: a crash loses everything since the last snapshot (save 900 1) -> set appendonly yes",
			}},
		{"nobody syncs", []string{"--appendonly", "yes", "--appendfsync", "no"},
			[]string{
				"warning  redis: appendfsync no: a power cut loses what the kernel has not written, up to half a minute of work -> set appendfsync everysec, or always",
			}},
		// As managed services do: the worker works, so nothing is wrong.
		{"CONFIG is forbidden", []string{"--appendonly", "yes", "--rename-command", "CONFIG", ""}, nil},
		{"CONFIG is forbidden, and snapshots alone", []string{"--rename-command", "CONFIG", ""}, []string{
			"warning  redis: it has appendonly no: a crash loses everything since the last snapshot, if it makes any (which takes CONFIG to read) -> set appendonly yes, or make sure that the service persists otherwise"}},
		{"CONFIG, INFO and MEMORY are forbidden", []string{"--appendonly", "yes", "--rename-command", "CONFIG", "",
			"--rename-command", "INFO", "", "--rename-command", "MEMORY", ""}, []string{
			"warning  redis: taken for 6.2 or newer, a master, without eviction and persistent, since its INFO cannot be read: ERR unknown command 'info', with args beginning with:  -> allow this user INFO, or make sure of it"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, tc.settings...)
			if diff := cmp.Diff(tc.want, complaints(examined(t, server.URL(), nil))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("a replica", func(t *testing.T) {
		t.Parallel()
		master := redistest.Start(t, "--appendonly", "yes")
		replica := redistest.Start(t, "--appendonly", "yes", "--replicaof", strings.Replace(master.Addr, ":", " ", 1))
		got := strings.Join(complaints(examined(t, replica.URL(), nil)), "\n")
		for _, want := range []string{"wrong    redis: it is a slave and takes no writes -> name the master",
			"is not ready: READONLY You can't write against a read only replica."} {
			if !strings.Contains(got, want) {
				t.Errorf("%s\nwant %q", got, want)
			}
		}
	})
	t.Run("a user who may read alone", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, "--appendonly", "yes")
		if err := server.Client().ACLSetUser(t.Context(), "reader", "on", ">secret-of-reader", "~*", "+@read",
			"+@connection").Err(); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(complaints(examined(t, strings.Replace(server.URL(), "redis://",
			"redis://reader:secret-of-reader@", 1), nil)), "\n")
		for _, want := range []string{"warning  redis: taken for 6.2 or newer, a master, without eviction and persistent, since its INFO cannot be read",
			"wrong    redis: this user may not write orgops:{doctor}:"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s\nwant %q", got, want)
			}
		}
		if strings.Contains(got, "secret-of-reader") {
			t.Error("the password is told")
		}
	})
	t.Run("others use it too", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, "--appendonly", "yes")
		if err := server.Client().SAdd(t.Context(), "asynq:queues", "acme.rows", "mails").Err(); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"wrong    redis: it is of version 9 -> use another Redis or database, or another orgops",
			`warning  redis: 1 queues in it are not orgops's ("mails") -> give orgops a Redis, or a database, of its own`,
		}
		if diff := cmp.Diff(want, complaints(examined(t, server.URL(), errors.New("it is of version 9")))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestStorage: what a worker says of a Redis that will lose rows, while it works on it.
func TestStorage(t *testing.T) {
	for _, tc := range []struct {
		name     string
		settings []string
		want     []string
	}{
		{"as it should be", []string{"--appendonly", "yes"}, nil},
		{"it evicts and persists nothing", []string{"--maxmemory-policy", "allkeys-lru"}, []string{
			"warning  redis data: maxmemory-policy allkeys-lru deletes rows when memory is full -> set maxmemory-policy noeviction",
			"warning  redis data: it has appendonly no: a crash loses everything since the last snapshot, if it makes any (which takes CONFIG to read) -> set appendonly yes, or make sure that the service persists otherwise"}},
		{"CONFIG is forbidden", []string{"--appendonly", "yes", "--rename-command", "CONFIG", ""}, nil},
		{"INFO is forbidden", []string{"--rename-command", "INFO", ""}, []string{
			"warning  redis data: taken for 6.2 or newer, a master, without eviction and persistent, since its INFO cannot be read: ERR unknown command 'info', with args beginning with:  -> allow this user INFO, or make sure of it"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, complaints(health.Storage(t.Context(),
				redistest.Start(t, tc.settings...).Client()))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnencryptedRedis: whoever can read the network reads the password, whether the
// settings have the address or a name.
func TestUnencryptedRedis(t *testing.T) {
	const unnamed = "cache.orgops.invalid" // RFC 6761: it has no address anywhere
	client := redis.NewClient(&redis.Options{
		Addr: strings.TrimPrefix(strings.TrimSuffix(pretend(t,
			"redis_version:7.0.0\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\nrole:master\r\n", time.Now), "/0"),
			"redis://"),
	})
	t.Cleanup(func() { _ = client.Close() })
	for url, host := range map[string]string{
		"redis://127.0.0.1:6379/0":                      "",
		"redis://localhost:6379/0":                      "",
		"redis://10.1.2.3:6379/0":                       "",
		"redis://203.0.113.5:6379/0":                    "203.0.113.5",
		"rediss://203.0.113.5:6379/0":                   "",
		"redis://" + unnamed + ":6379/0":                unnamed,
		"rediss://" + unnamed + ":6379/0":               "",
		"redis-cluster://localhost:1," + unnamed + ":2": unnamed,
	} {
		t.Run(url, func(t *testing.T) {
			var want []string
			if host != "" {
				want = []string{
					"warning  redis: the password and all rows are sent to " + host + " unencrypted -> use rediss://, or a tunnel",
				}
			}
			got := complaints(health.Redis(t.Context(), health.RedisSettings{
				Client: client, URL: url, Known: func(string) bool { return true },
				Schema: func(context.Context) error { return nil },
			}))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRedisThatIsTooOld(t *testing.T) {
	url := pretend(t, "redis_version:5.0.7\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\nrole:master\r\n", time.Now)
	want := []string{
		"wrong    redis: version 5.0.7 is too old: the scripts of queues and ledger do not run on it -> upgrade it to 6.2 or newer",
	}
	if diff := cmp.Diff(want, complaints(examined(t, url, nil))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRedisWhoseClockIsWrong(t *testing.T) {
	url := pretend(t, "redis_version:7.0.0\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\nrole:master\r\n",
		func() time.Time { return time.Now().Add(-time.Hour) })
	want := []string{"wrong    redis: Redis's clock is 1h0m0s behind this machine's -> synchronize both clocks by NTP"}
	if diff := cmp.Diff(want, complaints(examined(t, url, nil))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUnreachableRedis(t *testing.T) {
	got := complaints(examined(t, "redis://:secret-word@127.0.0.1:1/0", nil)) // no process is given that port
	if len(got) != 1 || !strings.HasPrefix(got[0], "wrong    redis: redis at 127.0.0.1:") ||
		!strings.Contains(got[0], "-> check --redis-url") || strings.Contains(got[0], "secret-word") {
		t.Errorf("got %q", got)
	}
}

// pretend serves just as much of a Redis as is asked for here, with that INFO and clock.
func pretend(t *testing.T, info string, clock func() time.Time) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer func() { _ = conn.Close() }()
				in := bufio.NewReader(conn)
				for words := command(in); words != nil; words = command(in) {
					_, _ = io.WriteString(conn, reply(words, info, clock()))
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait() // the client has closed its connections: clean-up runs last in, first out
	})
	return "redis://" + listener.Addr().String() + "/0"
}

// command reads one; nil: there is no more.
func command(in *bufio.Reader) (words []string) {
	line := func() string {
		text, err := in.ReadString('\n')
		if err != nil {
			return ""
		}
		return strings.TrimSpace(text)
	}
	count, err := strconv.Atoi(strings.TrimPrefix(line(), "*"))
	if err != nil {
		return nil
	}
	for range count {
		_ = line() // the length
		words = append(words, line())
	}
	return words
}

func reply(words []string, info string, now time.Time) string {
	bulk := func(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }
	switch strings.ToUpper(words[0]) {
	case "PING":
		return "+PONG\r\n"
	case "INFO":
		return bulk(info)
	case "TIME":
		return "*2\r\n" + bulk(strconv.FormatInt(now.Unix(), 10)) + bulk(strconv.Itoa(now.Nanosecond()/1000))
	case "SET":
		return "+OK\r\n"
	case "GET":
		return bulk("1")
	case "EVAL", "PUBLISH":
		return ":1\r\n"
	case "SMEMBERS":
		return "*0\r\n"
	}
	return "-ERR unknown command\r\n"
}
