package direct

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"

	"pvdrm/internal/suite"
)

// libraryName is what NVIDIA's driver installs.
const libraryName = "libcuda.so.1"

// Driver is the loaded driver: its functions by their names in cuda.h.
type Driver map[string]uintptr

// names are the functions in use.
var names = []string{
	"cuInit", "cuDeviceGet", "cuCtxCreate_v2", "cuCtxDestroy_v2", "cuCtxSynchronize",
	"cuModuleLoadData", "cuModuleGetFunction", "cuModuleUnload", "cuLaunchKernel",
	"cuMemAlloc_v2", "cuMemFree_v2", "cuMemHostAlloc", "cuMemFreeHost",
	"cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemsetD32_v2",
}

// Load loads the driver and starts it. It stays loaded as long as the process.
func Load() (Driver, error) { return load(libraryName) }

func load(path string) (Driver, error) {
	lib, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("no NVIDIA driver here (it brings %s): %w", libraryName, err)
	}
	d := Driver{}
	for _, name := range names {
		if d[name], err = purego.Dlsym(lib, name); err != nil {
			return nil, fmt.Errorf("the NVIDIA driver lacks %s; install one for CUDA 12 or 13: %w", name, err)
		}
	}
	return d, result("cuInit")(purego.SyscallN(d["cuInit"], 0))
}

// result turns what a function of the driver returned into an error.
func result(name string) func(r1, r2, errno uintptr) error {
	return func(r1, _, _ uintptr) error {
		if code := int32(r1); code != 0 {
			return fmt.Errorf("%s: CUDA error %d", name, code)
		}
		return nil
	}
}

// device is a context. The pointers that it hands to the driver are arguments of
// a call, which purego keeps alive, of memory that Go does not move and that the
// driver uses during the call only; where a call returns before the driver is
// done, Sync follows.
type device struct {
	Driver
	ctx, module uintptr
	functions   map[string]uintptr
	memory      []uint64
	host        []uintptr
}

// Opener returns a function that makes a context on the GPU of a number.
func (d Driver) Opener(number int) func() (suite.RawDevice, error) {
	return func() (suite.RawDevice, error) { return d.open(number) }
}

func (d Driver) open(number int) (suite.RawDevice, error) {
	runtime.LockOSThread()
	v := &device{Driver: d, functions: map[string]uintptr{}}
	var ordinal int32
	err := result("cuDeviceGet")(purego.SyscallN(d["cuDeviceGet"], uintptr(unsafe.Pointer(&ordinal)), uintptr(number)))
	if err == nil {
		err = result("cuCtxCreate")(purego.SyscallN(d["cuCtxCreate_v2"], uintptr(unsafe.Pointer(&v.ctx)), 0, uintptr(ordinal)))
	}
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	return v, nil
}

// Load implements suite.RawDevice.
func (d *device) Load(_ string, ptx []byte) error {
	image := append(append([]byte(nil), ptx...), 0) // the driver reads up to the zero
	return result("cuModuleLoadData")(purego.SyscallN(d.Driver["cuModuleLoadData"],
		uintptr(unsafe.Pointer(&d.module)), uintptr(unsafe.Pointer(unsafe.SliceData(image)))))
}

// Alloc implements suite.RawDevice.
func (d *device) Alloc(n uint64) (p uint64, err error) {
	err = result("cuMemAlloc")(purego.SyscallN(d.Driver["cuMemAlloc_v2"], uintptr(unsafe.Pointer(&p)), uintptr(n)))
	if err == nil {
		d.memory = append(d.memory, p)
	}
	return p, err
}

// AllocHost implements suite.RawDevice.
func (d *device) AllocHost(n uint64) ([]byte, error) {
	var p unsafe.Pointer
	if err := result("cuMemHostAlloc")(purego.SyscallN(d.Driver["cuMemHostAlloc"], uintptr(unsafe.Pointer(&p)), uintptr(n), 0)); err != nil {
		return nil, err
	}
	d.host = append(d.host, uintptr(p))
	// The driver mapped n bytes there, which stay until Close frees them.
	return unsafe.Slice((*byte)(p), n), nil
}

