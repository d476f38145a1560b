package intakeapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// spool is the directory of what was received and is not submitted yet. Nobody
// but the server's user can read it, and no two servers use one.
//
//	<random>.rows   rows, as they came but for gzip
//	<run>.json      a job: what they are to become; it names the rows' file
//	<run>.broken    a job that cannot be done; its rows are kept
//	<random>.part   a job that is not one yet
//	lock            held by the server
type spool struct {
	dir  string
	lock io.Closer
	// write writes to a file; tests have it fail.
	write func(f *os.File, p []byte) (int, error)
}

const (
	rowsSuffix   = ".rows"
	jobSuffix    = ".json"
	brokenSuffix = ".broken"
	partSuffix   = ".part"
)

// job is a submission that was received, as its file has it.
type job struct {
	Run         string        `json:"run"`
	Caller      string        `json:"caller"`
	Kind        string        `json:"kind"`
	Tenant      string        `json:"tenant"`
	Label       string        `json:"label,omitempty"`
	GiveUp      time.Duration `json:"give_up_ns,omitempty"`
	NotBefore   time.Time     `json:"not_before,omitzero"`
	SkipInvalid bool          `json:"skip_invalid,omitempty"`
	Ignore      []string      `json:"ignore,omitempty"`
	Digest      string        `json:"digest,omitempty"` // of the rows; they are the same still
	Rows        string        `json:"rows,omitempty"`   // name of their file
	Parent      string        `json:"parent,omitempty"` // of a retry, which has no rows of its own
	Outcomes    []string      `json:"outcomes,omitempty"`
	Received    time.Time     `json:"received"`
	Traceparent string        `json:"traceparent,omitempty"` // of the request, as it came

	refusal error         // of a retry
	begun   chan struct{} // closed when its run is there, or cannot be
	once    sync.Once
	err     error // why it cannot be, once begun is closed
}

// DefaultSpool is below the system's directory for temporary files, which may
// be empty after a restart of the machine.
func DefaultSpool() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("orgops-spool-%d", os.Getuid()))
}

// openSpool makes the directory, and the server its only user.
func openSpool(dir string) (*spool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("spool %s is not a directory", dir)
	}
	if err := private(info); err != nil {
		return nil, fmt.Errorf("spool %s: %w", dir, err)
	}
	lock, err := lockFile(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("spool %s: %w: another server may be using it: give each server its own --spool", dir, err)
	}
	return &spool{dir: dir, lock: lock, write: (*os.File).Write}, nil
}

func (s *spool) close() error { return s.lock.Close() }

// jobs are those that an earlier server has left. What it was only receiving
// is removed: nobody was told that it had been taken.
func (s *spool) jobs(log *slog.Logger) ([]*job, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	var left []*job
	wanted := map[string]bool{}
	for _, entry := range entries {
		if suffix := filepath.Ext(entry.Name()); suffix != jobSuffix && suffix != brokenSuffix {
			continue
		}
		j, err := s.readJob(entry.Name())
		if err != nil {
			log.Error("spooled submission not readable, left in the spool", "file", filepath.Join(s.dir, entry.Name()), "error", err)
			continue
		}
		wanted[j.Rows] = true
		if filepath.Ext(entry.Name()) == jobSuffix {
			left = append(left, j)
		}
	}
	for _, entry := range entries {
		suffix := filepath.Ext(entry.Name())
		if suffix == partSuffix || (suffix == rowsSuffix && !wanted[entry.Name()]) {
			if err := os.Remove(filepath.Join(s.dir, entry.Name())); err != nil {
				return nil, fmt.Errorf("spool: %w", err)
			}
		}
	}
	return left, nil
}

func (s *spool) readJob(name string) (*job, error) {
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		return nil, err
	}
	j := newJob()
	if err := json.Unmarshal(text, j); err != nil {
		return nil, err
	}
	if j.Rows != filepath.Base(j.Rows) && j.Rows != "" {
		return nil, fmt.Errorf("rows: %s is not a file name", shown(j.Rows))
	}
	return j, nil
}

func newJob() *job { return &job{begun: make(chan struct{})} }

// rows opens the rows of a job.
func (s *spool) rows(name string) (*os.File, error) { return os.Open(filepath.Join(s.dir, name)) }

// remove forgets a job that is done. The job goes first: rows without one are
// removed at the next start.
func (s *spool) remove(j *job) error {
	err := os.Remove(filepath.Join(s.dir, j.Run+jobSuffix))
	if j.Rows != "" {
		err = errors.Join(err, os.Remove(filepath.Join(s.dir, j.Rows)))
	}
	return err
}

// setAside keeps a job that cannot be done, for a person to look at.
func (s *spool) setAside(j *job) error {
	return os.Rename(filepath.Join(s.dir, j.Run+jobSuffix), filepath.Join(s.dir, j.Run+brokenSuffix))
}

// upload is what is being received.
type upload struct {
	spool *spool
	rows  *os.File // nil: there are none
	part  string   // the job's file before it is one
	kept  bool
}

// receive makes a file for rows.
func (s *spool) receive() (*upload, error) {
	rows, err := os.CreateTemp(s.dir, "*"+rowsSuffix)
	if err != nil {
		return nil, spoolProblem(err)
	}
	return &upload{spool: s, rows: rows}, nil
}

func (u *upload) Write(p []byte) (int, error) {
	n, err := u.spool.write(u.rows, p)
	if err != nil {
		err = spoolProblem(err)
	}
	return n, err
}

// name is that of the rows' file.
func (u *upload) name() string { return filepath.Base(u.rows.Name()) }

// stage brings rows and job to the disk. After that only a name is missing.
func (u *upload) stage(j *job) error {
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	part, err := os.CreateTemp(u.spool.dir, "*"+partSuffix)
	if err != nil {
		return spoolProblem(err)
	}
	u.part = part.Name()
	_, err = u.spool.write(part, text)
	if err == nil {
		err = part.Sync()
	}
	err = errors.Join(err, part.Close())
	if err == nil && u.rows != nil {
		err = u.rows.Sync()
	}
	if err != nil {
		return spoolProblem(err)
	}
	return nil
}

// publish makes of what was staged a job that outlives the server.
func (u *upload) publish(j *job) error {
	err := os.Rename(u.part, filepath.Join(u.spool.dir, j.Run+jobSuffix))
	if err != nil {
		return spoolProblem(err)
	}
	u.kept = true
	if err := syncDir(u.spool.dir); err != nil {
		return spoolProblem(err)
	}
	return nil
}

// end removes what was not published.
func (u *upload) end() {
	if u.rows != nil {
		_ = u.rows.Close()
	}
	if u.kept {
		return
	}
	if u.rows != nil {
		_ = os.Remove(u.rows.Name())
	}
	if u.part != "" {
		_ = os.Remove(u.part)
	}
}

// spoolProblem tells a disk that is full from one that is broken.
func spoolProblem(err error) *problem {
	status, detail := http.StatusServiceUnavailable, "The server cannot write to its disk; its log has the details. Nothing was submitted."
	if isFull(err) {
		status, detail = http.StatusInsufficientStorage, "The server's disk is full. Nothing was submitted; try again later."
	}
	p := newProblem(status, "spool", "%s", detail)
	p.cause, p.retryAfter = err, time.Minute
	return p
}
