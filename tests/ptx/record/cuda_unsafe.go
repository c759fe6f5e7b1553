package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"

	"pvdrm/tests/ptx/internal/fixture"
)

// cuda is the part of the CUDA driver interface that the recorder uses. Its
// methods are called from one locked thread, since contexts belong to threads.
type cuda struct {
	level   int // of optimisation of PTX, 0 to 4
	device  int32
	context uintptr

	init           func(flags uint32) int32
	deviceGet      func(device *int32, ordinal int32) int32
	deviceGetName  func(name *byte, n int32, device int32) int32
	deviceGetAttr  func(value *int32, attribute, device int32) int32
	ctxCreate      func(ctx *uintptr, flags uint32, device int32) int32
	ctxSync        func() int32
	moduleLoad     func(module *uintptr, image *byte, n uint32, options *int32, values *uintptr) int32
	moduleUnload   func(module uintptr) int32
	moduleFunction func(function *uintptr, module uintptr, name string) int32
	funcSetAttr    func(function uintptr, attribute, value int32) int32
	memAlloc       func(address *uint64, n uint64) int32
	memFree        func(address uint64) int32
	copyToDevice   func(address uint64, from *byte, n uint64) int32
	copyFromDevice func(to *byte, address uint64, n uint64) int32
	launch         func(function uintptr, gx, gy, gz, bx, by, bz, shared uint32, stream uintptr, params, extra *unsafe.Pointer) int32
	errorName      func(code int32, name **byte) int32

	objects
	tensors
}

// Values of enumerations in cuda.h.
const (
	attrMajor, attrMinor                 = 75, 76 // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
	jitErrorLog, jitErrorLogBytes        = 5, 6   // CU_JIT_ERROR_LOG_BUFFER, …_SIZE_BYTES
	jitOptimisation                      = 7      // CU_JIT_OPTIMIZATION_LEVEL
	funcMaxDynamicShared                 = 8      // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
	defaultSharedBytes                   = 48 << 10
	maxLog                               = 8 << 10
	versionFile                          = "/proc/driver/nvidia/version"
	maxNameBytes                         = 128
	contextFlags                  uint32 = 0
)

// openCUDA loads libcuda and opens a device.
func openCUDA(ordinal, level int) (*cuda, error) {
	lib, err := purego.Dlopen("libcuda.so.1", purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("an NVIDIA driver is needed: %w", err)
	}
	c := &cuda{level: level}
	for name, fn := range map[string]any{
		"cuInit": &c.init, "cuDeviceGet": &c.deviceGet, "cuDeviceGetName": &c.deviceGetName, "cuDeviceGetAttribute": &c.deviceGetAttr,
		"cuCtxCreate_v2": &c.ctxCreate, "cuCtxSynchronize": &c.ctxSync,
		"cuModuleLoadDataEx": &c.moduleLoad, "cuModuleUnload": &c.moduleUnload, "cuModuleGetFunction": &c.moduleFunction,
		"cuFuncSetAttribute": &c.funcSetAttr, "cuMemAlloc_v2": &c.memAlloc, "cuMemFree_v2": &c.memFree,
		"cuMemcpyHtoD_v2": &c.copyToDevice, "cuMemcpyDtoH_v2": &c.copyFromDevice, "cuLaunchKernel": &c.launch, "cuGetErrorName": &c.errorName,
	} {
		purego.RegisterLibFunc(fn, lib, name)
	}
	c.objects.load(lib)
	c.tensors.load(lib)
	if err := c.check("cuInit", c.init(0)); err != nil {
		return nil, err
	}
	if err := c.check("cuDeviceGet", c.deviceGet(&c.device, int32(ordinal))); err != nil {
		return nil, err
	}
	return c, c.check("cuCtxCreate", c.ctxCreate(&c.context, contextFlags, c.device))
}

// describe returns the name of the device and the version of the driver.
func (c *cuda) describe() (device, driver string, err error) {
	name := make([]byte, maxNameBytes)
	var major, minor int32
	if err := c.check("cuDeviceGetName", c.deviceGetName(&name[0], maxNameBytes, c.device)); err != nil {
		return "", "", err
	}
	if err := c.check("cuDeviceGetAttribute", max(c.deviceGetAttr(&major, attrMajor, c.device), c.deviceGetAttr(&minor, attrMinor, c.device))); err != nil {
		return "", "", err
	}
	text, err := os.ReadFile(versionFile)
	if err != nil {
		return "", "", fmt.Errorf("version of the driver: %w", err)
	}
	for _, word := range strings.Fields(string(text)) {
		if word[0] >= '0' && word[0] <= '9' && strings.Contains(word, ".") {
			driver = word
			break
		}
	}
	return fmt.Sprintf("%s (sm_%d%d)", text0(name), major, minor), driver, nil
}

// cudaError is an error code of the driver.
type cudaError struct {
	call, name string
}

