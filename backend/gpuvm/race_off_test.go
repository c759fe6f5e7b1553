//go:build !race

package gpuvm

const raceDetector = false
