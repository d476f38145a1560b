package intakeapi_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"orgops/internal/intake"
	"orgops/internal/intakeapi"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/runs"
)

// TestNextServer stops the server between 202 and the submission: the next one on
// the same spool completes the run.
func TestNextServer(t *testing.T) { eachKind(t, testNextServer) }

func testNextServer(t *testing.T, kind string) {
	w := newWorld(t)
	w.kind = kind
	release := w.server.HoldHandIns()
	run := w.submit("k", rows(1200))
	w.stop()
	release()
	if r, err := w.ledger.Get(t.Context(), run.Run); err != nil || r.Sealed {
		t.Fatalf("run %+v, %v; want it not submitted", r, err)
	}
	// What was only being received is nobody's.
	for _, name := range []string{"x.part", "x.rows"} {
		if err := os.WriteFile(filepath.Join(w.spool, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.start()
	if r := w.sealed(run.Run); r.Total != 1200 || w.enqueued(r, "default.dns") != 1200 {
		t.Errorf("%d rows, %d enqueued; want 1200 of each", r.Total, w.enqueued(r, "default.dns"))
	}
	w.eventually(func() bool { return len(w.spooled()) == 0 })
}

// TestNextServerAgain has the server end after the run was submitted, and before
// the spool knew: nothing is submitted twice.
func TestNextServerAgain(t *testing.T) { eachKind(t, testNextServerAgain) }

func testNextServerAgain(t *testing.T, kind string) {
	w := newWorld(t)
	w.kind = kind
	release := w.server.HoldHandIns()
	run := w.submit("k", rows(3))
	left := w.readSpool()
	release()
	w.sealed(run.Run)
	w.stop()
	w.settle(run.Run, "done", "", 0)
	w.writeSpool(left)
	w.start()
	w.eventually(func() bool { return len(w.spooled()) == 0 })
	if r := w.sealed(run.Run); r.Total != 3 || r.Settled != 1 || w.enqueued(r, "default.dns.fast") != 3 {
		t.Errorf("run %+v and %d rows enqueued; want 3 rows, 1 settled, 3 enqueued", r, w.enqueued(r, "default.dns.fast"))
	}
}

// TestNextServerRestoresRows has the server end before it read the commit back, and Redis
// lose rows.
func TestNextServerRestoresRows(t *testing.T) {
	w := newWorld(t)
	w.kind = "clients:remove"
	release := w.server.HoldHandIns()
	run := w.submit("k", rows(3))
	left := w.readSpool()
	release()
	w.sealed(run.Run)
	w.stop()
	for _, key := range redistest.Keys(t, "orgops:v2:{*.0}:*") {
		if err := w.rdb.Del(t.Context(), key).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := w.ledger.Core().Sync(t.Context(), ledger.RunID(run.Run)); err != nil || !r.Run.Control.Incomplete {
		t.Fatalf("%+v, %v; want it incomplete", r, err)
	}
	w.writeSpool(left)
	w.start()
	w.eventually(func() bool { return len(w.spooled()) == 0 })
	if stored, err := w.ledger.Rows(t.Context(), run.Run, 0, 10); err != nil || len(stored) != 3 {
		t.Errorf("%d rows, %v; want 3", len(stored), err)
	}
	if r := w.sealed(run.Run); r.Incomplete {
		t.Errorf("run %+v; want it whole", r)
	}
}

// TestOthersDoNotWaitForReadingBack: a submission whose rows are in, and are read back two
// seconds later since Redis may lose them, keeps no other from being submitted.
func TestOthersDoNotWaitForReadingBack(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes")
	rdb := server.Client()
	w := newWorld(t, func(c *intakeapi.Config) {
		c.Redis, c.Ledger = rdb, runs.New(rdb)
		c.Intake = intake.New(rdb, c.Ledger)
	})
	w.rdb, w.ledger, w.kind = rdb, w.config.Ledger, "clients:remove"
	run := w.submit("k", rows(3))
	w.sealed(run.Run)
	held, left := false, 0
	w.eventually(func() bool {
		left = len(w.spooled())
		held = held || w.server.TryHoldHandIns()
		return held || left == 0
	})
	if left == 0 {
		t.Error("others had to wait until it was read back")
	}
	w.eventually(func() bool { return len(w.spooled()) == 0 })
}

// readSpool returns the files of the spool.
func (w *world) readSpool() map[string][]byte {
	w.t.Helper()
	files := map[string][]byte{}
	for _, name := range w.spooled() {
		text, err := os.ReadFile(filepath.Join(w.spool, name))
		if err != nil {
			w.t.Fatal(err)
		}
		files[name] = text
	}
	return files
}

func (w *world) writeSpool(files map[string][]byte) {
	w.t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(w.spool, name), text, 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
}

func TestSpoiltSpool(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(t *testing.T, w *world, rows, job string)
		log   string
		left  string // ending of what stays in the spool; empty: nothing
	}{
		{"other rows", func(t *testing.T, _ *world, file, _ string) {
			if err := os.WriteFile(file, []byte(rows(2)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "stored rows differ from the received rows", ".broken"},
		{"bad rows", func(t *testing.T, _ *world, file, _ string) {
			if err := os.WriteFile(file, []byte(rows(2)+"x\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "stored rows are no longer valid", ".broken"},
		{"no rows", func(t *testing.T, _ *world, file, _ string) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}, "stored rows are no longer valid", ".broken"},
		{"a job that is none", func(t *testing.T, _ *world, _, job string) {
			if err := os.WriteFile(job, []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "spooled submission not readable", ".json"},
		{"rows elsewhere", func(t *testing.T, _ *world, _, job string) {
			if err := os.WriteFile(job, []byte(`{"run":"r","rows":"../../etc/passwd"}`), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "is not a file name", ".json"},
		{"a run that is long forgotten", func(t *testing.T, w *world, _, job string) {
			text, err := os.ReadFile(job)
			if err != nil {
				t.Fatal(err)
			}
			year := time.Now().UTC().Format("2006-")
			old := strings.Replace(string(text), `"received":"`+year, `"received":"2020-`, 1)
			if err := os.WriteFile(job, []byte(old), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := w.rdb.FlushDB(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}, "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			release := w.server.HoldHandIns()
			run := w.submit("k", rows(3))
			w.stop()
			release()
			file, err := filepath.Glob(filepath.Join(w.spool, "*.rows"))
			if err != nil || len(file) != 1 {
				t.Fatal(file, err)
			}
			test.spoil(t, w, file[0], filepath.Join(w.spool, run.Run+".json"))
			w.start()
			w.eventually(func() bool {
				left := w.spooled()
				if test.left == "" {
					return len(left) == 0
				}
				return strings.Contains(strings.Join(left, " "), test.left) && strings.Contains(w.log.String(), test.log)
			})
			if r, err := w.ledger.Get(t.Context(), run.Run); err == nil && r.Sealed {
				t.Errorf("run %+v; want it not submitted", r)
			}
		})
	}
}

func TestSpoolIsPrivate(t *testing.T) {
	w := newWorld(t)
	if info, err := os.Stat(w.spool); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v; want 0700", info.Mode(), err)
	}
	tests := []struct {
		name string
		make func(t *testing.T, dir string)
		want string
	}{
		{"open to others", func(t *testing.T, dir string) {
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}, "chmod 700"},
		{"a file", func(t *testing.T, dir string) {
			if err := os.WriteFile(dir, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "not a directory"},
		{"a link", func(t *testing.T, dir string) {
			if err := os.Symlink(t.TempDir(), dir); err != nil {
				t.Fatal(err)
			}
		}, "is not a directory"},
		{"another server's", func(t *testing.T, dir string) {
			other, err := intakeapi.New(intakeapi.Config{Spool: dir})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = other.Close() })
		}, "another server"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "spool")
			test.make(t, dir)
			_, err := intakeapi.New(intakeapi.Config{Spool: dir})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}
