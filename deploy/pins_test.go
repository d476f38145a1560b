package deploy

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestActionsArePinned: each action of a workflow is named by its commit, with the version next
// to it, from which dependabot finds the next one. An action has one commit in all workflows.
func TestActionsArePinned(t *testing.T) {
	files, err := filepath.Glob("../.github/workflows/*.yml")
	if err != nil {
		t.Fatal(err)
	}
	uses := regexp.MustCompile(`(?m)^[ -]+uses:(.*)$`)
	pinned := regexp.MustCompile(`^ ([\w./-]+)@([0-9a-f]{40} # v\d+\.\d+\.\d+)$`)
	found := map[string]string{}
	for _, file := range files {
		for _, use := range uses.FindAllStringSubmatch(read(t, file), -1) {
			if strings.HasPrefix(use[1], " ./.github/workflows/") { // of this commit
				continue
			}
			action := pinned.FindStringSubmatch(use[1])
			if action == nil {
				t.Errorf("%s: got uses:%s, want ACTION@COMMIT # vX.Y.Z", file, use[1])
				continue
			}
			if other := found[action[1]]; other != "" && other != action[2] {
				t.Errorf("%s: %s is at %s, elsewhere at %s", file, action[1], action[2], other)
			}
			found[action[1]] = action[2]
		}
	}
	if len(found) < 3 {
		t.Errorf("found %d actions", len(found))
	}
}

// TestImagesArePinned: the images of others have a version and a digest. The image that builds
// the commands has the Go that the workflows take from go.mod, so that a release and its image
// have the same commands.
func TestImagesArePinned(t *testing.T) {
	image := regexp.MustCompile(`(?m)^(?:FROM (?:--\S+ )?| +image: )(\S+)`)
	pinned := regexp.MustCompile(`^[\w./-]+:v?\d+\.\d+\.\d+[\w-]*@sha256:[0-9a-f]{64}$`)
	found := 0
	for _, name := range image.FindAllStringSubmatch(read(t, "Dockerfile")+read(t, "compose.yaml"), -1) {
		if name[1] == "scratch" || name[1] == "orgops" {
			continue
		}
		if found++; !pinned.MatchString(name[1]) {
			t.Errorf("got the image %s, want NAME:X.Y.Z@sha256:DIGEST", name[1])
		}
	}
	if found != 4 {
		t.Errorf("found %d images, want those of Go, Redis, Prometheus and Grafana", found)
	}
	toolchain := regexp.MustCompile(`(?m)^toolchain go(\S+)$`).FindStringSubmatch(read(t, "../go.mod"))
	if toolchain == nil || !strings.Contains(read(t, "Dockerfile"), " golang:"+toolchain[1]+"-") {
		t.Errorf("go.mod has the toolchain %q, which is not that of the Dockerfile's image", toolchain)
	}
}
