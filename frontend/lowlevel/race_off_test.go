//go:build !race

package lowlevel_test

const raceDetector = false
