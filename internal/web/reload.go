package web

import (
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// statEvery is the least time between two tests of whether the files have changed.
const statEvery = time.Second

// Reloaded is a value that is read from files, and read again when one of them has changed.
// If load returns an error, the former value stays in force, or none if the error is a
// [WithoutValue], and the files are read again each second until they can be: the cause may have
// been a moment without file descriptors. Its methods may be called from any goroutine.
type Reloaded[T any] struct {
	files []string
	load  func() (T, error)
	log   *slog.Logger
	now   func() time.Time

	mu    sync.Mutex
	value T
	at    time.Time // of seen
	seen  []os.FileInfo
	fault string // of the last reading; empty: there was none
}

// WithoutValue is an error of load after which the former value must not stay in force.
type WithoutValue struct{ Err error }

func (e *WithoutValue) Error() string { return e.Err.Error() }

func (e *WithoutValue) Unwrap() error { return e.Err }

// Read reads the files for the first time, by load; later reads are logged.
func Read[T any](
	load func() (T, error), log *slog.Logger, now func() time.Time, files ...string,
) (*Reloaded[T], error) {
	r := &Reloaded[T]{files: files, load: load, log: log, now: now}
	r.at = now()
	r.seen = r.stat()
	var err error
	r.value, err = load()
	return r, err
}

// Get returns the value of the present files.
func (r *Reloaded[T]) Get() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now().Sub(r.at) < statEvery {
		return r.value
	}
	r.at = r.now()
	seen := r.stat()
	same := slices.EqualFunc(seen, r.seen, sameFile)
	if same && r.fault == "" {
		return r.value
	}
	r.seen = seen
	value, err := r.load()
	if err != nil {
		without, is := errors.AsType[*WithoutValue](err)
		if is {
			r.value = value
		}
		// A fault that lasts is logged once.
		switch known := same && r.fault == err.Error(); {
		case known:
		case is:
			r.log.Error("changed file not usable: nothing of its former content is in force", "files", r.files,
				"error", without.Err)
		default:
			r.log.Error("changed file not usable: its former content stays in force", "files", r.files, "error", err)
		}
		r.fault = err.Error()
		return r.value
	}
	r.fault = ""
	r.log.Info("file reloaded", "files", r.files)
	r.value = value
	return value
}

// stat returns the state of the files; nil for one that cannot be read.
func (r *Reloaded[T]) stat() []os.FileInfo {
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
