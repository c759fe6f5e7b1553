package suite

import (
	"encoding/binary"
	"fmt"
)

var cpyBench = Bench{
	Name:        "cpy",
	Description: "copy to the GPU and back",
	Input:       "64 MiB each way",
	Run:         runCpy,
}

var pincpyBench = Bench{
	Name:        "pincpy",
	Description: "cpy on pinned host memory that is mapped into the program",
	Input:       "64 MiB each way",
	Run:         runPincpy,
}

const copyBytes = 64 << 20

func runCpy(e *Env) error {
	size := copyBytes * e.scale
	in, out := make([]byte, size), make([]byte, size)
	fillPattern(in)

	s := e.begin("", size)
	s.htod(s.mem[0], in)
	s.dtoh(out, s.mem[0])
	if err := s.end(); err != nil {
		return err
	}
	return checkPattern(out)
}

func runPincpy(e *Env) error {
	size := copyBytes * e.scale
	s := e.begin("", size)
	s.pin(size)
	s.pin(size)
	if s.err != nil {
		return s.end()
	}
	in, out := s.pinned[0], s.pinned[1]
	fillPattern(in.Bytes())
	s.htodPinned(s.mem[0], in)
	s.dtohPinned(out, s.mem[0])

	// The result lies in memory that goes with the context: check it before.
	var wrong error
	if s.err == nil {
		wrong = checkPattern(out.Bytes())
	}
	if err := s.end(); err != nil {
		return err
	}
	return wrong
}

// The pattern gives every 8 bytes another value. It is checked against the
// generator, not against the source, which the GPU could reach.
const patternSeed = 9

func fillPattern(b []byte) {
	r := newRandom(patternSeed)
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], r.next())
	}
}

func checkPattern(b []byte) error {
	r := newRandom(patternSeed)
	for i := 0; i < len(b); i += 8 {
		if got, want := binary.LittleEndian.Uint64(b[i:]), r.next(); got != want {
			return fmt.Errorf("the 8 bytes at %d are %016x, want %016x", i, got, want)
		}
	}
	return nil
}
