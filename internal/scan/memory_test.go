package scan_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"orgops/internal/ledger"
)

// memory is a ledger in memory, whose clock a test sets.
type memory struct {
	mu   sync.Mutex
	time time.Time
	runs map[ledger.RunID]*stored
	// ticks has the clock run by itself too.
	ticks bool
	// lists and nows count calls of OpenRuns and Now.
	lists, nows int
}

// stored is a run.
type stored struct {
	ledger.Run
	cursor      []byte
	found       []ledger.FoundRow
	rows        []ledger.FoundRow // that are committed
	committedAt time.Time
}

func newMemory(now time.Time) *memory {
	return &memory{time: now, runs: map[ledger.RunID]*stored{}}
}

func (m *memory) create(id ledger.RunID, kind ledger.Kind, progress []byte) ledger.Run {
	m.mu.Lock()
	defer m.mu.Unlock()
	run := ledger.Run{
		ID: id, Incarnation: ledger.Incarnation(fmt.Sprint("incarnation", len(m.runs), m.time.UnixNano())),
		Tenant: tenant, Kind: kind,
		Growing: true, CreatedAt: m.time, CommittedAt: m.time, Scan: &ledger.Scan{Step: 1, Progress: progress},
	}
	m.runs[id] = &stored{Run: run}
	return run
}

// change changes a run as a command does.
func (m *memory) change(id ledger.RunID, f func(*stored)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m.runs[id])
}

func (m *memory) delete(id ledger.RunID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.runs, id)
}

// read returns a copy of a run.
func (m *memory) read(id ledger.RunID) stored {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.runs[id]
	if r == nil {
		return stored{}
	}
	c := *r
	c.Scan = new(*r.Scan)
	return c
}

func (m *memory) advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.time = m.time.Add(d)
}

func (m *memory) Now(context.Context) (time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nows++
	if m.ticks {
		m.time = time.Now()
	}
	return m.time, nil
}

func (m *memory) listings() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lists
}

func (m *memory) OpenRuns(_ context.Context, t ledger.Tenant) (all []ledger.Run, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lists++
	for _, r := range m.runs {
		if r.Tenant == t && !r.Ended() {
			all = append(all, r.header())
		}
	}
	return all, nil
}

func (r *stored) header() ledger.Run {
	h := r.Run
	h.Scan = new(*r.Scan)
	return h
}

func (m *memory) Get(_ context.Context, id ledger.RunID) (ledger.Run, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.runs[id]
	if r == nil {
		return ledger.Run{}, ledger.ErrNotFound
	}
	return r.header(), nil
}

// of returns the run, or ErrNotFound.
func (m *memory) of(run ledger.Run) (*stored, error) {
	r := m.runs[run.ID]
	if r == nil || r.Incarnation != run.Incarnation {
		return nil, ledger.ErrNotFound
	}
	return r, nil
}

func (m *memory) ScanCursor(_ context.Context, run ledger.Run) (ledger.Scan, []byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.of(run)
	if err != nil {
		return ledger.Scan{}, nil, err
	}
	return *r.Scan, slices.Clone(r.cursor), nil
}

func (m *memory) AddStep(_ context.Context, run ledger.Run, s ledger.ScanStep) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.of(run)
	if err != nil {
		return false, err
	}
	for _, row := range s.Rows {
		if len(row.Content) > ledger.MaxFoundRow {
			return false, errors.New("row is too long")
		}
	}
	if r.Cancelled || r.Scan.Ended || r.Scan.Step != s.Number {
		return false, nil
	}
	*r.Scan = ledger.Scan{Step: s.Number + 1, Progress: s.Progress, Ended: s.Last}
	r.cursor, r.found = s.Cursor, append(r.found, s.Rows...)
	return true, nil
}

func (m *memory) NoteScan(_ context.Context, run ledger.Run, note string, next time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.of(run)
	if err != nil {
		return err
	}
	r.Scan.Note, r.Scan.NextAt = note, next
	return nil
}

// settling is how long Redis may lose rows that were committed.
const settling = 5 * time.Second

func (m *memory) CommitFound(_ context.Context, run ledger.Run) (ledger.Run, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.of(run)
	if err != nil {
		return ledger.Run{}, false, err
	}
	if len(r.found) > 0 && !r.Cancelled {
		r.rows, r.found = append(r.rows, r.found...), nil
		r.Segments++
		r.Rows = int64(len(r.rows))
		r.committedAt = m.time
	}
	left := m.time.Sub(r.committedAt) < settling
	if !left && r.Scan.Ended {
		r.Growing = false
	}
	return r.header(), left, nil
}
