package ledger

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Server identifies the Redis server of a segment.
type Server struct {
	// Identity differs once the server may have forgotten writes: it consists of the first
	// characters of run_id, which a restart changes, and of master_replid, which a failover
	// changes. It is "" if the server does not report them.
	Identity string
	// Staged is the identity of the server when the segment was staged, or "".
	Staged string
}

// Complete reports whether the server has every write to the segment that it ever
// acknowledged.
func (s Server) Complete() bool { return s.Identity != "" && s.Identity == s.Staged }

// Server identifies the server of a segment.
func (l *Ledger) Server(ctx context.Context, seg Segment) (Server, error) {
	head := segmentKey(seg, "head")
	staged, err := l.rdb.HGet(ctx, head, "server").Result()
	if err != nil && !absent(err) {
		return Server{}, fmt.Errorf("segment %s: identify its server: %w", seg, err)
	}
	server, err := l.server(ctx, head)
	if err != nil {
		return Server{}, fmt.Errorf("segment %s: find its server: %w", seg, err)
	}
	info, err := server.Info(ctx).Result()
	if err != nil {
		return Server{}, fmt.Errorf("segment %s: identify its server: %w", seg, err)
	}
	return Server{Identity: identity(info), Staged: staged}, nil
}

// identity returns the identity of the server that gave this answer to INFO, as the
// script segment_stage.lua does.
func identity(info string) string {
	run, replication := infoField(info, "run_id"), infoField(info, "master_replid")
	if len(run) < identityHalf || len(replication) < identityHalf {
		return ""
	}
	return run[:identityHalf] + "/" + replication[:identityHalf]
}

// identityHalf is how many characters of each of its parts an identity has: 64 random
// bits, and short enough for Redis' compact form of the head.
const identityHalf = 16

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
