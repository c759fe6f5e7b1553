package clang

import (
	"fmt"
	"syscall"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Library is a loaded library of kernels.
type Library struct {
	threads            int
	begin, launch, end uintptr
}

// Open loads what Compile made, to run kernels on as many threads. It stays
// loaded as long as the process.
func Open(path string, threads int) (*Library, error) {
	lib, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("loading the compiled kernels: %w", err)
	}
	l := &Library{threads: threads}
	for name, at := range map[string]*uintptr{"pvdrm_begin": &l.begin, "pvdrm_launch": &l.launch, "pvdrm_end": &l.end} {
		if *at, err = purego.Dlsym(lib, name); err != nil {
			return nil, fmt.Errorf("the compiled kernels lack %s: %w", name, err)
		}
	}
	return l, nil
}

// startThreads and endThreads stand around launches.
func (l *Library) startThreads() error {
	if r, _, _ := purego.SyscallN(l.begin, uintptr(l.threads)); int32(r) != 0 {
		return fmt.Errorf("starting threads for the C kernels: %w", syscall.Errno(r))
	}
	return nil
}

// Launch runs a kernel to its end: blocks of the grid and threads of a block in
// x and y, and its parameters as they lie in memory.
func (l *Library) Launch(kernel string, grid, block [2]uint32, params []byte) error {
	name := append([]byte(kernel), 0)
	shape := [4]uint32{grid[0], grid[1], block[0], block[1]}
	// The C code reads all three during the call only; purego keeps pointers that are
	// arguments of the call alive, and Go does not move heap objects.
	r, _, _ := purego.SyscallN(l.launch, uintptr(unsafe.Pointer(unsafe.SliceData(name))),
		uintptr(unsafe.Pointer(&shape)), uintptr(unsafe.Pointer(unsafe.SliceData(params))))
	if int32(r) != 0 {
		return fmt.Errorf("there is no kernel %q in C", kernel)
	}
	return nil
}

func (l *Library) endThreads() { _, _, _ = purego.SyscallN(l.end) }

// addressOf is where memory that the kernel mapped lies; it stays there until it
// is unmapped, so the number stays true.
func addressOf(m []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(m)))) }
