package cli_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"orgops/internal/cli"
)

func TestDurationsInTheLog(t *testing.T) {
	for format, want := range map[string]string{"json": `"took":1.5}`, "text": "took=1.5s"} {
		var out bytes.Buffer
		log, err := cli.NewLogger(&out, "info", format)
		if err != nil {
			t.Fatal(err)
		}
		log.Info("task", "took", 1500*time.Millisecond)
		if got := strings.TrimSpace(out.String()); !strings.HasSuffix(got, want) {
			t.Errorf("%s: %s, want it to end in %s", format, got, want)
		}
	}
}
