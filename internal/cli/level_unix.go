//go:build unix

package cli

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"syscall"
)

// SwitchLevelBySignal makes SIGUSR1 set the log level to debug, and SIGUSR2 to the configured
// level, until end is called. Both are logged. notify and stop are those of os/signal, which
// only commands use.
func SwitchLevelBySignal(ctx context.Context, logger *slog.Logger, level *slog.LevelVar,
	notify func(chan<- os.Signal, ...os.Signal), stop func(chan<- os.Signal)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 8) // more at once may be lost
	notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	was := level.Level()
	var ended sync.WaitGroup
	ended.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case s := <-signals:
				if s == syscall.SIGUSR1 {
					level.Set(slog.LevelDebug)
					logger.InfoContext(ctx, "log level changed", "log_level", level.Level().String())
				} else {
					logger.InfoContext(ctx, "log level changed", "log_level", was.String()) // while it can be seen
					level.Set(was)
				}
			}
		}
	})
	return func() {
		stop(signals)
		cancel()
		ended.Wait()
	}
}
