package fuzz

import "testing"

// Positions in operations that seeds name.
const (
	opExec    = 17
	opAwait   = 21
	opRevoke  = 22
	opRegain  = 24
	opClose   = 7
	opFree    = 10
	opLie     = 27
	opSettle  = 30
	opReopen  = 31
	opPrelude = 32
	second    = 0x80 // the same, of the second file
)

// sessionSeeds are programs that reach the kernels of all modules.
func sessionSeeds() [][]byte {
	var seeds [][]byte
	for kernel := range byte(len(kernelNames) - 1) {
		start := []byte{opPrelude, kernel<<1 | 0x40, opExec, 0, 0, 4, 0, 200, 0, 31, 7}
		seeds = append(seeds,
			append(append([]byte{}, start...), opAwait, 0, 20, opRevoke, 0, opAwait, 0, 100),
			append(append([]byte{}, start...), opRegain, 0, opClose, 1, 0x1f, opFree, 0, 7, 1),
			append(append([]byte{}, start...), second|opPrelude, 0, second|opExec, 0, 0, 4, 0, 1, 0, 0, 7, opReopen, opSettle))
	}
	return append(seeds, []byte{opPrelude, 0, opExec, 1, 0, 0x11, 0, 1, 0, 0x40, 0, 0, 0, 0, 7, opLie, 0xc0, 0x7f, opSettle})
}

// The programs that the fuzzer begins with do what they are to reach.
func TestSeeds(t *testing.T) {
	w, err := newWorld()
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	for _, seed := range sessionSeeds() {
		w.run(t, seed)
	}
	s := w.device.Stats()
	if s.Launches < uint64(len(kernelNames)) || s.Faults == 0 || s.CopyBytes == 0 {
		t.Fatalf("the seeds do little: %+v", s)
	}
}
