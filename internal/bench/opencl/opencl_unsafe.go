package opencl

import (
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"

	"pvdrm/internal/suite"
	"pvdrm/internal/suite/kernels"
)

// Numbers of the OpenCL API (cl.h of OpenCL 2.0).
const (
	platformName       = 0x0902
	platformVersion    = 0x0901
	deviceName         = 0x102b
	deviceTypeCPU      = 1 << 1
	buildLog           = 0x1183
	argAddress         = 0x1196
	argPrivate         = 0x119e
	memReadWrite       = 1 << 0
	memFineGrainBuffer = 1 << 10
)

// options compile kernels like those of the software GPU, whose divisions and roots are right to
// the last bit.
const options = "-cl-std=CL1.2 -DPVDRM_OPENCL -cl-kernel-arg-info -cl-fp32-correctly-rounded-divide-sqrt"

// functions lists what is called of the library.
var functions = []string{
	"clGetPlatformIDs", "clGetPlatformInfo", "clGetDeviceIDs", "clGetDeviceInfo", "clCreateContext", "clCreateCommandQueue",
	"clCreateProgramWithSource", "clBuildProgram", "clGetProgramBuildInfo", "clCreateKernel",
	"clGetKernelArgInfo", "clSetKernelArg", "clSetKernelArgSVMPointer", "clEnqueueNDRangeKernel",
	"clFinish", "clSVMAlloc", "clSVMFree",
}

// Platform is PoCL, with a queue on this machine's processors. It serves one program at a time.
type Platform struct {
	// Version is what the platform says of itself, and Processor what it compiles for.
	Version, Processor string

	f                      map[string]uintptr
	device, context, queue uintptr
	programs               map[string]uintptr // by module
	kernels                map[string]*kernel // by name, which no two modules share
}

// kernel is a kernel, and which of its parameters are pointers.
type kernel struct {
	handle   uintptr
	pointers []bool
}

// call calls a function that returns an error code. What its arguments point to is moved to the
// heap: a stack can move before OpenCL writes to it.
//
//go:uintptrescapes
func (p *Platform) call(name string, args ...uintptr) error {
	r, _, _ := purego.SyscallN(p.f[name], args...)
	if code := int32(r); code != 0 {
		return fmt.Errorf("%s: OpenCL's error %d", name, code)
	}
	return nil
}

// make calls a function that returns an object, and an error code through its last argument.
// What its arguments point to is on the heap, as for call.
//
//go:uintptrescapes
func (p *Platform) make(name string, args ...uintptr) (uintptr, error) {
	code := new(int32)
	var pin runtime.Pinner
	pin.Pin(code)
	defer pin.Unpin()
	r, _, _ := purego.SyscallN(p.f[name], append(args, uintptr(unsafe.Pointer(code)))...)
	if *code != 0 {
		return 0, fmt.Errorf("%s: OpenCL's error %d", name, *code)
	}
	return r, nil
}

// Open finds PoCL. The error says how to get it.
func Open() (*Platform, error) {
	lib, err := purego.Dlopen("libOpenCL.so.1", purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("OpenCL is not installed (on Debian: apt install pocl-opencl-icd): %w", err)
	}
	p := &Platform{f: map[string]uintptr{}, programs: map[string]uintptr{}, kernels: map[string]*kernel{}}
	for _, name := range functions {
		if p.f[name], err = purego.Dlsym(lib, name); err != nil {
			return nil, fmt.Errorf("libOpenCL.so.1 lacks %s: %w", name, err)
		}
	}
	var platforms [16]uintptr
	var count uint32
	if err := p.call("clGetPlatformIDs", uintptr(len(platforms)), uintptr(unsafe.Pointer(&platforms)), uintptr(unsafe.Pointer(&count))); err != nil {
		return nil, fmt.Errorf("no OpenCL platform is installed (on Debian: apt install pocl-opencl-icd): %w", err)
	}
	for _, platform := range platforms[:min(int(count), len(platforms))] {
		if p.text("clGetPlatformInfo", platformName, platform) != "Portable Computing Language" {
			continue
		}
		p.Version = p.text("clGetPlatformInfo", platformVersion, platform)
		return p, p.start(platform)
	}
	return nil, fmt.Errorf("PoCL is none of the %d OpenCL platforms (on Debian: apt install pocl-opencl-icd)", count)
}

// text asks for a text; "" if there is none. what stands behind the handles of the object.
func (p *Platform) text(function string, what uintptr, handles ...uintptr) string {
	b, size := make([]byte, 16<<10), new(uint64)
	var pin runtime.Pinner
	pin.Pin(unsafe.SliceData(b))
	pin.Pin(size)
	defer pin.Unpin()
	args := append(handles, what, uintptr(len(b)), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(unsafe.Pointer(size)))
	if p.call(function, args...) != nil || *size == 0 || *size > uint64(len(b)) {
		return ""
	}
	return string(b[:*size-1]) // it ends with a zero
}

// start opens a queue on the processors.
func (p *Platform) start(platform uintptr) (err error) {
	if err := p.call("clGetDeviceIDs", platform, deviceTypeCPU, 1, uintptr(unsafe.Pointer(&p.device)), 0); err != nil {
		return fmt.Errorf("PoCL has no device for processors: %w", err)
	}
	p.Processor = p.text("clGetDeviceInfo", deviceName, p.device)
	if p.context, err = p.make("clCreateContext", 0, 1, uintptr(unsafe.Pointer(&p.device)), 0, 0); err != nil {
		return err
	}
	p.queue, err = p.make("clCreateCommandQueue", p.context, p.device, 0)
	return err
}

