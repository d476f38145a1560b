package cli

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/runs"
)

// Outlooks returns what Follow shows beside runs, asked at times of one's own.
func Outlooks(rdb redis.UniversalClient, ledger *runs.Ledger) func(context.Context, time.Time, []runs.Run) []Outlook {
	return newOracle(rdb, ledger).see
}

// WriteBelow is how a line below a bar is written.
var WriteBelow = writeBelow

// BuildOf is ReadBuild by what Go is said to have written down.
var BuildOf = buildOf
