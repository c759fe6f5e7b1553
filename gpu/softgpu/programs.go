package softgpu

import (
	"crypto/sha256"
	"slices"
	"sync"

	"pvdrm/gpu/softgpu/exec"
)

// Bounds of the programs that a device keeps.
const (
	keptPrograms     = 64
	keptProgramBytes = 4 << 20 // of the host's memory, all of them together; machine code has a bound of its own
	keptSourceBytes  = 5 << 18 // a source of 1 MB takes 3 MiB, and 30 to 60 ms to decode
)

// programs are what sources were decoded and compiled to, for modules that are loaded with the same source
// later: each process of a guest loads its modules, and short ones spend more time in the decoder and the compiler
// than in their kernels. A program has nothing of its module's context, and its machine code is what any context of the
// device would make. A device serves one guest.
type programs struct {
	mu    sync.Mutex
	kept  []keptProgram // the one that was used last is last
	bytes uint64        // of all
}

type keptProgram struct {
	key   programKey
	prog  *exec.Program
	bytes uint64
}

// programKey is all that a program depends on.
type programKey struct {
	file   string // in messages
	source [sha256.Size]byte
	timed  bool
}

// keyOf returns the key of a source. It reports false if no program of it is kept.
func keyOf(file string, source []byte, timed bool) (k programKey, ok bool) {
	if len(source) > keptSourceBytes {
		return k, false
	}
	return programKey{file: file, source: sha256.Sum256(source), timed: timed}, true
}

// find returns the program of a key, or nil.
func (p *programs) find(key programKey) *exec.Program {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.index(key)
	if i < 0 {
		return nil
	}
	found := p.kept[i]
	p.kept = append(slices.Delete(p.kept, i, i+1), found)
	return found.prog
}

func (p *programs) index(key programKey) int {
	return slices.IndexFunc(p.kept, func(k keptProgram) bool { return k.key == key })
}

// keep keeps a program for later modules. It is linked, and has no variables, whose addresses its code would
// have in it.
func (p *programs) keep(key programKey, prog *exec.Program) {
	bytes := prog.HostBytes() + uint64(len(key.file))
	if bytes > keptProgramBytes {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.index(key) >= 0 { // two modules were loaded at once
		return
	}
	p.kept, p.bytes = append(p.kept, keptProgram{key: key, prog: prog, bytes: bytes}), p.bytes+bytes
	drop := 0
	for ; p.bytes > keptProgramBytes || len(p.kept)-drop > keptPrograms; drop++ {
		p.bytes -= p.kept[drop].bytes
	}
	p.kept = slices.Delete(p.kept, 0, drop)
}
