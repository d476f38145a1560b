package sweep_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"orgops/internal/redistest"
	"orgops/internal/sweep"
)

// TestTallyIsBounded counts more operators than a tally has room for, since their names are
// untrusted. The tally stays bounded, counts the operators that it has and the states, and
// expires.
func TestTallyIsBounded(t *testing.T) {
	const most = 10_000
	rdb, ctx := redistest.New(t), t.Context()
	s := sweep.NewStore(rdb, "acme")
	count := func(domain int, words ...string) {
		t.Helper()
		ok, err := s.SetDomain(ctx, sweep.DomainWrite{ID: fmt.Sprint("d", domain), Value: []byte("{}"),
			Tick: 7, Counted: words})
		if err != nil || !ok {
			t.Fatalf("domain %d: %v, %v", domain, ok, err)
		}
	}
	for i := range 40 { // many in one command: fewer round trips
		var words []string
		for j := range most / 40 {
			words = append(words, fmt.Sprintf("operator:%d-%d", i, j))
		}
		count(i, words...)
	}
	count(100, "absent", "operator:0-0")
	count(101, "absent", "operator:one too many")
	tally, err := s.Counts(ctx, 7)
	if err != nil {
		t.Fatal(err)
	}
	if len(tally) != most+1 || tally["absent"] != 2 || tally["operator:0-0"] != 2 {
		t.Errorf("%d words, absent %d, operator:0-0 %d, want %d, 2 and 2", len(tally), tally["absent"],
			tally["operator:0-0"], most+1)
	}
	for _, key := range redistest.Keys(t, "*tally*") {
		if ttl := rdb.PTTL(ctx, key).Val(); ttl <= 0 || ttl > 32*24*time.Hour || !strings.Contains(key, "acme") {
			t.Errorf("%s expires in %v", key, ttl)
		}
	}
}
