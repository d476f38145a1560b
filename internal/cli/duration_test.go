package cli_test

import (
	"bytes"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"orgops/internal/cli"
)

// durations are texts with the duration that they are; 0: none.
var durations = map[string]time.Duration{
	"90m": 90 * time.Minute, "36h": 36 * time.Hour, "1h30m": 90 * time.Minute, "-1h": -time.Hour,
	"14d": 14 * 24 * time.Hour, "1d12h": 36 * time.Hour, "0d5s": 5 * time.Second, "32767d": 32767 * 24 * time.Hour,
	"": 0, "d": 0, "14": 0, "soon": 0, "-1d": 0, "1d-1h": 0, "1.5d": 0, "1h1d": 0, "1d1d": 0, "40000d": 0,
	"32767d2500000h": 0,
}

func TestParseDuration(t *testing.T) {
	for text, want := range durations {
		got, err := cli.ParseDuration(text)
		if got != want || (err != nil) != (want == 0) {
			t.Errorf("ParseDuration(%q) = %s, %v, want %s", text, got, err, want)
		}
	}
}

// TestDurations reads them as flags, from variables, and as members of a file.
func TestDurations(t *testing.T) {
	for text, want := range durations {
		if text == "" || text[0] == '-' {
			continue
		}
		var flags struct {
			Wait  time.Duration
			Grace cli.Duration `default:"7d"`
		}
		p := cli.Program{
			Name: "p", Args: []string{"--wait", text}, Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{},
			Env: cli.NewEnvironment([]string{"ORGOPS_GRACE=" + text}),
		}
		_, _, err := p.Parse(&flags)
		if (err != nil) != (want == 0) || want != 0 && (flags.Wait != want || time.Duration(flags.Grace) != want) {
			t.Errorf("flags %q: %+v, %v", text, flags, err)
		}
		var file struct{ Grace cli.Duration }
		err = yaml.Unmarshal([]byte("a: 1\ngrace: "+text), &file)
		if (err != nil) != (want == 0) || time.Duration(file.Grace) != want {
			t.Errorf("file %q: %+v, %v", text, file, err)
		}
	}
}
