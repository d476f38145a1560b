package ledger

import (
	"context"
	"fmt"
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
	a, err := l.onSegment(ctx, serverScript, seg)
	if err != nil {
		return Server{}, fmt.Errorf("segment %s: identify its server: %w", seg, err)
	}
	return Server{Identity: a.text(1), Staged: a.text(2)}, nil
}
