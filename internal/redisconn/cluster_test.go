package redisconn_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"orgops/internal/redisconn"
	"orgops/internal/redistest"
)

// TestClusterFailoverIsFollowed kills a master of a Cluster: a client writes to its replica as
// soon as that has taken over.
func TestClusterFailoverIsFollowed(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 1, "--cluster-node-timeout", "1000")
	client := open(t, redisconn.Config{URL: cluster.URL()})
	// Shorter than the minute after which go-redis asks by itself.
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	write := func() (failed int) {
		for i := range 30 { // to each of the masters
			if client.Set(ctx, "key-"+strconv.Itoa(i), "value", 0).Err() != nil {
				failed++
			}
		}
		return failed
	}
	if failed := write(); failed > 0 {
		t.Fatalf("%d writes failed on a new Cluster", failed)
	}
	cluster.Nodes[0].Kill()
	for failed := write(); failed > 0; failed = write() {
		if ctx.Err() != nil {
			t.Fatalf("%d of 30 writes fail long after the failover", failed)
		}
	}
}
