package serving

import (
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// lookEvery is how often files are looked at for a change: at requests, and
// seldom enough to cost nothing.
const lookEvery = 3 * time.Second

// Reloaded is what files hold, read again when one of them has changed. Where load
// returns an error, what was there before goes on to be used: whoever must not rely
// on that has load return a value that stands for it. Its methods may be called from
// any goroutine.
type Reloaded[T any] struct {
	files []string
	load  func() (T, error)
	log   *slog.Logger
	now   func() time.Time

	mu     sync.Mutex
	value  T
	looked time.Time
	seen   []os.FileInfo
}

// Read reads the files for the first time, by load; the logger is told when that is
// done again.
func Read[T any](load func() (T, error), log *slog.Logger, now func() time.Time, files ...string) (*Reloaded[T], error) {
	r := &Reloaded[T]{files: files, load: load, log: log, now: now}
	r.looked, r.seen = now(), r.look()
	var err error
	r.value, err = load()
	return r, err
}

// Get is what the files hold.
func (r *Reloaded[T]) Get() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now().Sub(r.looked) < lookEvery {
		return r.value
	}
	r.looked = r.now()
	seen := r.look()
	if slices.EqualFunc(seen, r.seen, sameFile) {
		return r.value
	}
	r.seen = seen
	value, err := r.load()
	if err != nil {
		r.log.Error("changed file not usable: its former content stays in force", "files", r.files, "error", err)
		return r.value
	}
	r.log.Info("file reloaded", "files", r.files)
	r.value = value
	return value
}

// look says how the files are; nil stands for one that cannot be seen.
func (r *Reloaded[T]) look() []os.FileInfo {
	seen := make([]os.FileInfo, len(r.files))
	for i, name := range r.files {
		if info, err := os.Stat(name); err == nil {
			seen[i] = info
		}
	}
	return seen
}

func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.Mode() == b.Mode() && a.ModTime().Equal(b.ModTime())
}
