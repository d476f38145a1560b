//go:build !race

package redistest

const raceDetector = false
