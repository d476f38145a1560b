package ledger

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Identity returns a text that differs once the Redis server of a segment may have
// forgotten writes: its run_id, which a restart changes, and its master_replid, which a
// failover changes. It is "" if the server does not report them.
func (l *Ledger) Identity(ctx context.Context, seg Segment) (string, error) {
	server, err := l.server(ctx, segmentKey(seg, "head"))
	if err != nil {
		return "", fmt.Errorf("segment %s: find its server: %w", seg, err)
	}
	info, err := server.Info(ctx).Result()
	if err != nil {
		return "", fmt.Errorf("segment %s: identify its server: %w", seg, err)
	}
	run, replication := infoField(info, "run_id"), infoField(info, "master_replid")
	if run == "" || replication == "" {
		return "", nil
	}
	return run + "/" + replication, nil
}

// server returns a client of the server that has the key.
func (l *Ledger) server(ctx context.Context, key string) (redis.Cmdable, error) {
	cluster, ok := l.rdb.(*redis.ClusterClient)
	if !ok {
		return l.rdb, nil
	}
	return cluster.MasterForKey(ctx, key)
}

// infoField returns the value of a line name:value of an answer to INFO; "" if there is
// none.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
