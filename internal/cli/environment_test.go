package cli_test

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/cli"
)

func environ(env map[string]string) (all []string) {
	for name, value := range env {
		all = append(all, name+"="+value)
	}
	return all
}

func TestUnknownVariables(t *testing.T) {
	e := cli.NewEnvironment([]string{
		"PATH=/bin", "ORGOPS_RATE=2/s", "ORGOPS_RESOLVER=1.1.1.1", "ORGOPS_COLOUR=blue", "ORGOPS_ACME_SECRET=s",
		"ORGOPS_TEST_SEED=7", "ORGOPS_REDIS_URI=r", "nonsense",
	})
	if got := e.Get("ORGOPS_ACME_SECRET"); got != "s" { // as a tenants' file names one
		t.Errorf("got %q", got)
	}
	want := []string{
		"ORGOPS_COLOUR is not a setting",
		"ORGOPS_REDIS_URI is not a setting (did you mean ORGOPS_REDIS_URL?)",
		"ORGOPS_RESOLVER is not a setting (did you mean ORGOPS_RESOLVERS?)",
	}
	if diff := cmp.Diff(want, e.Unknown()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var log bytes.Buffer
	cli.Program{Env: e}.WarnOfVariables(slog.New(slog.NewTextHandler(&log, nil)), false)
	if n := bytes.Count(log.Bytes(), []byte("level=WARN")); n != len(want) {
		t.Errorf("%d warnings: %s", n, &log)
	}
}
