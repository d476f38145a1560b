package main

import (
	"log/slog"
	"maps"
	"testing"

	"orgops/internal/engine"
	"orgops/internal/events"
	"orgops/internal/ledger"
	"orgops/internal/redisconn"
	"orgops/internal/redistest"
	"orgops/internal/release"
	"orgops/internal/sandbox"
	"orgops/tasks/handlers"
	"orgops/tasks/releases"
)

// TestKinds checks that a worker executes and releases each kind that is described, and that one
// which lacks a kind does not start, but says where it is to be added.
func TestKinds(t *testing.T) {
	box := startBox(t, sandbox.Options{})
	w, err := newWorker(t.Context(), settings{}, redisconn.Config{URL: redistest.URL(t), AllowURLPassword: true},
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	serveSandbox(t, w, box, "secret", 1)
	executed := w.handlers(w.tenants()[0], events.Notifier(nil))
	released := releases.Kinds(1)
	for _, test := range []struct {
		name   string
		forget func(executed map[ledger.Kind]engine.Handler, released map[ledger.Kind]release.Kind)
		want   string
	}{
		{"nothing", func(map[ledger.Kind]engine.Handler, map[ledger.Kind]release.Kind) {}, ""},
		{"the handler", func(executed map[ledger.Kind]engine.Handler, _ map[ledger.Kind]release.Kind) {
			delete(executed, handlers.Update)
		}, "kind domain:update is released and has no handler: add it to handlers in cmd/worker/execution.go, " +
			"or a scan to Handlers in internal/scan/handler.go"},
		{"the release", func(_ map[ledger.Kind]engine.Handler, released map[ledger.Kind]release.Kind) {
			delete(released, handlers.Update)
		}, "kind domain:update is described in package tasks and not released: add it to Kinds in " +
			"tasks/releases/releases.go\n" +
			"kind domain:update has a handler and is not released: add it to Kinds in tasks/releases/releases.go"},
		{"both", func(executed map[ledger.Kind]engine.Handler, released map[ledger.Kind]release.Kind) {
			delete(executed, handlers.Update)
			delete(released, handlers.Update)
		}, "kind domain:update is described in package tasks and not released: add it to Kinds in " +
			"tasks/releases/releases.go"},
		{"the release of a scan", func(_ map[ledger.Kind]engine.Handler, released map[ledger.Kind]release.Kind) {
			delete(released, ledger.ScanOf(handlers.Recheck))
		}, "kind domain:recheck:scan has a handler and is not released: add it to Kinds in tasks/releases/releases.go"},
	} {
		t.Run(test.name, func(t *testing.T) {
			executed, released := maps.Clone(executed), maps.Clone(released)
			test.forget(executed, released)
			got := ""
			if err := checkKinds(executed, released); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("error %q, want %q", got, test.want)
			}
		})
	}
}
