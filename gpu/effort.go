package gpu

// What compiling a module may take of the host's private memory, at most: what the device
// takes for granted, and a number of bytes for each of the source. A device refuses a
// source that needs more, see package ptx, Effort. What compilers write takes 28 bytes for
// each; go test -run=- -bench=ModuleMemory ./gpu/softgpu measures that.
const (
	moduleFactor = 48
	moduleBase   = 512 << 10
)

// ModuleMemory bounds the private memory that compiling a source of so many bytes takes,
// and so what a module of it keeps. It is known before the source is looked at.
func ModuleMemory(source uint64) uint64 { return moduleBase + moduleFactor*source }
