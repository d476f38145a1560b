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

// BenchmarkStage stages and commits a run of b.N rows, from one goroutine, and reports
// the rows a second and the bytes of Redis for each.
//
//	go test -run '^$' -bench Stage -benchtime 1000000x ./internal/ledger
func BenchmarkStage(b *testing.B) {
	w := on(b, redistest.Start(b).Client())
	r := rand.New(rand.NewPCG(1, 2))
	before := usedMemory(b, w.rdb)
	s := w.fill(w.create("a"), nil)
	var row []byte
	b.ResetTimer()
	for range b.N {
		row = appendRow(row[:0], r)
		if err := s.Add(b.Context(), row); err != nil {
			b.Fatal(err)
		}
	}
	w.commit(s)
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(usedMemory(b, w.rdb)-before)/float64(b.N), "redis-B/row")
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

// BenchmarkLongestCommand reports the longest time for which one command blocks Redis
// while a run of b.N rows is staged, committed, released in part, paused, resumed,
// cancelled and deleted, and another, of which every row waits, is cancelled and
// deleted; and while the segments of such a run expire.
//
//	go test -run '^$' -bench LongestCommand -benchtime 1000000x ./internal/ledger
func BenchmarkLongestCommand(b *testing.B) {
	server := redistest.Start(b, "--slowlog-log-slower-than", "500", "--slowlog-max-len", "100000", "--latency-monitor-threshold", "1")
	w := on(b, server.Client())
	r := rand.New(rand.NewPCG(1, 2))
	submit := func(id ledger.RunID) ledger.Run {
		s := w.fill(w.create(id), nil)
		var row []byte
		for range b.N {
			row = appendRow(row[:0], r)
			if err := s.Add(b.Context(), row); err != nil {
				b.Fatal(err)
			}
		}
		return w.commit(s)
	}
	run := submit("a")
	for number := range run.Segments {
		if _, err := w.Release(b.Context(), segment(run, number), all); err != nil {
			b.Fatal(err)
		}
	}
	w.must(w.Pause, "a")
	w.must(w.Resume, "a")
	w.must(w.Cancel, "a")
	w.must(w.Finish, "a")
	w.must(w.Delete, "a")

	run = submit("b")
	n := min(run.Segments, 8)
	for number := range n {
		w.makeWait(segment(run, number), r)
	}
	w.must(w.Cancel, "b")
	w.must(w.Delete, "b")

	run = submit("c")
	for number := range n {
		seg := segment(run, number)
		w.refuseAll(seg)
		for _, part := range []string{"head", "chunks", "settled", "results"} {
			if err := w.rdb.PExpire(b.Context(), ledger.SegmentKey(seg, part), 50*time.Millisecond).Err(); err != nil {
				b.Fatal(err)
			}
		}
		time.Sleep(200 * time.Millisecond) // until they have expired: a benchmark, not a test
	}
	slowest := longest(b, w.rdb, 5)
	for _, e := range slowest {
		b.Logf("%d rows: %v: %.160q", b.N, e.Duration, e.Args)
	}
	if len(slowest) > 0 {
		b.ReportMetric(float64(slowest[0].Duration.Microseconds()), "max-us")
	}
	b.ReportMetric(float64(expireCycle(b, w.rdb).Microseconds()), "expire-us")
}

// makeWait makes every row of the segment wait, with a memo.
func (w *worker) makeWait(seg ledger.Segment, r *rand.Rand) {
	memo := make([]byte, 450)
	for {
		released, err := w.Release(w.t.Context(), seg, ledger.Quota{First: 1000})
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

// longest returns the n longest commands of the slow log, the longest first.
func longest(b *testing.B, rdb redis.UniversalClient, n int) []redis.SlowLog {
	b.Helper()
	entries, err := rdb.SlowLogGet(b.Context(), -1).Result()
	if err != nil {
		b.Fatal(err)
	}
	slices.SortFunc(entries, func(x, y redis.SlowLog) int { return int(y.Duration - x.Duration) })
	return entries[:min(n, len(entries))]
}

// expireCycle returns the longest that Redis has spent on expired keys at a time, 0 if
// that was always less than a millisecond.
func expireCycle(b *testing.B, rdb redis.UniversalClient) (d time.Duration) {
	b.Helper()
	for _, event := range []string{"expire-cycle", "expire-del"} {
		history, err := rdb.Do(b.Context(), "LATENCY", "HISTORY", event).Slice()
		if err != nil {
			b.Fatal(err)
		}
		for _, entry := range history {
			pair, _ := entry.([]any)
			if ms, ok := pair[1].(int64); ok {
				d = max(d, time.Duration(ms)*time.Millisecond)
			}
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
