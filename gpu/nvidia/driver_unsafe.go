package nvidia

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// libraryName is what NVIDIA's driver installs. It is opened at run time, so that
// programs start where there is none.
const libraryName = "libcuda.so.1"

// openDriver loads the library and finds the functions. It calls none.
func openDriver() (*driver, error) {
	lib, err := purego.Dlopen(libraryName, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("no NVIDIA driver here (it brings %s): %w", libraryName, err)
	}
	d := &driver{}
	for name, fn := range map[string]any{
		"cuInit": &d.init, "cuDriverGetVersion": &d.driverGetVersion, "cuDeviceGet": &d.deviceGet, "cuDeviceGetName": &d.deviceGetName,
		"cuDeviceGetAttribute": &d.deviceGetAttribute, "cuDeviceTotalMem_v2": &d.deviceTotalMem, "cuDeviceCanAccessPeer": &d.deviceCanAccessPeer, "cuMemGetInfo_v2": &d.memGetInfo,
		"cuDevicePrimaryCtxRetain": &d.devicePrimaryCtxRetain, "cuCtxSetCurrent": &d.ctxSetCurrent,
		"cuMemAddressReserve": &d.memAddressReserve, "cuMemCreate": &d.memCreate, "cuMemRelease": &d.memRelease,
		"cuMemMap": &d.memMap, "cuMemUnmap": &d.memUnmap, "cuMemSetAccess": &d.memSetAccess,
		"cuMemHostRegister_v2": &d.memHostRegister, "cuMemHostUnregister": &d.memHostUnregister,
		"cuMemHostGetDevicePointer_v2": &d.memHostGetDevicePointer,
		"cuLinkCreate_v2":              &d.linkCreate, "cuLinkAddData_v2": &d.linkAddData, "cuLinkComplete": &d.linkComplete, "cuLinkDestroy": &d.linkDestroy,
		"cuModuleLoadData": &d.moduleLoadData, "cuModuleUnload": &d.moduleUnload, "cuModuleGetFunction": &d.moduleGetFunction,
		"cuModuleGetGlobal_v2": &d.moduleGetGlobal, "cuFuncGetAttribute": &d.funcGetAttribute, "cuFuncSetAttribute": &d.funcSetAttribute,
		"cuStreamCreateWithPriority": &d.streamCreateWithPriority, "cuStreamDestroy_v2": &d.streamDestroy,
		"cuStreamSynchronize": &d.streamSynchronize, "cuGetErrorName": &d.getErrorName,
	} {
		if _, err := purego.Dlsym(lib, name); err != nil {
			return nil, missing(name, err)
		}
		purego.RegisterLibFunc(fn, lib, name)
	}
	if _, err := purego.Dlsym(lib, "cuFuncGetParamInfo"); err == nil {
		purego.RegisterLibFunc(&d.funcGetParamInfo, lib, "cuFuncGetParamInfo")
	}
	d.printTo = printTo
	d.openQuestions(lib)
	d.openWords(lib)
	d.openGraphs(lib)
	return d, d.openPath(lib)
}

