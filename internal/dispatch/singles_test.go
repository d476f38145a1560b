package dispatch_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/release"
	"orgops/internal/workers"
)

// TestRunNextToOpenSingles has two workers execute a run of quick rows, alone and next to single
// rows that are open for an hour: either ends, and all rows are there. It logs the times of both,
// and how often a dispatcher became active: next to 100,000 (ORGOPS_TEST_SINGLES) the second is to
// be at most a fifth longer, under one dispatcher. A machine that is busy lets leases expire.
func TestRunNextToOpenSingles(t *testing.T) {
	t.Parallel()
	singles := redistest.Given("ORGOPS_TEST_SINGLES", redistest.Amount(300, 3_000))
	rows := max(900, singles*3/5)
	s := newSite(t)
	const quick, waiting ledger.Kind = "quick", "waiting"
	start := func(rank int) {
		s.start(func(o *options) {
			o.engine.Handlers[quick], o.engine.Handlers[waiting] = done, done
			o.dispatch.Kinds[quick], o.dispatch.Kinds[waiting] = release.Kind{}, release.Kind{}
			o.dispatch.Place = func() workers.Place { return workers.Place{Rank: rank, Workers: 2} }
		})
	}
	start(0)
	start(1)
	alone := s.carryOut("alone", quick, rows)

	var submitters errgroup.Group
	submitters.SetLimit(32)
	for i := range singles {
		submitters.Go(func() error {
			due := time.Now().Add(rand.N(time.Hour))
			_, _, err := s.SubmitRow(t.Context(), ledger.NewRun{ID: ledger.RunID(fmt.Sprint("single-", i)), Tenant: tenant,
				Kind: waiting, Control: ledger.Control{NotBefore: due}}, fmt.Appendf(nil, `{"n":%d}`, i))
			return err
		})
	}
	if err := submitters.Wait(); err != nil {
		t.Fatal(err)
	}
	beside := s.carryOut("beside", quick, rows)
	t.Logf("%d rows take %v, and %v next to %d open single rows: %.2f times as long; %d dispatchers became active",
		rows, alone, beside, singles, beside.Seconds()/alone.Seconds(), strings.Count(s.log.String(), "active=true"))
	all, err := s.All(t.Context(), tenant)
	if err != nil || len(all) != 2+singles {
		t.Errorf("%d runs, %v; want %d", len(all), err, 2+singles)
	}
	settled := 0
	for _, r := range all {
		if r.Single && r.Ended() != (r.Counts[ledger.Done] == 1) {
			t.Fatalf("%s: ended %v with counts %v", r.ID, r.Ended(), r.Counts)
		}
		settled += int(r.Counts[ledger.Done])
	}
	t.Logf("%d single rows became due and are settled", settled-2*rows)
}

// carryOut submits a run of a kind and waits for its end, each tenth of it for as long as a test
// has patience. All its rows are done.
func (s *site) carryOut(id ledger.RunID, kind ledger.Kind, rows int) time.Duration {
	s.t.Helper()
	begun := time.Now()
	s.submit(id, kind, make([][]byte, rows))
	for tenth := 1; tenth <= 10; tenth++ {
		s.await(fmt.Sprintf("%d tenths of the run %s", tenth, id), func() bool {
			return s.run(id).Settled() >= int64(rows*tenth/10)
		})
	}
	if run := s.awaitEnd(id); run.Counts[ledger.Done] != int64(rows) {
		s.t.Errorf("counts of %s are %v, want %d done", id, run.Counts, rows)
	}
	return time.Since(begun)
}