func (e *cudaError) Error() string { return e.call + ": " + e.name }

func (c *cuda) check(call string, code int32) error {
	if code == 0 {
		return nil
	}
	var name *byte
	if c.errorName(code, &name) != 0 || name == nil {
		return &cudaError{call, fmt.Sprintf("error %d", code)}
	}
	return &cudaError{call, text0(unsafe.Slice(name, maxNameBytes))}
}

// text0 is a C string.
func text0(b []byte) string {
	for i, x := range b {
		if x == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

// run executes a fixture. A *fault means that the kernel ended with an error,
// after which every call of the process fails.
func (c *cuda) run(f *fixture.Fixture) (outputs [][]byte, err error) {
	module, err := c.loadModule(f.Source)
	if err != nil {
		return nil, err
	}
	defer c.moduleUnload(module)
	values, made := make([]uint64, len(f.Buffers)), make([]*object, len(f.Buffers))
	for i := range f.Buffers {
		b := &f.Buffers[i]
		if b.Object != nil {
			if made[i], err = c.makeObject(b); err != nil {
				return nil, fmt.Errorf("%s: %w", b.Name, err)
			}
			defer made[i].close()
			values[i] = made[i].handle
			continue
		}
		data := b.Initial()
		if err := c.check("cuMemAlloc", c.memAlloc(&values[i], uint64(len(data)))); err != nil {
			return nil, err
		}
		defer c.memFree(values[i])
		if err := c.check("cuMemcpyHtoD", c.copyToDevice(values[i], &data[0], uint64(len(data)))); err != nil {
			return nil, err
		}
	}
	maps := make([]unsafe.Pointer, len(f.Tensors))
	for i := range f.Tensors {
		if maps[i], err = c.makeTensor(&f.Tensors[i], values[f.Tensors[i].Buffer]); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Tensors[i].Name, err)
		}
	}
	for i := range f.Runs {
		if err := c.start(module, &f.Runs[i], values, maps); err != nil {
			return nil, err
		}
	}
	for i := range f.Buffers {
		b := &f.Buffers[i]
		if !b.Output {
			continue
		}
		data := make([]byte, b.Bytes())
		if b.Object != nil {
			data, err = c.contents(b, made[i])
		} else {
			err = c.check("cuMemcpyDtoH", c.copyFromDevice(&data[0], values[i], uint64(len(data))))
		}
		if err != nil {
			return nil, err
		}
		outputs = append(outputs, data)
	}
	return outputs, nil
}

// fault is a kernel's bad end.
type fault struct{ name string }

func (e *fault) Error() string { return "the kernel ended with " + e.name }

func (c *cuda) loadModule(source []byte) (module uintptr, err error) {
	image := append(append([]byte(nil), source...), 0)
	log := make([]byte, maxLog)
	options := []int32{jitErrorLog, jitErrorLogBytes, jitOptimisation}
	values := []uintptr{uintptr(unsafe.Pointer(&log[0])), maxLog, uintptr(c.level)}
	var pin runtime.Pinner
	pin.Pin(&log[0])
	defer pin.Unpin()
	code := c.moduleLoad(&module, &image[0], uint32(len(options)), &options[0], &values[0])
	if err := c.check("cuModuleLoadDataEx", code); err != nil {
		return 0, fmt.Errorf("%w: %s", err, strings.TrimSpace(text0(log)))
	}
	return module, nil
}

// start launches a kernel and waits for its end.
func (c *cuda) start(module uintptr, r *fixture.Run, addresses []uint64, maps []unsafe.Pointer) error {
	var function uintptr
	if err := c.check("cuModuleGetFunction "+r.Kernel, c.moduleFunction(&function, module, r.Kernel)); err != nil {
		return err
	}
	if r.Shared > defaultSharedBytes {
		if err := c.check("cuFuncSetAttribute", c.funcSetAttr(function, funcMaxDynamicShared, int32(r.Shared))); err != nil {
			return err
		}
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	params := make([]unsafe.Pointer, len(r.Args)+1)
	for i, a := range r.Args {
		if a.Tensor > 0 {
			pin.Pin(maps[a.Tensor-1])
			params[i] = maps[a.Tensor-1]
			continue
		}
		v := new(uint64) // little-endian, so that it holds a smaller number too
		if *v = a.Value; a.Buffer >= 0 {
			*v = addresses[a.Buffer]
		}
		pin.Pin(v)
		params[i] = unsafe.Pointer(v)
	}
	g, b := r.Grid, r.Block
	code := c.launch(function, g[0], g[1], g[2], b[0], b[1], b[2], r.Shared, 0, &params[0], nil)
	if err := c.check("cuLaunchKernel "+r.Kernel, code); err != nil {
		return err
	}
	if code := c.ctxSync(); code != 0 {
		return &fault{c.check("", code).(*cudaError).name}
	}
	return nil
}