// openQuestions finds functions that newer drivers have only.
func (d *driver) openQuestions(lib uintptr) {
	at := func(name string) uintptr {
		a, _ := purego.Dlsym(lib, name) // 0 where there is none
		return a
	}
	call := func(at uintptr, args ...uintptr) result {
		r, _, _ := purego.SyscallN(at, args...)
		return result(int32(r))
	}
	word := func(p unsafe.Pointer) uintptr { return uintptr(p) } // into memory that the caller keeps alive
	if tiled, im2col := at("cuTensorMapEncodeTiled"), at("cuTensorMapEncodeIm2col"); tiled != 0 && im2col != 0 {
		d.tensorMapTiled = func(m *tensorMap) result {
			defer runtime.KeepAlive(m)
			return call(tiled, word(unsafe.Pointer(&m.out)), uintptr(m.kind), uintptr(m.rank), uintptr(m.base),
				word(unsafe.Pointer(&m.dims)), word(unsafe.Pointer(&m.strides)), word(unsafe.Pointer(&m.boxes)), word(unsafe.Pointer(&m.steps)),
				uintptr(m.interleave), uintptr(m.swizzle), uintptr(m.promotion), uintptr(m.fill))
		}
		d.tensorMapIm2col = func(m *tensorMap) result {
			defer runtime.KeepAlive(m)
			return call(im2col, word(unsafe.Pointer(&m.out)), uintptr(m.kind), uintptr(m.rank), uintptr(m.base),
				word(unsafe.Pointer(&m.dims)), word(unsafe.Pointer(&m.strides)), word(unsafe.Pointer(&m.lower)), word(unsafe.Pointer(&m.upper)),
				uintptr(m.channels), uintptr(m.pixels), word(unsafe.Pointer(&m.steps)),
				uintptr(m.interleave), uintptr(m.swizzle), uintptr(m.promotion), uintptr(m.fill))
		}
	}
	if active, largest := at("cuOccupancyMaxActiveClusters"), at("cuOccupancyMaxPotentialClusterSize"); active != 0 && largest != 0 {
		d.activeClusters = func(n *int32, f uintptr, l *launchArgs, size bool) result {
			list := new([2]launchAttribute)
			config := &launchConfig{grid: l.grid, block: l.block, shared: l.shared, attributes: word(unsafe.Pointer(list)), count: l.attributes(list)}
			var pin runtime.Pinner // what is pinned lies on the heap: a stack can move before the call
			defer pin.Unpin()
			pin.Pin(list)
			pin.Pin(config)
			pin.Pin(n)
			ask := active
			if size {
				ask = largest
			}
			return call(ask, word(unsafe.Pointer(n)), f, word(unsafe.Pointer(config)))
		}
	}
}

// openWords finds the functions that write words and wait for them, if the driver has all.
func (d *driver) openWords(lib uintptr) {
	var at [3]uintptr
	for i, name := range []string{"cuStreamWriteValue64_v2", "cuStreamWaitValue32_v2", "cuStreamWaitValue64_v2"} {
		a, err := purego.Dlsym(lib, name)
		if err != nil {
			return
		}
		at[i] = a
	}
	args := new([4]uintptr) // at the same place each time, as those of a launch
	call := func(at, stream uintptr, va, value uint64, flags uint32) result {
		*args = [...]uintptr{stream, uintptr(va), uintptr(value), uintptr(flags)}
		r, _, _ := purego.SyscallN(at, args[:]...)
		return result(int32(r))
	}
	d.streamWriteValue64 = func(stream uintptr, va, value uint64) result { return call(at[0], stream, va, value, 0) }
	d.streamWaitValue = func(stream uintptr, va, value uint64, size, condition uint32) result {
		if size == 4 {
			return call(at[1], stream, va, value, condition)
		}
		return call(at[2], stream, va, value, condition)
	}
}

// printTo has the C library, which the driver prints with, write to descriptors, each piece at once. The
// process's own standard output and error stay what they are.
func printTo(output, failures int) result {
	open, err := purego.Dlsym(purego.RTLD_DEFAULT, "fdopen")
	if err != nil {
		return resultUnknown
	}
	buffer, err := purego.Dlsym(purego.RTLD_DEFAULT, "setvbuf")
	if err != nil {
		return resultUnknown
	}
	const unbuffered = 2 // _IONBF
	mode := []byte("w\x00")
	var pin runtime.Pinner // on the heap: a stack can move before the call
	defer pin.Unpin()
	pin.Pin(&mode[0])
	for name, fd := range map[string]int{"stdout": output, "stderr": failures} {
		at, err := purego.Dlsym(purego.RTLD_DEFAULT, name)
		if err != nil {
			return resultUnknown
		}
		file, _, _ := purego.SyscallN(open, uintptr(fd), uintptr(unsafe.Pointer(&mode[0])))
		if file == 0 {
			return resultUnknown
		}
		purego.SyscallN(buffer, file, 0, unbuffered, 0)
		*(*uintptr)(address(uint64(at))) = file // a variable of the C library
	}
	return resultOK
}

