//go:build race

package redistest

// raceDetector says that the test was built with it, which makes the embedded Redis forty times
// slower.
const raceDetector = true
