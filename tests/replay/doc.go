// Package replay holds traces of programs (corpus) and replays them natively, as
// a local guest and, in package tests, in a virtual machine. A bug report that
// comes with a trace becomes a test by putting the file there.
package replay
