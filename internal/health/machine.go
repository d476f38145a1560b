package health

import (
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// Files tests which users may read the files of secrets. Those of a container are left out, since a
// user with another number has to read them and the container has no others; so are files in
// a directory that is closed to other users.
func Files(paths []string) []Finding {
	var found []Finding
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			found = append(found, wrong("check that it exists and that this user may read it", "secret file: %v", err))
			continue
		}
		if info.Mode()&0o004 != 0 && !closedToOthers(filepath.Dir(path)) {
			found = append(found, warn("have it owned by the worker's user, and then chmod o= "+path,
				"secret file %s may be read by every user of this machine (%s)", path, info.Mode().Perm()))
		}
	}
	return about("machine", found)
}

// Variables reports the environment variables that are not settings of orgops, each with
// the name that was probably meant.
func Variables(unknown []string) []Finding {
	var found []Finding
	for _, problem := range unknown {
		found = append(found, warn("rename it, or unset it", "%s", problem))
	}
	return about("environment", found)
}

// Ignored reports the environment variables that describe a tenant, and are ignored because the
// tenants are in a file.
func Ignored(variables []string, file string) []Finding {
	if len(variables) == 0 {
		return nil
	}
	return about("environment", []Finding{warn("set them in the file, and unset them",
		"ignored, since the tenants' settings are in %s: %s", file, strings.Join(variables, ", "))})
}

// containerSecrets is where Docker and Podman put a container's secrets.
const containerSecrets = "/run/secrets"

// closedToOthers reports whether other users of the machine cannot reach files in there.
func closedToOthers(dir string) bool {
	if filepath.Clean(dir) == containerSecrets {
		return true
	}
	info, err := os.Stat(dir)
	return err == nil && info.Mode()&0o001 == 0
}

// Limits are the limits of this process.
type Limits struct {
	OpenFiles uint64 // 0: not known
	Memory    uint64 // bytes, of the control group; 0: none, or not known
	GoMemory  int64  // bytes, GOMEMLIMIT; math.MaxInt64: none
	Procs     int    // GOMAXPROCS
}

// ReadLimits reads the limits of this process.
func ReadLimits() Limits {
	return Limits{OpenFiles: openFiles(), Memory: groupMemory(os.DirFS("/sys/fs/cgroup")),
		GoMemory: debug.SetMemoryLimit(-1), Procs: runtime.GOMAXPROCS(0)}
}

// groupMemory reads the control group's limit (version 2, as a container sees it).
func groupMemory(root fs.FS) uint64 {
	text, err := fs.ReadFile(root, "memory.max")
	if err != nil {
		return 0
	}
	limit, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
	if err != nil {
		return 0 // "max"
	}
	return limit
}

// filesPerTenant is the most files that a tenant's work has open: a socket or two for each
// DNS check and request in progress.
const filesPerTenant = 1500

// Test reports whether the limits are enough for so many tenants.
func (l Limits) Test(tenants int) []Finding {
	const mib = 1 << 20
	var found []Finding
	if need := uint64(filesPerTenant * tenants); l.OpenFiles > 0 && l.OpenFiles < need {
		found = append(found, warn(fmt.Sprintf("raise it to %d (LimitNOFILE= or ulimit -n)", need),
			"%d files may be open at a time, and %d tenants may need more", l.OpenFiles, tenants))
	}
	if l.Memory > 0 && l.GoMemory == math.MaxInt64 {
		found = append(found, warn(fmt.Sprintf("set GOMEMLIMIT=%dMiB", l.Memory*9/10/mib),
			"memory is limited to %d MiB, and Go does not know: it may be killed rather than tidy up", l.Memory/mib))
	}
	found = append(found, ok("%d CPUs are used at a time", l.Procs))
	return about("machine", found)
}
