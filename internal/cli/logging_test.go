package cli_test

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/cli"
)

// TestSwitchLevel: what is told at debug is in the log while that is switched on.
func TestSwitchLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log, level, err := cli.NewLogger(&out, "warn", "text")
		if err != nil {
			t.Fatal(err)
		}
		var signals chan<- os.Signal
		notify := func(to chan<- os.Signal, _ ...os.Signal) { signals = to }
		end := cli.SwitchLevelBySignal(t.Context(), log, level, notify, func(chan<- os.Signal) {})
		tell := func(when string) {
			synctest.Wait()
			log.Debug("told", "when", when)
		}
		tell("before")
		signals <- syscall.SIGUSR1
		tell("while")
		signals <- syscall.SIGUSR1 // twice is as once
		signals <- syscall.SIGUSR2
		tell("after")
		end()
		var told []string
		for line := range strings.Lines(out.String()) {
			_, line, _ = strings.Cut(strings.TrimSpace(line), " ") // without its time
			told = append(told, line)
		}
		want := []string{`level=INFO msg="log level changed" log_level=DEBUG`, "level=DEBUG msg=told when=while",
			`level=INFO msg="log level changed" log_level=DEBUG`, `level=INFO msg="log level changed" log_level=WARN`}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}

func TestDurationsInTheLog(t *testing.T) {
	for format, want := range map[string]string{"json": `"took":1.5}`, "text": "took=1.5s"} {
		var out bytes.Buffer
		log, _, err := cli.NewLogger(&out, "info", format)
		if err != nil {
			t.Fatal(err)
		}
		log.Info("task", "took", 1500*time.Millisecond)
		if got := strings.TrimSpace(out.String()); !strings.HasSuffix(got, want) {
			t.Errorf("%s: %s, want it to end in %s", format, got, want)
		}
	}
}
