package redisconn_test

import (
	"crypto/tls"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"orgops/internal/redisconn"
)

// opened is what a client was made of, as far as it tells.
type opened struct {
	Kind     string // "single", "sentinel" or "cluster"
	Addrs    []string
	User     string
	Password string
	DB       int
	TLS      bool
}

func inspect(t *testing.T, client redis.UniversalClient) opened {
	t.Helper()
	t.Cleanup(func() { _ = client.Close() })
	secure := func(c *tls.Config) bool {
		if c != nil && (c.MinVersion < tls.VersionTLS12 || c.InsecureSkipVerify) {
			t.Errorf("TLS without verification, or older than 1.2: %+v", c)
		}
		return c != nil
	}
	switch c := client.(type) {
	case *redis.Client:
		o := c.Options()
		got := opened{"single", []string{o.Addr}, o.Username, o.Password, o.DB, secure(o.TLSConfig)}
		if o.Addr == "FailoverClient" {
			got.Kind, got.Addrs = "sentinel", nil
		}
		return got
	case *redis.ClusterClient:
		o := c.Options()
		return opened{"cluster", o.Addrs, o.Username, o.Password, 0, secure(o.TLSConfig)}
	}
	t.Fatalf("a client of type %T", client)
	return opened{}
}

func TestURLs(t *testing.T) {
	single := func(addr string) opened { return opened{Kind: "single", Addrs: []string{addr}} }
	with := func(o opened, change func(*opened)) opened { change(&o); return o }
	tests := []struct {
		url  string
		want opened
		mask string
	}{
		{"redis://127.0.0.1:6379/0", single("127.0.0.1:6379"), "redis://127.0.0.1:6379/0"},
		{"redis://cache", single("cache:6379"), "redis://cache:6379/0"},
		{"redis://cache/", single("cache:6379"), "redis://cache:6379/0"},
		{"redis://my_cache.example.com:7000/15", with(single("my_cache.example.com:7000"), func(o *opened) { o.DB = 15 }),
			"redis://my_cache.example.com:7000/15"},
		{"redis://[::1]", single("[::1]:6379"), "redis://[::1]:6379/0"},
		{"redis://[fe80::1]:7000/2", with(single("[fe80::1]:7000"), func(o *opened) { o.DB = 2 }),
			"redis://[fe80::1]:7000/2"},
		{"redis://worker@cache", with(single("cache:6379"), func(o *opened) { o.User = "worker" }),
			"redis://worker@cache:6379/0"},
		{
			"redis://worker:s3cret@cache/1", with(single("cache:6379"),
				func(o *opened) { o.User, o.Password, o.DB = "worker", "s3cret", 1 }), "redis://worker:***@cache:6379/1",
		},
		{"redis://:s3cret@cache", with(single("cache:6379"), func(o *opened) { o.Password = "s3cret" }),
			"redis://:***@cache:6379/0"},
		{"redis://w%40x:s3%2Fc%25@cache", with(single("cache:6379"), func(o *opened) { o.User, o.Password = "w@x", "s3/c%" }),
			"redis://w%40x:***@cache:6379/0"},
		{
			"redis://worker:a/b?c#d@e:f@cache:1/1", with(single("cache:1"),
				func(o *opened) { o.User, o.Password, o.DB = "worker", "a/b?c#d@e:f", 1 }), "redis://worker:***@cache:1/1",
		},
		{
			"redis://worker:s3+cret@cache", with(single("cache:6379"),
				func(o *opened) { o.User, o.Password = "worker", "s3+cret" }), "redis://worker:***@cache:6379/0",
		},
		{"redis://worker:@cache", with(single("cache:6379"), func(o *opened) { o.User = "worker" }),
			"redis://worker@cache:6379/0"},
		{
			"rediss://worker@cache:7000/3", with(single("cache:7000"),
				func(o *opened) { o.User, o.DB, o.TLS = "worker", 3, true }), "rediss://worker@cache:7000/3",
		},
		{"redis-sentinel://s1,s2:7,[::1]/main", opened{Kind: "sentinel"},
			"redis-sentinel://s1:26379,s2:7,[::1]:26379/main/0"},
		{"redis-sentinel://worker:s3cret@s1/main/4", opened{Kind: "sentinel", User: "worker", Password: "s3cret", DB: 4},
			"redis-sentinel://worker:***@s1:26379/main/4"},
		{"rediss-sentinel://s1/main", opened{Kind: "sentinel", TLS: true}, "rediss-sentinel://s1:26379/main/0"},
		{"redis-cluster://n1", opened{Kind: "cluster", Addrs: []string{"n1:6379"}}, "redis-cluster://n1:6379"},
		{"redis-cluster://worker:s3cret@n1,n2:7000/0", opened{Kind: "cluster", Addrs: []string{"n1:6379", "n2:7000"},
			User: "worker", Password: "s3cret"}, "redis-cluster://worker:***@n1:6379,n2:7000"},
		{"unix:///run/redis.sock", single("/run/redis.sock"), "unix:///run/redis.sock"},
		{"unix://worker:s3/cret@/run/redis.sock", with(single("/run/redis.sock"),
			func(o *opened) { o.User, o.Password = "worker", "s3/cret" }), "unix://worker:***@/run/redis.sock"},
		{"rediss-cluster://n1:1,n2:2/", opened{Kind: "cluster", Addrs: []string{"n1:1", "n2:2"}, TLS: true},
			"rediss-cluster://n1:1,n2:2"},
	}
	for _, tt := range tests {
		t.Run(tt.url, func(t *testing.T) {
			client, err := redisconn.Open(redisconn.Config{URL: tt.url, AllowURLPassword: true})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, inspect(t, client)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := redisconn.Mask(tt.url); got != tt.mask {
				t.Errorf("shown as %q, want %q", got, tt.mask)
			}
		})
	}
}

