package cli_test

import (
	"runtime"
	"runtime/debug"
	"testing"

	"orgops/internal/cli"
)

func TestBuild(t *testing.T) {
	const hash = "0123456789abcdef0123456789abcdef01234567"
	checkout := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs.revision", Value: hash}, {Key: "vcs.modified", Value: modified}}
	}
	platform := ", go1.26.0, " + runtime.GOOS + "/" + runtime.GOARCH
	for _, tc := range []struct {
		name, version, commit, module string
		settings                      []debug.BuildSetting
		want                          string
	}{
		{"go install", "dev", "", "v1.2.3", nil, "v1.2.3, commit unknown"},
		{"go build in a checkout", "dev", "", "(devel)", checkout("false"), "dev, commit 0123456789ab"},
		{"with changes", "dev", "", "(devel)", checkout("true"), "dev, commit 0123456789ab (dirty)"},
		{"a release", "v1.2.3", hash, "(devel)", nil, "v1.2.3, commit 0123456789ab"},
		{"what is linked in goes before", "v1.2.3", "abc", "v9.9.9", checkout("false"), "v1.2.3, commit abc"},
	} {
		info := &debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: tc.module}, Settings: tc.settings}
		if got := cli.BuildOf(tc.version, tc.commit, info).String(); got != tc.want+platform {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want+platform)
		}
	}
}