// build compiles a module, once.
func (p *Platform) build(module string) error {
	if _, ok := p.programs[module]; ok {
		return nil
	}
	source, err := kernels.Source(module)
	if err != nil {
		return err
	}
	text := append([]byte(source), 0)
	from := unsafe.SliceData(text)
	flags := append([]byte(options), 0)
	program, err := p.make("clCreateProgramWithSource", p.context, 1, uintptr(unsafe.Pointer(&from)), 0)
	if err != nil {
		return err
	}
	err = p.call("clBuildProgram", program, 1, uintptr(unsafe.Pointer(&p.device)), uintptr(unsafe.Pointer(unsafe.SliceData(flags))), 0, 0)
	runtime.KeepAlive(text)
	if err != nil {
		return fmt.Errorf("PoCL cannot compile %s.cl: %w: %s", module, err, strings.TrimSpace(p.text("clGetProgramBuildInfo", buildLog, program, p.device)))
	}
	p.programs[module] = program
	return nil
}

// kernel finds a kernel of a module, with a given number of parameters.
func (p *Platform) kernel(module, name string) (*kernel, error) {
	if k, ok := p.kernels[name]; ok {
		return k, nil
	}
	text := append([]byte(name), 0)
	handle, err := p.make("clCreateKernel", p.programs[module], uintptr(unsafe.Pointer(unsafe.SliceData(text))))
	if err != nil {
		return nil, fmt.Errorf("kernel %s of %s.cl: %w", name, module, err)
	}
	k := &kernel{handle: handle}
	for {
		var space uint32
		if p.call("clGetKernelArgInfo", handle, uintptr(len(k.pointers)), argAddress, 4, uintptr(unsafe.Pointer(&space)), 0) != nil {
			break // there are no more
		}
		k.pointers = append(k.pointers, space != argPrivate)
	}
	p.kernels[name] = k
	return k, nil
}

// device is a suite.RawDevice on a Platform.
type device struct {
	*Platform
	module string
	memory []uintptr
}

// Device returns a device that runs programs until it is closed.
func (p *Platform) Device() (suite.RawDevice, error) { return &device{Platform: p}, nil }

// Load compiles the sources of the module; PTX is not looked at.
func (d *device) Load(module string, _ []byte) error {
	d.module = module
	return d.build(module)
}

// Alloc writes to each page, so that no kernel waits for it (as C's memory, package clang).
func (d *device) Alloc(n uint64) (uint64, error) {
	r, _, _ := purego.SyscallN(d.f["clSVMAlloc"], d.context, memReadWrite|memFineGrainBuffer, uintptr(max(n, 1)), 64)
	if r == 0 {
		return 0, fmt.Errorf("clSVMAlloc: there are no %d bytes", n)
	}
	d.memory = append(d.memory, r)
	clear(d.bytes(uint64(r), n))
	return uint64(r), nil
}

// bytes are memory of Alloc, which stays where it is until Close.
func (*device) bytes(at, n uint64) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&at))), n)
}

// AllocHost implements suite.RawDevice.
func (d *device) AllocHost(n uint64) ([]byte, error) {
	at, err := d.Alloc(n)
	if err != nil {
		return nil, err
	}
	return d.bytes(at, n), nil
}

// Write implements suite.RawDevice. Programs write within what they allocated.
func (d *device) Write(dst uint64, src []byte, _ bool) error {
	err := d.Sync()
	copy(d.bytes(dst, uint64(len(src))), src)
	return err
}

// Read implements suite.RawDevice.
func (d *device) Read(dst []byte, src uint64, _ bool) error {
	err := d.Sync()
	copy(dst, d.bytes(src, uint64(len(dst))))
	return err
}

// Fill implements suite.RawDevice.
func (d *device) Fill(dst uint64, word uint32, n uint64) error {
	err := d.Sync()
	words := unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(d.bytes(dst, 4*n)))), n)
	for i := range words {
		words[i] = word
	}
	return err
}

// Launch implements suite.RawDevice.
func (d *device) Launch(name string, grid, block [2]uint32, params []byte) error {
	k, err := d.kernel(d.module, name)
	if err != nil {
		return err
	}
	at := 0
	for i, pointer := range k.pointers {
		if pointer {
			at = (at + 7) &^ 7
		}
		size := 4
		if pointer {
			size = 8
		}
		if at+size > len(params) {
			return fmt.Errorf("kernel %s has more than %d bytes of parameters", name, len(params))
		}
		if from := unsafe.Pointer(&params[at]); pointer {
			err = d.call("clSetKernelArgSVMPointer", k.handle, uintptr(i), uintptr(*(*uint64)(from)))
		} else {
			err = d.call("clSetKernelArg", k.handle, uintptr(i), uintptr(size), uintptr(from))
		}
		if err != nil {
			return fmt.Errorf("kernel %s, parameter %d: %w", name, i, err)
		}
		at += size
	}
	local := [2]uint64{uint64(block[0]), uint64(block[1])}
	global := [2]uint64{uint64(grid[0]) * local[0], uint64(grid[1]) * local[1]}
	err = d.call("clEnqueueNDRangeKernel", d.queue, k.handle, 2, 0,
		uintptr(unsafe.Pointer(&global)), uintptr(unsafe.Pointer(&local)), 0, 0, 0)
	runtime.KeepAlive(params)
	return err
}

// Sync implements suite.RawDevice.
func (d *device) Sync() error { return d.call("clFinish", d.queue) }

// Close implements suite.RawDevice.
func (d *device) Close() error {
	err := d.Sync()
	for _, at := range d.memory {
		_, _, _ = purego.SyscallN(d.f["clSVMFree"], d.context, at)
	}
	d.memory = nil
	return err
}
