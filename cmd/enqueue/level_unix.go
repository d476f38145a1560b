//go:build unix

package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"orgops/internal/cli"
)

// switchLevel has SIGUSR1 log at debug level, and SIGUSR2 at the level that was set,
// until what it returns is called.
func switchLevel(ctx context.Context, logger *slog.Logger, level *slog.LevelVar) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	debug, back := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(debug, syscall.SIGUSR1)
	signal.Notify(back, syscall.SIGUSR2)
	var ended sync.WaitGroup
	ended.Go(func() { cli.SwitchLevel(ctx, logger, level, debug, back) })
	return func() {
		signal.Stop(debug)
		signal.Stop(back)
		cancel()
		ended.Wait()
	}
}
