package ledger_test

import (
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

// TestUpgrade raises the version of data of the former one. What sweeps have stored stays: without
// it a domain whose record is gone would be unproven for ever.
func TestUpgrade(t *testing.T) {
	if os.Getenv("ORGOPS_TEST_REDIS_URL") == "" {
		t.Skip("the embedded Redis cannot DUMP a set: see ORGOPS_TEST_REDIS_URL")
	}
	redistest.Single(t, "the nodes of a Cluster are those of its client")
	rdb := redistest.New(t)
	l := ledger.New(rdb)
	ctx := t.Context()
	masters := []redis.Cmdable{rdb}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(rdb.Set(ctx, "orgops:schema", 3, 0).Err())
	must(rdb.Set(ctx, "orgops:v1:{watch:acme}:domain:ord_1", "state", time.Hour).Err())
	must(rdb.SAdd(ctx, "orgops:v1:{watch:acme}:watched", "ord_1").Err())
	must(rdb.HSet(ctx, "orgops:v3:{webhooks:acme}", "crm.gone", "entry").Err())
	must(rdb.ZAdd(ctx, "orgops:v3:{webhooks:acme}:crm", redis.Z{Score: 1, Member: "event"}).Err())

	// Not while a worker lives.
	worker := ledger.NewSessionID()
	_, err := l.Renew(ctx, ledger.Session{ID: worker})
	must(err)
	if moved, err := l.Upgrade(ctx, masters); err == nil || moved != 0 {
		t.Errorf("next to a worker: %d keys moved, %v", moved, err)
	}
	must(l.EndSession(ctx, worker))

	for _, want := range []int{4, 0} { // then nothing is left to do
		if moved, err := l.Upgrade(ctx, masters); err != nil || moved != want {
			t.Errorf("%d keys moved, %v; want %d", moved, err, want)
		}
	}
	if err := l.CheckSchema(ctx); err != nil {
		t.Error(err)
	}
	if left := rdb.PTTL(ctx, "orgops:v3:{tenant:acme}:watch:domain:ord_1").Val(); left <= 0 || left > time.Hour {
		t.Errorf("the state of the domain expires in %v", left)
	}
	if value := rdb.Get(ctx, "orgops:v3:{tenant:acme}:watch:domain:ord_1").Val(); value != "state" {
		t.Errorf("state %q", value)
	}
	if !rdb.SIsMember(ctx, "orgops:v3:{tenant:acme}:watch:watched", "ord_1").Val() ||
		rdb.HGet(ctx, "orgops:v3:{tenant:acme}:webhooks", "crm.gone").Val() != "entry" ||
		rdb.ZCard(ctx, "orgops:v3:{tenant:acme}:webhooks:crm").Val() != 1 {
		t.Errorf("keys %v", redistest.Keys(t, "*"))
	}
	for _, pattern := range []string{"orgops:v1:{watch:*", "orgops:v3:{webhooks:*"} {
		if old := redistest.Keys(t, pattern); len(old) > 0 {
			t.Errorf("old keys %v", old)
		}
	}
}
