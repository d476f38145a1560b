package redistest

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// EnvLong names the environment variable that adds the tests which take seconds of processor
// time, and has tests that disturb an execution at some points disturb it at all of them.
const EnvLong = "ORGOPS_TEST_LONG"

// long reports whether long tests run.
func long() bool { return os.Getenv(EnvLong) != "" }

// NeedsLong skips the test unless long tests run, for the given reason.
func NeedsLong(t testing.TB, reason string) {
	t.Helper()
	if !long() {
		t.Skipf("%s: set %s=1", reason, EnvLong)
	}
}

// whole reports whether tests do all that they can. With the race detector they do not: points and
// amounts are of the same few paths through the code, of which the detector needs to see each once.
func whole() bool { return long() && !raceDetector }

// Stride returns the distance between the points at which tests disturb an execution: one if long
// tests run without the race detector, and otherwise the usual one.
func Stride(usual int) int {
	if whole() {
		return 1
	}
	return usual
}

// Amount returns how much of something a test does: all if long tests run without the race
// detector, and otherwise usual, which is enough to fail on the faults that the test is for.
func Amount(usual, all int) int {
	if whole() {
		return all
	}
	return usual
}

// Given returns the number that an environment variable gives, or else usual.
func Given(name string, usual int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return usual
}

// Parallel lets n parallel tests of the package run at a time, unless -parallel is given. It is
// for a TestMain of tests that wait most of their time.
func Parallel(n int) {
	flag.Parse() //nolint:revive // as main of the test binary would
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(n)) // a number is valid
	}
}
