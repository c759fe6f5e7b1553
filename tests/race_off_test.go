//go:build !race

package tests

// unwatched matches no test.
const unwatched = ""
