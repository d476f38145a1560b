package console_test

import (
	"regexp"
	"strings"
	"testing"

	"orgops/tasks"
)

// TestBarByOutcome: the bar has a segment for each outcome, whose names and numbers are below it.
func TestBarByOutcome(t *testing.T) {
	d := newDesk(t)
	d.handIn("a", tasks.TypeVerify, domains(30))
	d.settle("a", "done", "", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	d.settle("a", "expired", "no TXT record", 12, 13)
	segments := regexp.MustCompile(`<rect class="([^"]*)"[^>]*><title>([^<]*)</title>`)
	for _, path := range []string{"/runs", "/runs/a"} {
		page := d.get(path)
		var have []string
		for _, segment := range segments.FindAllStringSubmatch(page, -1) {
			have = append(have, segment[1]+" "+segment[2])
		}
		if got := strings.Join(have, ", "); got != "plot-good 12 done, plot-bad 2 expired, open 16 open" {
			t.Errorf("%s: %s", path, got)
		}
		if text := plain(page); strings.Count(text, "12 done 2 expired 16 open") != 2 { // as titles, and below
			t.Errorf("%s: the bar has no legend:\n%s", path, text)
		}
	}
}
