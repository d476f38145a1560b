package redisconn_test

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"orgops/internal/redisconn"
	"orgops/internal/redistest"
)

func open(t *testing.T, c redisconn.Config) redis.UniversalClient {
	t.Helper()
	client, err := redisconn.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestReadySaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	m := miniredis.RunT(t)
	m.RequireUserAuth("worker", "s3cret")
	loading := miniredis.RunT(t)
	loading.SetError("LOADING Redis is loading the dataset in memory")
	unable := miniredis.RunT(t)
	unable.SetError("NOPERM this user has no permissions to run the 'ping' command")

	tests := []struct {
		name   string
		config redisconn.Config
		want   string
	}{
		{"all well", redisconn.Config{URL: "redis://worker@" + m.Addr(), Password: "s3cret"}, ""},
		{"nobody there", redisconn.Config{URL: "redis://worker@" + nobody, Password: "s3cret"},
			"redis at " + nobody + " does not answer: "},
		{"no password", redisconn.Config{URL: "redis://" + m.Addr()},
			"redis at " + m.Addr() + " wants a password: set one: NOAUTH"},
		{"a wrong password", redisconn.Config{URL: "redis://worker@" + m.Addr(), Password: "s3cretive"},
			"redis at " + m.Addr() + " refuses this user or password: WRONGPASS"},
		{"a wrong user", redisconn.Config{URL: "redis://other@" + m.Addr(), Password: "s3cret"},
			"redis at " + m.Addr() + " refuses this user or password: WRONGPASS"},
		{"loading", redisconn.Config{URL: "redis://" + loading.Addr()},
			"redis at " + loading.Addr() + " is not ready: LOADING"},
		{"no permission", redisconn.Config{URL: "redis://" + unable.Addr()},
			"redis at " + unable.Addr() + ": this user lacks a permission that is needed: NOPERM"},
		{"no cluster there", redisconn.Config{URL: "redis-cluster://worker@" + nobody, Password: "s3cret"},
			"redis cluster at " + nobody + " does not answer: "},
		{"no Sentinel there", redisconn.Config{URL: "redis-sentinel://worker@" + nobody + "/main", Password: "s3cret"},
			"redis behind Sentinel does not answer: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := open(t, tt.config)
			for name, err := range map[string]error{"Ready": redisconn.Ready(t.Context(), client),
				"CheckVersion": redisconn.CheckVersion(t.Context(), client)} {
				if tt.want == "" {
					if err != nil {
						t.Errorf("%s: %v", name, err)
					}
					continue
				}
				if name == "CheckVersion" && slices.Contains([]string{"loading", "no permission"}, tt.name) {
					continue // Ready's to tell
				}
				if err == nil || !strings.HasPrefix(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cret") {
					t.Errorf("%s: got %v, want it to begin %q and to hold no password", name, err, tt.want)
				}
			}
		})
	}
}

