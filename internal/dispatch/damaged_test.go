package dispatch_test

import (
	"strings"
	"testing"
	"time"

	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/release"
)

// TestUnreadableSegmentStopsNoOtherRun: the head of a segment has lost a field, so that the script
// which releases its rows fails, or is missing. Rows of other runs are executed, and the run and
// the log say why it makes no progress.
func TestUnreadableSegmentStopsNoOtherRun(t *testing.T) {
	t.Parallel()
	const kind ledger.Kind = "k"
	onSite(t, func(t *testing.T, s *site) {
		rows := [][]byte{[]byte(`{"n":1}`), []byte(`{"n":2}`), []byte(`{"n":3}`)}
		for _, id := range []ledger.RunID{"damaged", "missing"} {
			run := s.submit(id, kind, rows)
			key := "orgops:v3:{tenant:" + string(tenant) + "}:" + string(run.Incarnation) + ".0:head"
			lose := s.rdb.HDel(t.Context(), key, "per")
			if id == "missing" {
				lose = s.rdb.Del(t.Context(), key)
			}
			if n, err := lose.Result(); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		s.start(func(o *options) {
			o.dispatch.Kinds = map[ledger.Kind]release.Kind{kind: {}}
			o.engine.Handlers = map[ledger.Kind]engine.Handler{kind: done}
		})
		time.Sleep(5 * time.Second)
		s.submit("good", kind, rows)
		time.Sleep(3 * time.Second)
		if run := s.run("good"); !run.Ended() {
			t.Errorf("the run good has not ended beside damaged ones: %+v", run.Counts)
		}
		log := s.log.String()
		for _, id := range []ledger.RunID{"damaged", "missing"} {
			stuck := s.run(id).Stuck
			if stuck == nil || !strings.Contains(stuck.Why, "segment 0 of its rows is "+string(id)) {
				t.Errorf("the run %s does not say why it makes no progress: %+v", id, stuck)
			}
			if !strings.Contains(log, "run="+string(id)) {
				t.Errorf("the log does not name the run %s", id)
			}
		}
	})
}

// TestUnknownKindIsNoted: a run of a kind that only a newer worker knows says so.
func TestUnknownKindIsNoted(t *testing.T) {
	t.Parallel()
	onSite(t, func(t *testing.T, s *site) {
		s.submit("new", "domain:new", [][]byte{[]byte(`{"n":1}`)})
		s.start(func(*options) {})
		s.await("the run says why it makes no progress", func() bool {
			stuck := s.run("new").Stuck
			return stuck != nil && strings.Contains(stuck.Why, `does not know the kind "domain:new"`)
		})
	})
}

// TestUnwiredKindIsNoted: rows of a kind are released, but no worker has a handler for it.
func TestUnwiredKindIsNoted(t *testing.T) {
	t.Parallel()
	const kind ledger.Kind = "k"
	onSite(t, func(t *testing.T, s *site) {
		s.submit("unwired", kind, [][]byte{[]byte(`{"n":1}`)})
		s.start(func(o *options) { o.dispatch.Kinds = map[ledger.Kind]release.Kind{kind: {}} })
		s.await("the run says why it makes no progress", func() bool {
			stuck := s.run("unwired").Stuck
			return stuck != nil && strings.Contains(stuck.Why, `this worker does not know kind "k"`)
		})
	})
}
