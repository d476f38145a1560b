package engine

import (
	"log/slog"

	"orgops/internal/ledger"
)

// levelOf returns the level at which an execution with that outcome is logged: info for
// the one line of a row that settles as it should, debug if it stays open as planned.
func levelOf(o ledger.Outcome) slog.Level {
	switch o {
	case ledger.Done, ledger.Cancelled, ledger.Unchanged, ledger.AtRisk:
		return slog.LevelInfo
	case ledger.NotYetFound, ledger.Paced, ledger.Stopping, ledger.Stopped, ledger.Isolated, ledger.Superseded:
		return slog.LevelDebug
	case ledger.Failed:
		return slog.LevelError
	}
	return slog.LevelWarn
}
