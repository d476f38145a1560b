package redisconn

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Config identifies a Redis.
type Config struct {
	// URL has one of the forms of the package's documentation.
	URL string
	// Password is used with the URL's user, or without a user.
	Password string
	// ReadPassword reads the password for each new connection instead; nil: Password counts.
	ReadPassword func() (string, error)
	// TLS is used if the URL has TLS; nil: the system's authorities count.
	TLS *tls.Config
	// AllowURLPassword permits a password in the URL, for one that comes from the environment
	// and not from a flag.
	AllowURLPassword bool
	// PoolSize is the largest number of connections, for each node of a Cluster. 0: ten per CPU.
	PoolSize int
}

// ForServer returns a client for asynq's Server, whose commands do not end with their
// contexts. asynq acknowledges a task with a context that it cancels before it retries a
// failed acknowledgement, so a single lost answer would execute a successful task a second
// time. After a failed dequeue the client polls that queue only once a second: asynq itself
// does not wait. Use a client of [Open] if a context must be able to end a command.
func ForServer(c Config) (redis.UniversalClient, error) {
	client, err := Open(c)
	if err != nil {
		return nil, err
	}
	client.AddHook(around(new(polls).send)) // outside of the other: waiting does not shorten a command's timeout
	client.AddHook(around(func(ctx context.Context, _ []redis.Cmder, send func(context.Context) error) error {
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), detachedTimeout)
		defer cancel()
		return send(own)
	}))
	return client, nil
}

// detachedTimeout bounds a command that its context cannot end: two attempts at a Redis that
// is silent for the 5 s after which go-redis gives up, and a third of the rest of a task's
// lease.
const detachedTimeout = 10 * time.Second

// Open returns a client, without connecting: see [Ready]. Errors are about the URL and never
// contain the password.
func Open(c Config) (redis.UniversalClient, error) {
	t, err := check(c.URL, c.AllowURLPassword)
	if err != nil {
		return nil, err
	}
	if c.ReadPassword != nil {
		if c.Password, err = c.ReadPassword(); err != nil {
			return nil, err
		}
	}
	switch {
	case t.password == "":
		t.password = c.Password
	case c.Password != "" && c.Password != t.password:
		return nil, errors.New("redis-url: the URL contains a password, and another one is set: give one of them")
	}
	return t.client(c), nil
}

func (t target) client(c Config) redis.UniversalClient {
	o := &redis.UniversalOptions{
		Addrs:      t.hosts,
		MasterName: t.master,
		DB:         t.database,
		Username:   t.user,
		Password:   t.password,
		PoolSize:   c.PoolSize,
		// Commands are retried, and dial each time. Retrying the dial as well would report an
		// unreachable Redis after half a minute instead of a second.
		DialerRetries: 1,
		// A caller's deadline holds for the network too, not only for the pool.
		ContextTimeoutEnabled: true,
		// Only one vendor's cloud announces maintenance. Elsewhere the request is a refused
		// command on each new connection.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		// Redis knows the command that names the library from 7.2 on, and refuses it to a
		// user without that right (deploy/redis).
		DisableIdentity: true,
	}
	if t.tls {
		// The server's name is taken from each address that is dialed.
		o.TLSConfig = cmp.Or(c.TLS, &tls.Config{MinVersion: tls.VersionTLS12})
	}
	if c.ReadPassword != nil && c.Password != "" {
		o.CredentialsProviderContext = func(context.Context) (string, string, error) {
			password, err := c.ReadPassword()
			return t.user, password, err
		}
	}
	switch t.scheme {
	case "redis-sentinel":
		return redis.NewFailoverClient(o.Failover())
	case "redis-cluster":
		return reloading(redis.NewClusterClient(o.Cluster()))
	}
	return redis.NewClient(o.Simple())
}

// reloading makes a Cluster's client read the nodes of the slots again after a command without
// an answer. go-redis itself reads them once a minute, and until then sends to the node that a
// replica has replaced.
func reloading(cluster *redis.ClusterClient) *redis.ClusterClient {
	cluster.OnNewNode(func(node *redis.Client) {
		node.AddHook(around(func(ctx context.Context, _ []redis.Cmder, send func(context.Context) error) error {
			err := send(ctx)
			_, answered := errors.AsType[redis.Error](err)
			if err != nil && !answered && !errors.Is(err, context.Canceled) && !errors.Is(err, redis.ErrClosed) {
				cluster.ReloadState(ctx) // in the background, at most five times a second
			}
			return err
		}))
	})
	return cluster
}

// Subscribe calls f with each message that is published on the channel, until ctx ends. f must
// not block. A message that is published while Redis cannot be reached is lost.
func Subscribe(ctx context.Context, rdb redis.UniversalClient, channel string, f func(message string)) {
	sub := rdb.Subscribe(ctx, channel)
	defer func() { _ = sub.Close() }()
	messages := sub.Channel()
	for {
		select {
		case <-ctx.Done():
			return
		case m, open := <-messages:
			if !open {
				return
			}
			f(m.Payload)
		}
	}
}

// Masters returns a client for each master of a Cluster; for any other Redis it returns rdb.
// The clients belong to rdb and must not be closed.
func Masters(ctx context.Context, rdb redis.Cmdable) (all []redis.Cmdable, err error) {
	cluster, ok := rdb.(*redis.ClusterClient)
	if !ok {
		return []redis.Cmdable{rdb}, nil
	}
	var mu sync.Mutex
	err = cluster.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, master)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find the masters of the Cluster: %w", err)
	}
	return all, nil
}
