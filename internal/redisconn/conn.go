package redisconn

import (
	"context"
	"crypto/tls"
	"errors"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Config says which Redis.
type Config struct {
	// URL is one of the forms of the package's documentation.
	URL string
	// Password is used with the URL's user, or without a user.
	Password string
	// AllowURLPassword lets the URL hold the password: where it comes from the
	// environment, not from a flag.
	AllowURLPassword bool
	// PoolSize is the most connections, per node of a Cluster. 0: ten per CPU.
	PoolSize int
}

// Open returns a client, without connecting: see [Ready]. Errors are about the
// URL and never hold the password.
func Open(c Config) (redis.UniversalClient, error) {
	t, err := check(c.URL, c.AllowURLPassword)
	if err != nil {
		return nil, err
	}
	switch {
	case t.password == "":
		t.password = c.Password
	case c.Password != "" && c.Password != t.password:
		return nil, errors.New("the URL contains a password, and another one is set: give one of them")
	}
	return t.client(c.PoolSize), nil
}

func (t target) client(poolSize int) redis.UniversalClient {
	o := &redis.UniversalOptions{
		Addrs:      t.hosts,
		MasterName: t.master,
		DB:         t.database,
		Username:   t.user,
		Password:   t.password,
		PoolSize:   poolSize,
		// Commands are retried, and dial each time: retrying the dial within that too
		// would make an unreachable Redis known after half a minute, not a second.
		DialerRetries: 1,
		// A caller's deadline holds for the network too, not for the pool alone.
		ContextTimeoutEnabled: true,
		// Notices of planned maintenance are of one vendor's cloud; asking for them
		// is a refused command on each new connection anywhere else.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		// So is telling the library's name: Redis knows that command from 7.2, and
		// refuses it to a user who has not been given it (deploy/redis).
		DisableIdentity: true,
	}
	if t.tls {
		// The server's name is taken from each address that is dialed.
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	switch t.scheme {
	case "redis-sentinel":
		return redis.NewFailoverClient(o.Failover())
	case "redis-cluster":
		return following(redis.NewClusterClient(o.Cluster()))
	}
	return redis.NewClient(o.Simple())
}

// following lets a Cluster's client ask who has which slots as soon as a node gives no answer.
// By itself it asks once a minute, and until then sends to the node that a replica has replaced.
func following(cluster *redis.ClusterClient) *redis.ClusterClient {
	cluster.OnNewNode(func(node *redis.Client) {
		node.AddHook(around(func(ctx context.Context, send func(context.Context) error) error {
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

// ForServer is Open for asynq's Server: the client's commands outlive their
// context. asynq acknowledges a task with a context that it cancels before it
// tries again what failed; thus a single lost reply would run a task that has
// succeeded a second time. Use a client of Open wherever a context must be able
// to end a command. After a dequeue that failed its queue is not polled for a
// second: asynq itself does not wait.
func ForServer(c Config) (redis.UniversalClient, error) {
	client, err := Open(c)
	if err != nil {
		return nil, err
	}
	client.AddHook(&polls{}) // around the other: waiting takes nothing of a command's time
	client.AddHook(around(outlive))
	return client, nil
}
