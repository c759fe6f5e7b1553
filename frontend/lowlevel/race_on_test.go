//go:build race

package lowlevel_test

// The race detector makes the software GPU a hundred times slower.
const raceDetector = true
