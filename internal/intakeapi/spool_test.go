package intakeapi_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"orgops/internal/intakeapi"
)

// TestNextServer stops the server between 202 and the submission: the next one on
// the same spool completes the run.
func TestNextServer(t *testing.T) {
	w := newWorld(t)
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
	if r := w.sealed(run.Run); r.Total != 1200 || w.tasksOf("default.dns") != 1200 {
		t.Errorf("%d rows, %d tasks; want 1200 of each", r.Total, w.tasksOf("default.dns"))
	}
	w.eventually(func() bool { return len(w.spooled()) == 0 })
}

// TestNextServerAgain has the server end after the run was submitted, and before
// the spool knew: nothing is submitted twice.
func TestNextServerAgain(t *testing.T) {
	w := newWorld(t)
	release := w.server.HoldHandIns()
	run := w.submit("k", rows(3))
	left := map[string][]byte{}
	for _, name := range w.spooled() {
		text, err := os.ReadFile(filepath.Join(w.spool, name))
		if err != nil {
			t.Fatal(err)
		}
		left[name] = text
	}
	release()
	w.sealed(run.Run)
	w.stop()
	w.settle(run.Run, "done", "", 0)
	for name, text := range left {
		if err := os.WriteFile(filepath.Join(w.spool, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.start()
	w.eventually(func() bool { return len(w.spooled()) == 0 })
	if r := w.sealed(run.Run); r.Total != 3 || r.Settled != 1 || w.tasksOf("default.dns.fast") != 3 {
		t.Errorf("run %+v and %d tasks; want 3 rows, 1 settled, 3 tasks", r, w.tasksOf("default.dns.fast"))
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
