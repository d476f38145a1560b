//go:build !unix

package cli

import (
	"context"
	"log/slog"
	"os"
)

// SwitchLevelBySignal does nothing: there are no such signals.
func SwitchLevelBySignal(context.Context, *slog.Logger, *slog.LevelVar, func(chan<- os.Signal, ...os.Signal),
	func(chan<- os.Signal)) (end func()) {
	return func() {}
}
