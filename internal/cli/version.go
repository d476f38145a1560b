package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// Build describes the sources and tools of a build.
type Build struct {
	Version  string // "v1.2.3", "dev"
	Commit   string // hash; empty: not known
	Dirty    bool   // with uncommitted changes
	Go       string // "go1.26.0"
	Platform string // "linux/amd64"
}

// unreleased is the version where none was set.
const unreleased = "dev"

// ReadBuild returns the build from the values that the linker has set (-X main.version,
// main.commit; else "dev" and empty), and from Go's build information: the module's version of
// a `go install`, the commit of a build in a checkout.
func ReadBuild(version, commit string) Build {
	info, there := debug.ReadBuildInfo()
	if !there {
		info = new(debug.BuildInfo)
	}
	return buildOf(version, commit, info)
}

func buildOf(version, commit string, info *debug.BuildInfo) Build {
	b := Build{Version: version, Commit: commit, Go: cmp.Or(info.GoVersion, runtime.Version()),
		Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if version == unreleased && info.Main.Version != "" && info.Main.Version != "(devel)" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = cmp.Or(b.Commit, s.Value)
		case "vcs.modified":
			b.Dirty = s.Value == "true"
		}
	}
	return b
}

// String returns a line: "v1.2.3, commit 0123456789ab (dirty), go1.26.0, linux/amd64".
func (b Build) String() string {
	const short = 12
	commit := "unknown"
	if b.Commit != "" {
		commit = b.Commit[:min(len(b.Commit), short)]
	}
	if b.Dirty {
		commit += " (dirty)"
	}
	return fmt.Sprintf("%s, commit %s, %s, %s", b.Version, commit, b.Go, b.Platform)
}
