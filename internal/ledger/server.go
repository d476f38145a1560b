package ledger

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server identifies a Redis server. It differs once the server may have forgotten writes: it
// consists of the first characters of run_id, which a restart changes, and of master_replid,
// which a failover changes. It is "" if the server does not report them.
type Server string

var identityScript = redis.NewScript(source("identity") + "return identity()")

// Server returns the server of a segment.
func (l *Ledger) Server(ctx context.Context, seg Segment) (Server, error) {
	a, err := l.onSegment(ctx, serverScript, seg)
	if err != nil {
		return "", fmt.Errorf("segment %s: identify its server: %w", seg, err)
	}
	return Server(a.text(1)), nil
}

// FirstSeen returns when FirstSeen was first called for the server, by whichever process, in
// Redis' time. It is zero for a server that was there before the first run: it has forgotten
// nothing.
func (l *Ledger) FirstSeen(ctx context.Context, s Server) (time.Time, error) {
	a, err := l.do(ctx, seenScript, []string{serversKey}, []any{string(s)})
	if err != nil {
		return time.Time{}, fmt.Errorf("read when Redis' server was first seen: %w", err)
	}
	return fromMillis(a.int(1)), nil
}

// servers returns the server of each master.
func (l *Ledger) servers(ctx context.Context) (all []Server, err error) {
	cluster, ok := l.rdb.(*redis.ClusterClient)
	if !ok {
		s, err := identityScript.Run(ctx, l.rdb, nil).Text()
		return []Server{Server(s)}, err
	}
	var mu sync.Mutex
	err = cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		s, err := identityScript.Run(ctx, master, nil).Text()
		mu.Lock()
		defer mu.Unlock()
		all = append(all, Server(s))
		return err
	})
	return all, err
}