// In each of these URLs "s3cret" is, or might be, the password.
func TestURLsRefused(t *testing.T) {
	tests := []struct{ url, want, mask string }{
		{"", "it is empty: want a form such as redis://127.0.0.1:6379/0", "***"},
		{"cache:6379", "it has no scheme", "***"},
		{"user:s3cret@cache", "it has no scheme", "***"},
		{"s3cret://cache", "it has no scheme", "***"},
		{"http://user:s3cret@cache", `scheme "http": want redis, rediss, redis-sentinel, redis-cluster or unix`, "http://***"},
		{"unix://:s3cret", "want the path of a socket", "unix://***"},
		{"redis://", "it has no host", "redis://***"},
		{"redis:///0", "it has no host", "redis://***"},
		{"redis://user:s3cret@", "it has no host", "redis://***"},
		{"redis://:s3cret", "invalid host or port", "redis://***"},
		{"redis://user:s3cret", "invalid host or port", "redis://***"},
		{"redis://cache:0", "invalid host or port", "redis://***"},
		{"redis://cache:65536", "invalid host or port", "redis://***"},
		{"redis://cache:", "invalid host or port", "redis://***"},
		{"redis://::1", "invalid host or port", "redis://***"},
		{"redis://[::1", "invalid host or port", "redis://***"},
		{"redis://[cache]", "invalid host or port", "redis://***"},
		{"redis://[127.0.0.1]", "invalid host or port", "redis://***"},
		{"redis://[::1]7000", "invalid host or port", "redis://***"},
		{"redis://ca che", "invalid host or port", "redis://***"},
		{"redis://ca\nche", "invalid host or port", "redis://***"},
		{"redis://user:s3cret%zz@cache", "holds a % that begins no escape", "redis://***"},
		{"redis://s3cret%:x@cache", "holds a % that begins no escape", "redis://***"},
		{"redis://cache/zero", "invalid database number", "redis://***"},
		{"redis://cache/-1", "invalid database number", "redis://***"},
		{"redis://cache/0/1", "invalid database number", "redis://***"},
		{"redis://cache/s3cret", "invalid database number", "redis://***"},
		{"redis://cache?password=s3cret", "parameters (? or #) are not taken", "redis://***"},
		{"redis://cache/0#s3cret", "parameters (? or #) are not taken", "redis://***"},
		{"redis://a,b", "2 hosts: want one, or the scheme redis-sentinel or redis-cluster", "redis://***"},
		{"redis-sentinel://s1", "want the master's name after the Sentinels", "redis-sentinel://***"},
		{"redis-sentinel://s1/", "want the master's name", "redis-sentinel://***"},
		{"redis-sentinel://s1//0", "want the master's name", "redis-sentinel://***"},
		{"redis-sentinel://s1/main/x", "invalid database number", "redis-sentinel://***"},
		{"redis-sentinel://s1,,s2/main", "an empty one in its list", "redis-sentinel://***"},
		{"redis-cluster://n1/1", "a cluster has only database 0", "redis-cluster://***"},
	}
	for _, tt := range tests {
		t.Run(tt.url, func(t *testing.T) {
			client, err := redisconn.Open(redisconn.Config{URL: tt.url, AllowURLPassword: true})
			if err == nil || client != nil || !strings.Contains(err.Error(), tt.want) ||
				strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v, want it to say %q and no password", err, tt.want)
			}
			if got := redisconn.Mask(tt.url); got != tt.mask {
				t.Errorf("shown as %q, want %q", got, tt.mask)
			}
			if _, err := (redisconn.Flags{RedisURL: tt.url}).Config(false, nil); err == nil {
				t.Error("the flag is accepted")
			}
		})
	}
}