// openGraphs finds the functions for graphs, if the driver has all of them.
func (d *driver) openGraphs(lib uintptr) {
	at := map[string]uintptr{}
	for _, name := range []string{"cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphLaunch", "cuGraphDestroy", "cuGraphExecDestroy"} {
		a, err := purego.Dlsym(lib, name)
		if err != nil {
			return
		}
		at[name] = a
	}
	purego.RegisterFunc(&d.streamBeginCapture, at["cuStreamBeginCapture_v2"])
	purego.RegisterFunc(&d.streamEndCapture, at["cuStreamEndCapture"])
	var instantiate func(exec *uintptr, graph uintptr, flags uint64) result
	purego.RegisterFunc(&instantiate, at["cuGraphInstantiateWithFlags"])
	d.graphInstantiate = func(exec *uintptr, graph uintptr) result { return instantiate(exec, graph, 0) }
	purego.RegisterFunc(&d.graphDestroy, at["cuGraphDestroy"])
	purego.RegisterFunc(&d.graphExecDestroy, at["cuGraphExecDestroy"])
	launch, arguments := at["cuGraphLaunch"], new([2]uintptr) // at the same place each time, as those of a launch
	d.graphLaunch = func(exec, stream uintptr) result {
		*arguments = [...]uintptr{exec, stream}
		r, _, _ := purego.SyscallN(launch, arguments[:]...)
		return result(int32(r))
	}
}

// openCompiler loads the driver's compiler of PTX, which it would load when it first
// needs it: a worker that is confined can open nothing then. Where there is none the
// driver says so itself when it has PTX to compile.
func openCompiler() {
	_, _ = purego.Dlopen("libnvidia-ptxjitcompiler.so.1", purego.RTLD_NOW|purego.RTLD_LOCAL)
}

func missing(name string, err error) error {
	return fmt.Errorf("the NVIDIA driver is too old: its %s lacks %s; install one for CUDA 12 or 13: %w", libraryName, name, err)
}

