package dispatch_test

import (
	"strings"
	"testing"
	"time"

	"orgops/internal/dispatch"
	"orgops/internal/engine"
	"orgops/internal/ledger"
)

// TestDamagedSegmentStopsNoOtherRun: the head of a segment has lost a field, so that the script
// which releases its rows fails. Rows of other runs are executed, and the log names the run.
func TestDamagedSegmentStopsNoOtherRun(t *testing.T) {
	t.Parallel()
	const kind ledger.Kind = "k"
	onSite(t, func(t *testing.T, s *site) {
		rows := [][]byte{[]byte(`{"n":1}`), []byte(`{"n":2}`), []byte(`{"n":3}`)}
		for _, id := range []ledger.RunID{"damaged", "damaged-too"} {
			run := s.submit(id, kind, rows)
			key := "orgops:v3:{tenant:" + string(tenant) + "}:" + string(run.Incarnation) + ".0:head"
			if n, err := s.rdb.HDel(t.Context(), key, "per").Result(); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		s.start(func(o *options) {
			o.dispatch.Kinds = map[ledger.Kind]dispatch.Kind{kind: {}}
			o.engine.Handlers = map[ledger.Kind]engine.Handler{kind: done}
		})
		time.Sleep(5 * time.Second)
		s.submit("good", kind, rows)
		time.Sleep(3 * time.Second)
		if run := s.run("good"); !run.Ended() {
			t.Errorf("the run good has not ended beside damaged ones: %+v", run.Counts)
		}
		if log := s.log.String(); !strings.Contains(log, "segment is damaged") || !strings.Contains(log, "run=damaged-too") {
			t.Error("the log does not name the damaged runs")
		}
	})
}
