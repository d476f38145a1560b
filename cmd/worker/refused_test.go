package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// TestRedisRefusesWrites has Redis refuse the writes of an idle worker. The worker must not
// retry in a tight loop. It resumes when Redis accepts writes again, without an attempt used
// up. At maxmemory an operator can stop runs and delete data.
func TestRedisRefusesWrites(t *testing.T) {
	for _, tt := range []struct {
		name, code   string
		refuse, heal func(*testing.T, *redistest.Server)
		operable     bool
	}{
		{"maxmemory", "OOM", setting("maxmemory", "1"), setting("maxmemory", "0"), true},
		{"disk", "MISCONF", func(t *testing.T, s *redistest.Server) {
			// A directory of the snapshot's name: the snapshot cannot be written.
			if err := os.MkdirAll(filepath.Join(s.Dir, "dump.rdb", "in the way"), 0o700); err != nil {
				t.Fatal(err)
			}
			setting("save", "3600 1")(t, s)
			if err := s.Client().BgSave(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}, setting("save", ""), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inProcesses(t)
			t.Parallel()
			server := redistest.Start(t)
			admin := server.Client()
			f := assembleOn(desk{t, admin, ledger.New(admin)}, server.URL())
			f.work("one")
			write(t, filepath.Join(f.dir, "waiting.csv"), f.waiting())
			for _, run := range []string{"held", "cancelled", "over"} {
				f.typed("domains", "verify", "--run", run, filepath.Join(f.dir, "waiting.csv"))
			}
			f.typed("runs", "cancel", "over")
			await(t, "the checks", func() bool { return f.reasons("held")[0] != "" && f.reasons("cancelled")[0] != "" })

			if tt.operable {
				f.slow(0, 5000) // long enough for memory to run out before the PATCH's answer
				_, rows := fetch(t, http.MethodGet, f.authURL+"/_sandbox/rows/updates.csv?n=1", "")
				write(t, filepath.Join(f.dir, "underway.csv"), rows)
				row := f.rowsOf("underway.csv")[0]
				record := func() sandbox.Domain { return domainsOf(f.state())[row[0]+" "+row[1]] }
				former := record()
				f.typed("domains", "update", "--run", "underway", filepath.Join(f.dir, "underway.csv"))
				await(t, "the PATCH", func() bool { return !cmp.Equal(former, record()) })
			}
			tt.refuse(t, server)
			if tt.operable && f.run("underway").Ended() {
				t.Error("the row was settled before: the test shows nothing")
			}
			await(t, "a write to be refused", func() bool {
				return redis.HasErrorPrefix(admin.Set(t.Context(), "probe", 1, 0).Err(), tt.code)
			})
			if tt.operable {
				if r := f.ended("underway"); r.Counts["done"] != 1 {
					t.Errorf("run underway: %+v", r)
				}
				await(t, "the acknowledgement", func() bool {
					return admin.LLen(t.Context(), "asynq:{"+engine.Queue(tasks.DefaultTenant)+"}:active").Val() == 0
				})
				f.quick()
			}
			const quiet = 10 // seconds
			before := commandsOf(t, admin)
			time.Sleep(quiet * time.Second)
			// Commands within scripts count too. A server of asynq sends about 70 a second,
			// and sent thousands when the worker did not wait. A slow machine sends fewer.
			if n := commandsOf(t, admin) - before; n < quiet || n > 100*quiet {
				t.Errorf("%d commands of the worker within %d s, want %d to %d", n, quiet, quiet, 100*quiet)
			}
			if tt.operable {
				f.typed("runs", "pause", "held")
				f.typed("runs", "cancel", "cancelled")
				f.typed("runs", "delete", "over")
				f.typed("runs", "list")
				if r := f.run("cancelled"); !r.Ended() || r.Counts["cancelled"] != 1 {
					t.Errorf("run cancelled: %+v", r)
				}
			}

			tt.heal(t, server)
			if tt.operable {
				f.typed("runs", "resume", "held")
			}
			f.enqueueAll(20)()
			f.awaitEnds()
			if most, seen := attempts(f.log("one")); most != 0 || seen == 0 {
				t.Errorf("of %d tasks one has used up %d attempts", seen, most)
			}
		})
	}
}

func setting(name, value string) func(*testing.T, *redistest.Server) {
	return func(t *testing.T, s *redistest.Server) {
		t.Helper()
		if err := s.Client().ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// commandsOf returns the number of commands that Redis has had, also within scripts, without
// INFO, which is the test's.
func commandsOf(t *testing.T, admin *redis.Client) (all int) {
	t.Helper()
	info, err := admin.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		name, figures, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "cmdstat_"), ":")
		if !ok || name == "info" {
			continue
		}
		for figure := range strings.SplitSeq(figures, ",") {
			if text, calls := strings.CutPrefix(figure, "calls="); calls {
				n, err := strconv.Atoi(text)
				if err != nil {
					t.Fatal(err)
				}
				all += n
			}
		}
	}
	return all
}
