//go:build !amd64 || !linux

package simt

// callNative is never called.
func callNative(*nativeFrame) {}

// nativeWorks is false: there is a compiler for amd64 only.
const nativeWorks = false

// tryNative is never called.
func tryNative() error { return nil }

// makeNative is never called.
func makeNative(*Program, *function, []uint16, bool) *nativeCode { return nil }

// nativeRows are none.
func nativeRows() map[string]rowOp { return nil }

// rowOp is how a row of the lane table is compiled.
type rowOp struct{}
