package main

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"orgops/internal/redisconn"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
)

// atFirstPing does something when Redis is asked for a sign of life.
type atFirstPing struct {
	once sync.Once
	do   func()
}

func (h *atFirstPing) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *atFirstPing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *atFirstPing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "ping" {
			h.once.Do(h.do)
		}
		return next(ctx, cmd)
	}
}

// TestAFailedStart stops all that has started, and leaves the tenants as they are: what
// runs besides reads them until it ends.
func TestAFailedStart(t *testing.T) {
	box := startBox(t, sandbox.Options{})
	w, err := newWorker(t.Context(), settings{HTTPAddr: off, ProbeAddr: off}, redisconn.Config{URL: redistest.URL(t), AllowURLPassword: true}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	var tenants []tenant
	for _, name := range []string{"one", "two"} {
		one := sandboxTenant(box)
		one.Name = name
		if err := one.complete(func(string) string { return box.ClientSecret() }); err != nil {
			t.Fatal(err)
		}
		tenants = append(tenants, one)
	}
	w.redis.AddHook(&atFirstPing{do: func() { // so that it cannot be started again
		if err := w.tenants[1].start(); err != nil {
			t.Error(err)
		}
	}})
	err = w.work(t.Context(), tenants, func(context.Context) error {
		t.Error("it works")
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "start queue server") {
		t.Errorf("%v", err)
	}
	if len(w.tenants) != 2 {
		t.Errorf("%d tenants are left", len(w.tenants))
	}
	for _, one := range w.tenants {
		if err := one.start(); err == nil {
			t.Errorf("tenant %s was not stopped", one.name)
		}
	}
}
