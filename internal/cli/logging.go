package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"golang.org/x/term"

	"orgops/internal/untrusted"
)

// IsTerminal reports whether a reader or writer is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// NewLogger returns a logger to w, and its level, which may be changed at any time.
// level is debug, info, warn or error; format is json, text, or empty for text on a
// terminal and json elsewhere. In JSON a duration is a number of seconds.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, *slog.LevelVar, error) {
	l := new(slog.LevelVar)
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, nil, Usage(fmt.Errorf("log-level: want debug, info, warn or error, got %s", untrusted.Value(level)))
	}
	options := &slog.HandlerOptions{Level: l}
	if format == "text" || (format == "" && IsTerminal(w)) {
		return slog.New(slog.NewTextHandler(w, options)), l, nil
	}
	options.ReplaceAttr = inSeconds
	return slog.New(slog.NewJSONHandler(w, options)), l, nil
}

// inSeconds writes a duration as a number of seconds: JSON has no unit, and
// slog would count nanoseconds.
func inSeconds(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.Float64Value(a.Value.Duration().Seconds())
	}
	return a
}

// RedisLog logs the messages of go-redis at level debug: its commands return the same as
// errors. It is for [redis.SetLogger].
//
// [redis.SetLogger]: https://pkg.go.dev/github.com/redis/go-redis/v9#SetLogger
type RedisLog struct{ Logger *slog.Logger }

// Printf writes one line.
func (l RedisLog) Printf(ctx context.Context, format string, args ...any) {
	l.Logger.DebugContext(ctx, "redis client", "says", fmt.Sprintf(format, args...))
}
