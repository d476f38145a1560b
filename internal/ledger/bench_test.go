package ledger_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
	"orgops/internal/redistest"
)

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// appendID appends a random id of 20 to 26 characters, its prefix included.
func appendID(b []byte, name string, r *rand.Rand) []byte {
	end := len(b) + 20 + r.IntN(7)
	b = append(b, name...)
	for len(b) < end {
		b = append(b, letters[r.IntN(len(letters))])
	}
	return b
}

// appendRow appends a row of domains verify: two random ids.
func appendRow(b []byte, r *rand.Rand) []byte {
	b = appendID(b, "org_", r)
	b = append(b, ',')
	return appendID(b, "dom_", r)
}

// BenchmarkWaiting makes b.N rows wait, with a record and evidence of 150 to 450 bytes,
// and reports the bytes of Redis for each, the row itself included, and how many are
// released, begun and made to wait a second.
//
//	go test -run '^$' -bench Waiting -benchtime 100000x ./internal/ledger
func BenchmarkWaiting(b *testing.B) {
	w := on(b, redistest.Start(b).Client())
	r := rand.New(rand.NewPCG(1, 2))
	before := usedMemory(b, w.rdb)
	s := w.fill(w.create("a"), nil)
	for range b.N {
		if err := s.Add(b.Context(), appendRow(nil, r)); err != nil {
			b.Fatal(err)
		}
	}
	run := w.commit(s)
	memo := make([]byte, 450)
	sum := 0
	b.ResetTimer()
	for number := range run.Segments {
		seg := segment(run, number)
		for {
			released, err := w.Release(b.Context(), seg, ledger.Quota{First: 100})
			if err != nil {
				b.Fatal(err)
			}
			if len(released.Rows) == 0 {
				break
			}
			for _, row := range released.Rows {
				e := w.begin(seg, released.Token, row.Row)
				size := memoSize(r)
				sum += size
				waiting := ledger.Waiting{Stage: ledger.StageCheck, After: time.Hour, Memo: memo[:size]}
				if _, err := w.Wait(b.Context(), seg, e.nonce, waiting, row.Row); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(usedMemory(b, w.rdb)-before)/float64(b.N), "redis-B/row")
	b.ReportMetric(float64(sum)/float64(b.N), "memo-B/row")
}

// memoSize returns the size of a record of about 100 bytes and evidence of about 150:
// one in ten is larger than 350 bytes.
func memoSize(r *rand.Rand) int {
	if r.IntN(10) == 0 {
		return 350 + r.IntN(100)
	}
	return 150 + r.IntN(200)
}

// BenchmarkBlocking reports for how long the longest command of an operation on a full
// segment blocks Redis, by Redis' slow log: the least, the median and the most of b.N
// operations. The slow log counts the time in which the server was not running, too: on
// a busy machine the least is nearest to the truth.
// Longer runs have more segments, not longer commands.
//
//	go test -run '^$' -bench Blocking -benchtime 15x ./internal/ledger
func BenchmarkBlocking(b *testing.B) {
	rows := func(n int) []ledger.Row {
		all := make([]ledger.Row, n)
		for i := range all {
			all[i] = ledger.Row(i)
		}
		return all
	}
	type state struct {
		*worker
		r     *rand.Rand
		run   ledger.Run
		seg   ledger.Segment
		e     execution
		token ledger.Token
	}
	queued := func(*state) {}
	begun := func(s *state) { // 250 rows of each of four executions
		for range 4 {
			r, err := s.Release(b.Context(), s.seg, all)
			if err != nil {
				b.Fatal(err)
			}
			s.e = s.begin(s.seg, r.Token, numbers(r)...)
		}
	}
	own := rows(1000)[750:]
	due := ledger.Waiting{Stage: ledger.StageCheck, Memo: make([]byte, 300)}
	tests := []struct {
		name    string
		prepare func(*state)
		do      func(*state) error
	}{
		{"release 250 rows", queued, func(s *state) error {
			_, err := s.Release(b.Context(), s.seg, all)
			return err
		}},
		{"begin 250 rows", func(s *state) {
			r, err := s.Release(b.Context(), s.seg, all)
			if err != nil {
				b.Fatal(err)
			}
			s.token = r.Token
		}, func(s *state) error {
			_, err := s.Begin(b.Context(), s.seg, ledger.Execution{Token: s.token, Nonce: ledger.NewNonce(), Session: s.session},
				rows(250)...)
			return err
		}},
		{"settle 250 rows with results", begun, func(s *state) error {
			result := ledger.Result{Outcome: "refused", Detail: strings.Repeat("x", 250)}
			_, err := s.Settle(b.Context(), s.seg, s.e.nonce, result, own...)
			return err
		}},
		{"let 250 rows wait", begun, func(s *state) error {
			_, err := s.Wait(b.Context(), s.seg, s.e.nonce, ledger.Waiting{Stage: ledger.StageCheck,
				Memo: make([]byte, 250)}, own...)
			return err
		}},
		{"reclaim 1000 rows", begun, func(s *state) error {
			_, _, err := s.Reclaim(b.Context(), s.seg, s.session)
			return err
		}},
		{"release 250 rows after 1000 lapsed", func(s *state) {
			begun(s)
			s.pass(s.seg, ledger.ExecutionLimit)
		}, func(s *state) error {
			_, err := s.Release(b.Context(), s.seg, all)
			return err
		}},
		{"stage", func(s *state) { s.run = s.create("other") }, func(s *state) error {
			rows := make([][]byte, ledger.SegmentRows)
			for i := range rows {
				rows[i] = appendRow(nil, s.r)
			}
			_, err := s.Stage(b.Context(), s.run, 0, rows)
			return err
		}},
		{"cancel queued rows", queued, func(s *state) error { return s.Cancel(b.Context(), tenant, "a") }},
		{"cancel waiting rows", func(s *state) { s.makeWait(s.seg, s.r) },
			func(s *state) error { return s.Cancel(b.Context(), tenant, "a") }},
		{"cancel with 1000 rows in progress", begun, func(s *state) error { return s.Cancel(b.Context(), tenant, "a") }},
		{"read rows", func(s *state) { s.makeWait(s.seg, s.r) }, func(s *state) error {
			_, err := s.Rows(b.Context(), s.seg, 1000, 250)
			return err
		}},
		{"read rows with memos of 2 KiB", func(s *state) {
			s.fillAll(s.seg, ledger.Waiting{Stage: ledger.StageCheck, Memo: make([]byte, 2<<10)})
		}, func(s *state) error {
			_, err := s.Rows(b.Context(), s.seg, 1000, 250)
			return err
		}},
		{"release 250 rows of all waiting", func(s *state) { s.fillAll(s.seg, due) }, func(s *state) error {
			_, err := s.Release(b.Context(), s.seg, all)
			return err
		}},
		{"release 250 of all waiting with intents, paused", func(s *state) {
			s.intendAll(s.seg)
			s.must(s.Pause, "a")
		}, func(s *state) error {
			_, err := s.Release(b.Context(), s.seg, all)
			return err
		}},
		{"begin 250 rows with memos and intents of 2 KiB", func(s *state) {
			s.fillAll(s.seg, ledger.Waiting{Stage: ledger.StageCheck, Memo: make([]byte, 2<<10)})
			r := s.releaseAny(s.seg, ledger.Quota{Check: 250})
			e := s.begin(s.seg, r.Token, numbers(r)...)
			s.intend(s.seg, e, strings.Repeat("x", 2<<10), numbers(r)...)
			s.end(s.seg, e, ledger.Ends(ledger.GiveBack{}, numbers(r)...)...)
			s.token = s.releaseAny(s.seg, ledger.Quota{Check: 250}).Token
		}, func(s *state) error {
			_, err := s.Begin(b.Context(), s.seg, ledger.Execution{Token: s.token, Nonce: ledger.NewNonce(), Session: s.session},
				rows(250)...)
			return err
		}},
		{"end 250 rows with memos of 2 KiB", begun, func(s *state) error {
			s.end(s.seg, s.e, ledger.Ends(ledger.Waiting{Stage: ledger.StageCheck, Memo: make([]byte, 2<<10)}, own...)...)
			return nil
		}},
		{"intend 250 rows with 2 KiB", begun, func(s *state) error {
			s.intend(s.seg, s.e, strings.Repeat("x", 2<<10), own...)
			return nil
		}},
		{"cancel all waiting with intents", func(s *state) { s.intendAll(s.seg) },
			func(s *state) error { return s.Cancel(b.Context(), tenant, "a") }},
		{"cancel all in progress", func(s *state) { s.beginAll(s.seg) },
			func(s *state) error { return s.Cancel(b.Context(), tenant, "a") }},
		{"cancel all released", func(s *state) { s.releaseAll(s.seg) },
			func(s *state) error { return s.Cancel(b.Context(), tenant, "a") }},
		{"reclaim none of all in progress", func(s *state) {
			s.beginAll(s.seg)
		}, func(s *state) error {
			_, _, err := s.Reclaim(b.Context(), s.seg, ledger.NewSessionID())
			return err
		}},
		{"reclaim all in progress", func(s *state) { s.beginAll(s.seg) }, func(s *state) error {
			_, _, err := s.Reclaim(b.Context(), s.seg, s.session)
			return err
		}},
		{"release after all lapsed", func(s *state) {
			s.beginAll(s.seg)
			s.pass(s.seg, ledger.ExecutionLimit)
		}, func(s *state) error {
			_, err := s.Release(b.Context(), s.seg, all)
			return err
		}},
		{"settle the last row after a cancel", func(s *state) {
			s.makeWait(s.seg, s.r)
			s.pass(s.seg, time.Hour)
			r := s.releaseAny(s.seg, ledger.Quota{Check: 1})
			s.e = s.begin(s.seg, r.Token, numbers(r)...)
			s.must(s.Cancel, "a")
		}, func(s *state) error {
			s.settle(s.seg, s.e, s.e.Rows[0].Row)
			return nil
		}},
		{"delete results", func(s *state) {
			s.refuseAll(s.seg)
			s.must(s.Finish, "a")
		}, func(s *state) error { return s.Delete(b.Context(), tenant, "a") }},
		{"expire results", func(s *state) { s.refuseAll(s.seg) }, func(s *state) error {
			// As the expiry of the segment does it: at once, in Redis' own thread.
			return s.rdb.Del(b.Context(), ledger.SegmentKey(s.seg, "results"), ledger.SegmentKey(s.seg, "chunks")).Err()
		}},
		{"expire waiting rows", func(s *state) { s.makeWait(s.seg, s.r) }, func(s *state) error {
			return s.rdb.Del(b.Context(), ledger.SegmentKey(s.seg, "check"), ledger.SegmentKey(s.seg, "values")).Err()
		}},
	}
	for _, tt := range tests {
		b.Run(tt.name, func(b *testing.B) {
			server := redistest.Start(b, "--slowlog-log-slower-than", "0", "--slowlog-max-len", "100000")
			s := &state{worker: on(b, server.Client()), r: rand.New(rand.NewPCG(1, 2))}
			var longest []time.Duration
			for range b.N {
				if err := s.rdb.FlushAll(b.Context()).Err(); err != nil {
					b.Fatal(err)
				}
				stager := s.fill(s.create("a"), nil)
				for range ledger.SegmentRows {
					if err := stager.Add(b.Context(), appendRow(nil, s.r)); err != nil {
						b.Fatal(err)
					}
				}
				s.run = s.commit(stager)
				s.seg = segment(s.run, 0)
				tt.prepare(s)
				s.rdb.SlowLogReset(b.Context())
				if err := tt.do(s); err != nil {
					b.Fatal(err)
				}
				longest = append(longest, longestCommand(b, s.rdb))
			}
			slices.Sort(longest)
			b.ReportMetric(float64(longest[0].Microseconds()), "min-us")
			b.ReportMetric(float64(longest[len(longest)/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(longest[len(longest)-1].Microseconds()), "max-us")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// makeWait makes every row of the segment wait, with a memo.
func (w *worker) makeWait(seg ledger.Segment, r *rand.Rand) {
	memo := make([]byte, 450)
	for {
		released, err := w.Release(w.t.Context(), seg, all)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(released.Rows) == 0 {
			return
		}
		e := w.begin(seg, released.Token, numbers(released)...)
		for _, row := range released.Rows {
			waiting := ledger.Waiting{Stage: ledger.StageCheck, After: time.Hour, Memo: memo[:memoSize(r)]}
			if _, err := w.Wait(w.t.Context(), seg, e.nonce, waiting, row.Row); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// releaseAny releases rows of any content.
func (w *worker) releaseAny(seg ledger.Segment, q ledger.Quota) ledger.Release {
	r, err := w.Release(w.t.Context(), seg, q)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// fillAll makes every row of the segment wait in the same way.
func (w *worker) fillAll(seg ledger.Segment, waiting ledger.Waiting) {
	for {
		released := w.releaseAny(seg, ledger.Quota{First: 250})
		if len(released.Rows) == 0 {
			return
		}
		e := w.begin(seg, released.Token, numbers(released)...)
		w.end(seg, e, ledger.Ends(waiting, numbers(released)...)...)
	}
}

// intendAll makes every row of the segment wait with an intent and a memo.
func (w *worker) intendAll(seg ledger.Segment) {
	for {
		released := w.releaseAny(seg, ledger.Quota{First: 250})
		if len(released.Rows) == 0 {
			return
		}
		e := w.begin(seg, released.Token, numbers(released)...)
		w.intend(seg, e, "PATCH something", numbers(released)...)
		w.end(seg, e, ledger.Ends(ledger.Waiting{Stage: ledger.StageCheck, Memo: make([]byte, 300)}, numbers(released)...)...)
	}
}

// releaseAll releases every row of the segment.
func (w *worker) releaseAll(seg ledger.Segment) {
	for len(w.releaseAny(seg, ledger.Quota{First: 250}).Rows) > 0 {
	}
}

// beginAll begins every row of the segment.
func (w *worker) beginAll(seg ledger.Segment) {
	for {
		released := w.releaseAny(seg, ledger.Quota{First: 250})
		if len(released.Rows) == 0 {
			return
		}
		w.begin(seg, released.Token, numbers(released)...)
	}
}

// refuseAll settles every row of the segment with a result.
func (w *worker) refuseAll(seg ledger.Segment) {
	for {
		released, err := w.Release(w.t.Context(), seg, ledger.Quota{First: 100})
		if err != nil {
			w.t.Fatal(err)
		}
		if len(released.Rows) == 0 {
			return
		}
		e := w.begin(seg, released.Token, numbers(released)...)
		result := ledger.Result{Outcome: "refused", Detail: strings.Repeat("x", 100), Evidence: make([]byte, 150)}
		if _, err := w.Settle(w.t.Context(), seg, e.nonce, result, numbers(released)...); err != nil {
			w.t.Fatal(err)
		}
	}
}

// longestCommand returns the time of the longest command in the slow log.
func longestCommand(b *testing.B, rdb redis.UniversalClient) (d time.Duration) {
	b.Helper()
	entries, err := rdb.SlowLogGet(b.Context(), -1).Result()
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range entries {
		if !strings.EqualFold(e.Args[0], "slowlog") { // clearing it takes long
			d = max(d, e.Duration)
		}
	}
	return d
}

func usedMemory(b *testing.B, rdb redis.UniversalClient) int64 {
	b.Helper()
	info, err := rdb.Info(b.Context(), "memory").Result()
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "used_memory:")
	digits, _, _ := strings.Cut(rest, "\r\n")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}
