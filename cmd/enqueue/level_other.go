//go:build !unix

package main

import (
	"context"
	"log/slog"
)

// switchLevel does nothing where there are no signals to switch by.
func switchLevel(context.Context, *slog.Logger, *slog.LevelVar) (end func()) { return func() {} }
