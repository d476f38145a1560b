package cli

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"orgops/internal/untrusted"
)

// ParseDuration reads a duration of flags, files and requests, as [time.ParseDuration] does, or
// with d for days of 24 hours before the other units: 14d, 1d12h.
func ParseDuration(text string) (time.Duration, error) {
	days, rest, hasDays := strings.Cut(text, "d")
	if !hasDays {
		days = "0"
		rest = text
	} else if rest == "" {
		rest = "0"
	}
	n, err := strconv.ParseUint(days, 10, 15) // 89 years
	d, wrong := time.ParseDuration(rest)
	whole := time.Duration(n) * 24 * time.Hour //nolint:gosec // it has 15 bits
	if err != nil || wrong != nil || (hasDays && (d < 0 || whole+d < whole)) {
		return 0, fmt.Errorf("want a duration such as 36h or 14d, got %s", untrusted.Value(text))
	}
	return whole + d, nil
}

// Duration is a duration in a settings file, and a flag, as [ParseDuration] reads it.
type Duration time.Duration

// String returns the duration in hours, minutes and seconds.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText returns the duration as String does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the duration.
func (d *Duration) UnmarshalText(text []byte) error {
	read, err := ParseDuration(string(text))
	*d = Duration(read)
	return err
}

// UnmarshalYAML reads the duration; the error names its line.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	if err := d.UnmarshalText([]byte(n.Value)); err != nil {
		return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: %v", n.Line, err)}}
	}
	return nil
}

// durations reads the flags that are durations.
var durations = kong.TypeMapper(reflect.TypeFor[time.Duration](),
	kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		var text string
		if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
			return err
		}
		d, err := ParseDuration(text)
		target.SetInt(int64(d))
		return err
	}))
