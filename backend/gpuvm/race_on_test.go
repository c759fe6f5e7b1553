//go:build race

package gpuvm

// The race detector makes the software GPU a hundred times slower.
const raceDetector = true