func TestPasswords(t *testing.T) {
	tests := []struct {
		name     string
		config   redisconn.Config
		password string
		want     string // what the error says, or empty
	}{
		{"none", redisconn.Config{URL: "redis://worker@cache"}, "", ""},
		{"beside the URL", redisconn.Config{URL: "redis://worker@cache", Password: "s3cret"}, "s3cret", ""},
		{"in a URL where it must not be", redisconn.Config{URL: "redis://worker:s3cret@cache"}, "",
			"set ORGOPS_REDIS_PASSWORD or ORGOPS_REDIS_PASSWORD_FILE"},
		{"in a URL where it may be", redisconn.Config{URL: "redis://worker:s3cret@cache", AllowURLPassword: true},
			"s3cret", ""},
		{"twice the same", redisconn.Config{URL: "redis://worker:s3cret@cache", Password: "s3cret", AllowURLPassword: true},
			"s3cret", ""},
		{"twice", redisconn.Config{URL: "redis://worker:s3cret@cache", Password: "s3cret2", AllowURLPassword: true},
			"", "give one of them"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for name, open := range map[string]func(redisconn.Config) (redis.UniversalClient, error){"Open": redisconn.Open,
				"ForServer": redisconn.ForServer} {
				client, err := open(tt.config)
				if tt.want != "" {
					if err == nil || client != nil || !strings.Contains(err.Error(), tt.want) ||
						strings.Contains(err.Error(), "s3cret") {
						t.Errorf("%s: got %v, want it to say %q and no password", name, err, tt.want)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if got := inspect(t, client); got.Password != tt.password || got.User != "worker" {
					t.Errorf("%s: user %q, password %q; want %q", name, got.User, got.Password, tt.password)
				}
			}
		})
	}
}

func FuzzMaskNeverShowsThePassword(f *testing.F) {
	for _, seed := range []string{"redis://worker:%s@cache/0", "redis-sentinel://:%s@a,b/m/1", "redis://%s", "%s",
		"redis://cache:%s", "redis://cache?p=%s", "x://%s@:%s@@"} {
		f.Add(seed)
	}
	const secret = "S3CRET" // upper case: no scheme can hold it
	f.Fuzz(func(t *testing.T, form string) {
		text := strings.ReplaceAll(form, "%s", secret)
		// A user's name, a host or a master may be shown; whatever follows a colon
		// before the last @ may not.
		_, rest, ok := strings.Cut(text, "://")
		if !ok {
			rest = text
		}
		info := rest[:max(strings.LastIndex(rest, "@"), 0)]
		user, password, _ := strings.Cut(info, ":")
		if !strings.Contains(password, secret) || strings.Contains(user, secret) ||
			strings.Contains(rest[len(info):], secret) {
			return
		}
		if shown := redisconn.Mask(text); strings.Contains(shown, secret) {
			t.Errorf("%q is shown as %q", text, shown)
		}
		_, err := redisconn.Flags{RedisURL: text}.Config(true, nil)
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", text, err)
		}
	})
}