// TestRemedies checks what the error of a connection suggests.
func TestRemedies(t *testing.T) {
	t.Parallel()
	secure := httptest.NewTLSServer(nil)
	t.Cleanup(secure.Close)
	encrypted := miniredis.NewMiniRedis()
	if err := encrypted.StartTLS(&tls.Config{Certificates: secure.TLS.Certificates}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(encrypted.Close)
	site := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(site.Close)
	demanding := miniredis.NewMiniRedis()
	demand := &tls.Config{Certificates: secure.TLS.Certificates, ClientAuth: tls.RequireAnyClientCert}
	if err := demanding.StartTLS(demand); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(demanding.Close)
	trusting := secure.Client().Transport.(*http.Transport).TLSClientConfig
	plain := miniredis.RunT(t)
	for _, tt := range []struct {
		url, want string
		tls       *tls.Config
	}{
		{"redis://" + plain.Addr(), "", nil},
		{"rediss://" + plain.Addr(), "; if it does not use TLS, write redis:// for rediss:// in the URL", nil},
		{"redis://" + encrypted.Addr(), "; if it requires TLS, write rediss:// for redis:// in the URL", nil},
		{"rediss://" + encrypted.Addr(), "; name the certificate of its authority by --redis-ca-file, and use the host's name in the certificate", nil},
		{"redis://" + site.Listener.Addr().String(), "; it is not a Redis: check host and port", nil},
		{"rediss://" + demanding.Addr(), "name one by --redis-cert-file and --redis-key-file", trusting},
	} {
		err := redisconn.Ready(t.Context(), open(t, redisconn.Config{URL: tt.url, TLS: tt.tls}))
		if (err == nil) != (tt.want == "") || err != nil && !strings.HasSuffix(err.Error(), tt.want) {
			t.Errorf("%s: %v, want the end %q", tt.url, err, tt.want)
		}
	}
}

// fake answers PING, and one command as it is told.
func fake(t *testing.T, command string, answer server.Cmd) (addr string) {
	t.Helper()
	s, err := server.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	for name, f := range map[string]server.Cmd{
		"PING":  func(c *server.Peer, _ string, _ []string) { c.WriteInline("PONG") },
		command: answer,
	} {
		if err := s.Register(name, f); err != nil {
			t.Fatal(err)
		}
	}
	return s.Addr().String()
}

func TestCheckVersion(t *testing.T) {
	tests := []struct {
		info string
		want string // what the error says after the address, or empty
	}{
		{"# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n", ""},
		{"redis_version:6.2.0\r\n", ""},
		{"redis_version:6.2\r\n", ""},
		{"redis_version:10.0.1\r\n", ""},
		{"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n", ""},
		{"redis_version:6.0.16\r\n", ` is version "6.0.16": want 6.2 or newer`},
		{"redis_version:5.0.7\r\n", ` is version "5.0.7": want 6.2 or newer`},
		{"redis_version:6\r\n", ` is version "6": want 6.2 or newer`},
		{"redis_version:unstable\r\n", ""},
		{"# Server\r\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.info, func(t *testing.T) {
			addr := fake(t, "INFO", func(c *server.Peer, _ string, _ []string) { c.WriteBulk(tt.info) })
			err := redisconn.CheckVersion(t.Context(), open(t, redisconn.Config{URL: "redis://" + addr}))
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || err.Error() != "redis at "+addr+tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	t.Run("not allowed to ask", func(t *testing.T) {
		addr := fake(t, "INFO", func(c *server.Peer, _ string, _ []string) {
			c.WriteError("NOPERM this user has no permissions to run the 'info' command")
		})
		if err := redisconn.CheckVersion(t.Context(), open(t, redisconn.Config{URL: "redis://" + addr})); err != nil {
			t.Error(err)
		}
	})
}

// TestReadyAtANodeOfACluster checks that a URL for one Redis is refused at each node of a Cluster:
// commands would be answered by MOVED, depending on their keys.
func TestReadyAtANodeOfACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	for _, node := range cluster.Nodes {
		want := "redis at " + node.Addr + " is a node of a Redis Cluster: write redis-cluster:// for redis:// in the URL"
		err := redisconn.Ready(t.Context(), open(t, redisconn.Config{URL: node.URL()}))
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := redisconn.Ready(t.Context(), open(t, redisconn.Config{URL: cluster.URL()})); err != nil {
		t.Error(err)
	}
}

// A Sentinel that names a master: the client reaches the master's database with
// the user of the URL.
func TestSentinelNamesTheMaster(t *testing.T) {
	m := miniredis.RunT(t)
	m.RequireUserAuth("worker", "s3cret")
	var asked string
	addr := fake(t, "SENTINEL", func(c *server.Peer, _ string, args []string) {
		if strings.EqualFold(args[0], "get-master-addr-by-name") {
			asked = args[1]
			c.WriteStrings([]string{m.Host(), m.Port()})
			return
		}
		c.WriteLen(0)
	})
	client := open(t, redisconn.Config{URL: "redis-sentinel://worker@" + addr + "/main/3", Password: "s3cret"})
	if err := redisconn.Ready(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := m.DB(3).Get("k"); err != nil || got != "v" || asked != "main" {
		t.Errorf("database 3 of the master holds %q, %v; asked for %q", got, err, asked)
	}
}

func TestOpenDoesNotConnect(t *testing.T) {
	m := miniredis.RunT(t)
	for _, url := range []string{"redis://" + m.Addr(), "redis-cluster://" + m.Addr(),
		"redis-sentinel://" + m.Addr() + "/main"} {
		client, err := redisconn.ForServer(redisconn.Config{URL: url, PoolSize: 3})
		if err != nil {
			t.Fatal(err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := m.TotalConnectionCount(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}