// openPath finds the functions of the path of a command, which are called without
// the reflection that purego's registered functions cost.
func (d *driver) openPath(lib uintptr) error {
	sym := map[string]uintptr{}
	for _, name := range []string{"cuStreamQuery", "cuStreamWriteValue32_v2", "cuLaunchKernel", "cuMemcpyAsync", "cuMemcpy2DAsync_v2",
		"cuMemsetD8Async", "cuMemsetD16Async", "cuMemsetD32Async", "cuMemsetD2D8Async", "cuMemsetD2D16Async", "cuMemsetD2D32Async"} {
		at, err := purego.Dlsym(lib, name)
		if err != nil {
			return missing(name, err)
		}
		sym[name] = at
	}
	call := func(at uintptr, args ...uintptr) result {
		r, _, _ := purego.SyscallN(at, args...)
		return result(int32(r))
	}
	launchEx, _ := purego.Dlsym(lib, "cuLaunchKernelEx") // from CUDA 11.8 on, as are clusters
	query, write, launch := sym["cuStreamQuery"], sym["cuStreamWriteValue32_v2"], sym["cuLaunchKernel"]
	d.streamQuery = func(stream uintptr) result { return call(query, stream) }
	// The arguments of the two calls that each kernel takes lie at the same place each
	// time: SyscallN would allocate them, and the worker collects no garbage.
	writeArgs, launchArguments := new([4]uintptr), new([11]uintptr)
	d.streamWriteValue32 = func(stream uintptr, at uint64, v uint32) result {
		*writeArgs = [...]uintptr{stream, uintptr(at), uintptr(v), 0}
		return call(write, writeArgs[:]...)
	}
	config, attributes := new(launchConfig), new([2]launchAttribute)
	d.launchKernel = func(f uintptr, l *launchArgs, stream uintptr, extra *[5]uintptr) result {
		if n := l.attributes(attributes); n > 0 && launchEx != 0 {
			// Both are on the heap, kept alive by this function, and read during the call only.
			*config = launchConfig{grid: l.grid, block: l.block, shared: l.shared, stream: stream, attributes: uintptr(unsafe.Pointer(attributes)), count: n}
			return call(launchEx, uintptr(unsafe.Pointer(config)), f, 0, uintptr(unsafe.Pointer(extra)))
		}
		// extra lies outside of the Go heap; the driver reads it during the call only.
		*launchArguments = [...]uintptr{f, uintptr(l.grid[0]), uintptr(l.grid[1]), uintptr(l.grid[2]),
			uintptr(l.block[0]), uintptr(l.block[1]), uintptr(l.block[2]), uintptr(l.shared), stream, 0, uintptr(unsafe.Pointer(extra))}
		return call(launch, launchArguments[:]...)
	}
	copy1, copy2 := sym["cuMemcpyAsync"], sym["cuMemcpy2DAsync_v2"]
	d.memcpyAsync = func(dst, src, n uint64, stream uintptr) result {
		return call(copy1, uintptr(dst), uintptr(src), uintptr(n), stream)
	}
	d.memcpy2DAsync = func(shape *[16]uint64, stream uintptr) result {
		// shape is on the heap, kept alive by the caller, and read during the call only.
		return call(copy2, uintptr(unsafe.Pointer(shape)), stream)
	}
	flat := func(name string) func(uint64, uint32, uint64, uintptr) result {
		at := sym[name]
		return func(va uint64, v uint32, n uint64, stream uintptr) result {
			return call(at, uintptr(va), uintptr(v), uintptr(n), stream)
		}
	}
	rows := func(name string) func(uint64, uint64, uint32, uint64, uint64, uintptr) result {
		at := sym[name]
		return func(va, pitch uint64, v uint32, w, h uint64, stream uintptr) result {
			return call(at, uintptr(va), uintptr(pitch), uintptr(v), uintptr(w), uintptr(h), stream)
		}
	}
	d.memsetD8Async, d.memsetD16Async, d.memsetD32Async = flat("cuMemsetD8Async"), flat("cuMemsetD16Async"), flat("cuMemsetD32Async")
	d.memsetD2D8Async, d.memsetD2D16Async, d.memsetD2D32Async = rows("cuMemsetD2D8Async"), rows("cuMemsetD2D16Async"), rows("cuMemsetD2D32Async")
	return nil
}

// errorName is the name of a result as in cuda.h.
func (d *driver) errorName(code result) string {
	const most = 64 // bytes; the longest name has about 50
	var name uintptr
	if d.getErrorName == nil || d.getErrorName(code, &name) != resultOK || name == 0 {
		return "unknown error"
	}
	text := make([]byte, 0, most)
	for i := range uintptr(most) {
		c := *(*byte)(address(uint64(name + i))) // a constant string of the library
		if c == 0 {
			break
		}
		text = append(text, c)
	}
	return string(text)
}

// address is memory that Go did not allocate, at a place that the driver or mmap
// said. It goes by way of a pointer to the number because that is no Go pointer.
func address(at uint64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&at)) }

// bytesAt is memory at such a place.
func bytesAt(at, n uint64) []byte { return unsafe.Slice((*byte)(address(at)), n) }

// addressOf is where b lies. B is memory that Go does not move or free, such as a mapping.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// extraIn is the list of launch options at the start of b, which is mapped memory.
func extraIn(b []byte) *[5]uintptr {
	_ = b[:5*8]
	return (*[5]uintptr)(unsafe.Pointer(unsafe.SliceData(b)))
}
