package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"orgops/internal/logtest"
	"orgops/internal/redisconn"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/internal/tenant"
)

// TestSchemaIsReplaced replaces the version of the data in Redis while a worker runs.
func TestSchemaIsReplaced(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, stored string
		want         string // of the error; empty: the worker continues
		log          string
	}{
		{"newer", "5", "use a newer orgops", "stopping: the data in Redis was replaced"},
		{"no version", "what", "is this Redis orgops's own?", "stopping: the data in Redis was replaced"},
		{"emptied", "", "", ""},
		{"older version", "1", "redis holds data of version 1", "stopping: the data in Redis was replaced"},
	}
	box := startBox(t, sandbox.Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rdb := redistest.New(t)
			var log bytes.Buffer
			w, err := newWorker(t.Context(), settings{HTTPAddr: off, ProbeAddr: off},
				redisconn.Config{URL: redistest.URL(t), AllowURLPassword: true}, slog.New(slog.NewTextHandler(&log, nil)))
			if err != nil {
				t.Fatal(err)
			}
			defer w.close()
			w.schemaEvery = 10 * time.Millisecond
			one := sandboxTenant(box)
			if err := one.Complete(func(string) string { return box.ClientSecret() }); err != nil {
				t.Fatal(err)
			}
			errContinues := errors.New("it continues")
			err = w.work(t.Context(), []tenant.Settings{one}, func(ctx context.Context) error {
				if tt.stored == "" {
					redistest.Empty(t)
				} else {
					rdb.Set(ctx, "orgops:schema", tt.stored, 0)
				}
				for {
					select {
					case <-ctx.Done():
						return nil
					case <-time.After(10 * time.Millisecond):
					}
					if rdb.Get(ctx, "orgops:schema").Val() == "4" {
						return errContinues
					}
				}
			})
			if tt.want == "" && !errors.Is(err, errContinues) ||
				tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if !strings.Contains(log.String(), tt.log) || tt.log == "" && strings.Contains(log.String(), "was replaced") {
				t.Errorf("log, want %q:\n%s", tt.log, log.String())
			}
		})
	}
}

// TestSchemaCannotBeRead checks that an unreadable version is only logged.
func TestSchemaCannotBeRead(t *testing.T) {
	m := redistest.Mini(t)
	var log logtest.Buffer
	w, err := newWorker(t.Context(), settings{}, redisconn.Config{URL: "redis://" + m.Addr()},
		slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	w.schemaEvery = time.Millisecond
	m.SetError("NOPERM this user has no permissions") // go-redis would retry LOADING
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() { w.watchData(ctx, func(err error) { t.Errorf("it stops: %v", err) }) })
	await(t, "the log", func() bool { return strings.Contains(log.String(), "reading schema version and identities failed") })
}