// Write implements suite.RawDevice.
func (d *device) Write(dst uint64, src []byte, pinned bool) error {
	from := unsafe.Pointer(unsafe.SliceData(src))
	if !pinned {
		return result("cuMemcpyHtoD")(purego.SyscallN(d.Driver["cuMemcpyHtoD_v2"], uintptr(dst), uintptr(from), uintptr(len(src))))
	}
	if err := result("cuMemcpyHtoDAsync")(purego.SyscallN(d.Driver["cuMemcpyHtoDAsync_v2"], uintptr(dst), uintptr(from), uintptr(len(src)), 0)); err != nil {
		return err
	}
	return d.Sync()
}

// Read implements suite.RawDevice.
func (d *device) Read(dst []byte, src uint64, pinned bool) error {
	to := unsafe.Pointer(unsafe.SliceData(dst))
	if !pinned {
		return result("cuMemcpyDtoH")(purego.SyscallN(d.Driver["cuMemcpyDtoH_v2"], uintptr(to), uintptr(src), uintptr(len(dst))))
	}
	if err := result("cuMemcpyDtoHAsync")(purego.SyscallN(d.Driver["cuMemcpyDtoHAsync_v2"], uintptr(to), uintptr(src), uintptr(len(dst)), 0)); err != nil {
		return err
	}
	return d.Sync()
}

// Fill implements suite.RawDevice.
func (d *device) Fill(dst uint64, word uint32, n uint64) error {
	return result("cuMemsetD32")(purego.SyscallN(d.Driver["cuMemsetD32_v2"], uintptr(dst), uintptr(word), uintptr(n)))
}

// function finds a kernel of the module, once.
func (d *device) function(kernel string) (f uintptr, err error) {
	if f, ok := d.functions[kernel]; ok {
		return f, nil
	}
	name := append([]byte(kernel), 0)
	err = result("cuModuleGetFunction of " + kernel)(purego.SyscallN(d.Driver["cuModuleGetFunction"],
		uintptr(unsafe.Pointer(&f)), d.module, uintptr(unsafe.Pointer(unsafe.SliceData(name)))))
	if err == nil {
		d.functions[kernel] = f
	}
	return f, err
}

// What stands before the values of cuLaunchKernel's parameter extra.
const (
	launchEnd  = 0 // CU_LAUNCH_PARAM_END
	launchData = 1 // CU_LAUNCH_PARAM_BUFFER_POINTER
	launchSize = 2 // CU_LAUNCH_PARAM_BUFFER_SIZE
)

// Launch implements suite.RawDevice.
func (d *device) Launch(kernel string, grid, block [2]uint32, params []byte) error {
	f, err := d.function(kernel)
	if err != nil {
		return err
	}
	size := uintptr(len(params))
	// Pointers in memory are not arguments of the call: pin what they point to.
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(unsafe.SliceData(params))
	pin.Pin(&size)
	extra := [...]uintptr{launchData, uintptr(unsafe.Pointer(unsafe.SliceData(params))), launchSize, uintptr(unsafe.Pointer(&size)), launchEnd}
	return result("cuLaunchKernel")(purego.SyscallN(d.Driver["cuLaunchKernel"], f,
		uintptr(grid[0]), uintptr(grid[1]), 1, uintptr(block[0]), uintptr(block[1]), 1, 0, 0, 0, uintptr(unsafe.Pointer(&extra))))
}

// Sync implements suite.RawDevice.
func (d *device) Sync() error {
	return result("cuCtxSynchronize")(purego.SyscallN(d.Driver["cuCtxSynchronize"]))
}

// Close gives back each thing by its own call, as the suite does on PVDRM. The
// first error tells what happened.
func (d *device) Close() error {
	var first error
	call := func(name string, arg uintptr) {
		if err := result(name)(purego.SyscallN(d.Driver[name], arg)); first == nil {
			first = err
		}
	}
	for _, p := range d.memory {
		call("cuMemFree_v2", uintptr(p))
	}
	for _, p := range d.host {
		call("cuMemFreeHost", p)
	}
	if d.module != 0 {
		call("cuModuleUnload", d.module)
	}
	call("cuCtxDestroy_v2", d.ctx)
	runtime.UnlockOSThread()
	return first
}
