//go:build race

package serve_test

// The race detector makes the software GPU a hundred times slower.
const raceDetector = true
