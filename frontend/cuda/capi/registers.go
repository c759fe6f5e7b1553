package capi

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"pvdrm/gpu/fatbin"
)

// Registers of a kernel. The software GPU has as many as a kernel uses, and what limits them takes nothing
// away. Programs look at the number to see whether a limit has worked, so it follows the limits as an H100
// does: an option of the compiler, .maxnreg, and the blocks that are to fit on a multiprocessor
// (PTX ISA, 11.4).
const (
	fewestRegs   = 24      // to which an H100 raises lower limits
	multiprocReg = 1 << 16 // registers of a multiprocessor
	regStep      = 8       // in which they are given out
)

// registersPragma carries the limit of a linker to where its result is loaded. Devices do not know it,
// and pass over it as over all pragmas that they do not know.
const registersPragma = "pvdrm_max_registers"

// tuning is what a kernel says of its registers; zero where it does not.
type tuning struct {
	regs, threads, blocks uint32 // .maxnreg, .maxntid, .minnctapersm
}

// tunings maps kernels to what they say, and returns the limit that a linker left, 0 for none.
func tunings(ptx []byte) (all map[string]tuning, limit uint32) {
	found := false
	for _, directive := range []string{".maxnreg", ".maxntid", ".minnctapersm", registersPragma} {
		found = found || bytes.Contains(ptx, []byte(directive))
	}
	if !found {
		return nil, 0
	}
	all = map[string]tuning{}
	kernel, last, directive := "", "", ""
	for {
		var word string
		if word, ptx = nextWord(ptx); word == "" {
			return all, limit
		}
		if last == ".entry" {
			kernel, directive = entryName(word), ""
		}
		n, err := strconv.ParseUint(strings.TrimRight(word, "{};\""), 0, 32)
		t := all[kernel]
		switch {
		case strings.HasPrefix(word, ".") || strings.HasPrefix(word, "\""):
			directive = strings.TrimPrefix(word, "\"")
		case err != nil:
			directive = ""
		case directive == registersPragma:
			limit = uint32(n)
		case kernel == "":
		case directive == ".maxnreg":
			t.regs = uint32(n)
		case directive == ".minnctapersm":
			t.blocks = uint32(n)
		case directive == ".maxntid":
			t.threads = uint32(min(uint64(max(t.threads, 1))*n, multiprocReg))
		}
		if t != (tuning{}) {
			all[kernel] = t
		}
		last = word
	}
}

// limit is the most registers of a kernel, where the compiler's option is 0 or a limit.
func (t tuning) limit(option uint32) uint32 {
	most := uint32(maxRegs)
	switch {
	case t.regs > 0:
		most = min(most, t.regs)
	case option > 0:
		most = min(most, option)
	}
	if t.threads > 0 {
		fit := uint64(multiprocReg) / (uint64(t.threads) * uint64(max(t.blocks, 1)))
		most = min(most, uint32(fit)/regStep*regStep)
	}
	return max(most, fewestRegs)
}

// maxRegisters is the limit that the program asks of the compiler, 0 for none.
func (j *jit) maxRegisters() uint32 {
	if j == nil {
		return 0
	}
	return uint32(j.buffer[jitMaxRegisters])
}

// limited adds the limit to the result of a linker.
func (j *jit) limited(ptx []byte) []byte { return withRegisters(ptx, j.maxRegisters()) }

// withRegisters adds a limit of registers to PTX, none for 0. Machine code has its own.
func withRegisters(ptx []byte, n uint32) []byte {
	if n == 0 || fatbin.Is(ptx) {
		return ptx
	}
	return fmt.Appendf(bytes.Clone(ptx), "\n.pragma \"%s %d\";\n", registersPragma, n)
}
