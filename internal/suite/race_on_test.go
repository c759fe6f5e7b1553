//go:build race

package suite

// The race detector makes the software GPU a hundred times slower.
const raceDetector = true
