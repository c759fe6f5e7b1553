//go:build race

package sandbox

// raceDetector reports whether the race detector is built in. It maps memory in place of
// other, as the program goes on, and has to be let: such a program is for tests.
const raceDetector = true
