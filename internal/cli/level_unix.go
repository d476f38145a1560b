//go:build unix

package cli

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"syscall"
)

// SwitchLevelBySignal has SIGUSR1 log at debug level, and SIGUSR2 at the level that was
// set, until what it returns is called. Signals are the commands' business: notify and
// stop are those of os/signal.
func SwitchLevelBySignal(ctx context.Context, logger *slog.Logger, level *slog.LevelVar, notify func(chan<- os.Signal, ...os.Signal), stop func(chan<- os.Signal)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	debug, back := make(chan os.Signal, 1), make(chan os.Signal, 1)
	notify(debug, syscall.SIGUSR1)
	notify(back, syscall.SIGUSR2)
	var ended sync.WaitGroup
	ended.Go(func() { SwitchLevel(ctx, logger, level, debug, back) })
	return func() {
		stop(debug)
		stop(back)
		cancel()
		ended.Wait()
	}
}
