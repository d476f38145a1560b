// Command replay plays the recorded exchanges of a vendor's own programs with its live service to
// this project's client: it sends each recorded request of an operation that the client has, gets
// the recorded answer, and must have sent the same and read the same.
//
//	go run -C .ci/replay .            the newest recordings, of the modules below
//	go run -C .ci/replay . DIR...     recordings in these directories
//
// The recordings are those of go-vcr, which the modules' tests have. They are read where the Go
// command puts modules, and nothing of them is copied. A module that cannot be downloaded is
// named, and fails the command. The exit status is 1 too if an exchange differs, or if there was
// none of an operation that is expected to be recorded.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"orgops/apiclient/schema"
)

// modules have recordings of the Management API. Version 2 of the SDK and later ones record only
// the endpoint of tokens.
var modules = []string{
	"github.com/auth0/go-auth0@latest",
	"github.com/auth0/terraform-provider-auth0@latest",
}

// recordings is the directory of a module's recordings.
const recordings = "test/data/recordings"

// expected are the operations that the modules record. They have no templates, no 429 and no errors
// of tokens.
var expected = []string{
	schema.OpListOrganizations,
	schema.OpListDiscoveryDomains,
	schema.OpGetDiscoveryDomain,
	schema.OpUpdateDiscoveryDomain,
	schema.OpRemoveOrganizationClients,
	anyError,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "replay:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dirs []string, out io.Writer) error {
	if len(dirs) == 0 {
		var err error
		if dirs, err = download(ctx, out); err != nil {
			return err
		}
	}
	replayed := map[string]int{}
	var differ []error
	for _, dir := range dirs {
		err := replayDirectory(ctx, dir, replayed)
		differ = append(differ, err)
	}
	for _, operation := range slices.Sorted(maps.Keys(replayed)) {
		fmt.Fprintf(out, "%4d exchanges of %s\n", replayed[operation], operation)
	}
	for _, operation := range expected {
		if replayed[operation] == 0 {
			differ = append(differ, fmt.Errorf("no exchange of %s is recorded", operation))
		}
	}
	return errors.Join(differ...)
}

// download returns the directories of the modules' recordings, in the Go command's cache.
func download(ctx context.Context, out io.Writer) (dirs []string, err error) {
	for _, module := range modules {
		c := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
		c.Dir = os.TempDir() // of no module, so that none gets a requirement
		var stderr bytes.Buffer
		c.Stderr = &stderr
		answer, failed := c.Output()
		var m struct{ Version, Dir, Error string }
		if err := json.Unmarshal(answer, &m); err != nil {
			return nil, fmt.Errorf("download %s: %w: %s", module, errors.Join(failed, err), stderr.String())
		}
		if m.Error != "" {
			return nil, fmt.Errorf("download %s: %s", module, m.Error)
		}
		path, _, _ := strings.Cut(module, "@")
		fmt.Fprintf(out, "%s %s\n", path, m.Version)
		dirs = append(dirs, filepath.Join(m.Dir, filepath.FromSlash(recordings)))
	}
	return dirs, nil
}

// replayDirectory replays every recording below dir, and counts the exchanges of each operation.
// Its error joins those of all exchanges that differ.
func replayDirectory(ctx context.Context, dir string, replayed map[string]int) error {
	var files []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Ext(path) == ".yaml" {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.Sort(files)
	var differ []error
	for _, path := range files {
		exchanges, err := read(path)
		if err != nil {
			differ = append(differ, err)
			continue
		}
		for _, x := range exchanges {
			operation, err := x.replay(ctx)
			if err != nil {
				differ = append(differ, fmt.Errorf("%s: exchange %d: %s %s: %w", path, x.ID, x.Request.Method, x.Request.URL, err))
			}
			if operation != "" {
				replayed[operation]++
			}
		}
	}
	return errors.Join(differ...)
}
