package capi

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/link"
	"pvdrm/gpu/fatbin"
)

// module is a CUmodule.
type module struct {
	*cuda.Module
	ctx      *context
	code     []byte                 // machine code, of which nothing of the following is read; nil: it is PTX
	target   uint32                 // of its PTX, compute capability × 10
	blocks   map[string][3]uint32   // that kernels require, by name
	clusters map[string]clusterRule // of kernels that say something of them
	tuned    map[string]tuning      // what kernels say of their registers
	maxRegs  uint32                 // the limit that the program gave, 0 for none
	handle   uint64
	entries  []string // names of its kernels

	launcher   bool            // its kernels may ask for launches of graphs
	references map[string]bool // to textures, by name; true: to surfaces

	mu        sync.Mutex
	functions map[string]uint64 // handles by name
	handles   map[string]uint64 // of references, by name
}

func (m *module) owner() *context { return m.ctx }

// function is a CUfunction.
type function struct {
	*cuda.Function
	mod    *module
	handle uint64
	exact  [3]uint32 // the block that it requires; zero where it takes any
	rule   clusterRule

	mu         sync.Mutex
	dynamic    uint32 // the most dynamic shared memory, bytes
	dynamicSet bool   // by the program
	carveout   int32

	cluster     [3]uint32 // blocks of a cluster, as the program has set them
	notPortable bool
	policy      uint32 // of scheduling clusters

	block  [3]uint32 // of legacy launches
	shared uint32
	params []byte
}

func (f *function) owner() *context { return f.mod.ctx }

func (c *call) module(i int) (*module, error) {
	m, ok := find[*module](c.lib, c.u64(i))
	if !ok {
		return nil, c.fail(cuda.ErrInvalidHandle, "0x%x is no module", c.u64(i))
	}
	return m, nil
}

// function finds a CUfunction; a CUkernel stands for the current context's.
func (c *call) function(i int) (*function, error) {
	if f, ok := find[*function](c.lib, c.u64(i)); ok {
		return f, nil
	}
	if k, ok := find[*kernel](c.lib, c.u64(i)); ok {
		return c.kernelFunction(k)
	}
	return nil, c.fail(cuda.ErrInvalidHandle, "0x%x is no function", c.u64(i))
}

// capability is the compute capability × 10.
func capability(dev *cuda.Device) uint32 {
	major, minor := dev.ComputeCapability()
	return uint32(10*major + minor)
}

// load loads PTX into a context.
func (c *call) load(x *context, name string, ptx []byte) (*module, uint64, error) {
	return c.loadLike(x, name, ptx, nil)
}

// loadCode loads machine code into a context. The driver knows what is to be known of it.
func (c *call) loadCode(x *context, name string, code []byte) (*module, uint64, error) {
	m, err := x.LoadModule(name, code)
	if errors.Is(err, cuda.ErrInvalidPTX) {
		return nil, 0, refusedCode(err)
	}
	if err != nil {
		return nil, 0, err
	}
	mod := &module{Module: m, ctx: x, code: code, functions: map[string]uint64{}}
	mod.handle = c.lib.handles.add(mod)
	return mod, mod.handle, nil
}

// refusedCode gives the refusal of machine code its result.
func refusedCode(err error) error {
	var refused *drm.ModuleError
	if errors.As(err, &refused) && strings.Contains(refused.Log, "CUDA_ERROR_NO_BINARY_FOR_GPU") {
		return errors.Join(noBinaryForGPU, err)
	}
	return errors.Join(invalidImage, err)
}

// loadLike is load with managed variables where those of another module lie, or nil.
func (c *call) loadLike(x *context, name string, ptx []byte, like *cuda.Module) (*module, uint64, error) {
	if fatbin.Is(ptx) {
		return c.loadCode(x, name, ptx)
	}
	ptx, err := link.WithConditional(name, ptx)
	if err != nil {
		return nil, 0, linkError(err)
	}
	var managed []cuda.ManagedVariable
	for _, v := range link.ManagedOf(ptx) {
		managed = append(managed, cuda.ManagedVariable{Name: v.Name, Size: v.Size, Align: v.Align, Pragma: link.ManagedPragma})
	}
	m, err := x.LoadManaged(name, ptx, managed, like)
	if err != nil {
		return nil, 0, err
	}
	mod := &module{Module: m, ctx: x, target: ptxTarget(ptx), blocks: requiredBlocks(ptx), clusters: clusterRules(ptx), entries: entries(ptx),
		references: referencesIn(ptx), functions: map[string]uint64{}}
	mod.tuned, mod.maxRegs = tunings(ptx)
	if err := mod.led(); err != nil {
		return nil, 0, errors.Join(err, m.Unload())
	}
	mod.handle = c.lib.handles.add(mod)
	return mod, mod.handle, nil
}

func moduleLoad(c *call) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	path, err := c.text(1)
	if err != nil {
		return err
	}
	x, err := c.current()
	if err != nil {
		return err
	}
	ptx, err := c.readFile(path, x.Device())
	if err != nil {
		return err
	}
	_, h, err := c.load(x, path, ptx)
	if err != nil {
		return err
	}
	return to.set(h)
}

// readFile reads an image from a file.
func (c *call) readFile(path string, dev *cuda.Device) ([]byte, error) {
	b, err := c.readWhole(path)
	if err != nil {
		return nil, err
	}
	return parseImage(b, takenBy(dev))
}

// readWhole reads a file.
func (c *call) readWhole(path string) ([]byte, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, c.fail(fileNotFound, "%w", err)
	}
	if !st.Mode().IsRegular() || st.Size() > maxImage {
		return nil, c.fail(invalidImage, "%s is no regular file, or larger than %d bytes", path, maxImage)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, c.fail(fileNotFound, "%w", err)
	}
	return b, nil
}

func moduleLoadData(c *call) error { return c.loadImage(nil) }

func moduleLoadDataEx(c *call) error {
	o, err := c.jitOptions(c.u32(2), c.u64(3), c.u64(4))
	if err != nil {
		return err
	}
	return c.loadImage(o)
}

func (c *call) loadImage(o *jit) error {
	to, x, err := c.outInContext(0, 8)
	if err != nil {
		return err
	}
	ptx, err := readImage(c.lib.cfg.Memory, c.u64(1), takenBy(x.Device()))
	if err != nil {
		return err
	}
	start := time.Now()
	m, h, err := c.load(x, "image", ptx)
	if n := o.maxRegisters(); err == nil && n != 0 {
		m.maxRegs = n
	}
	if err := errors.Join(err, o.done(time.Since(start), err)); err != nil {
		return err
	}
	return to.set(h)
}

func moduleUnload(c *call) error {
	m, err := c.module(0)
	if err != nil {
		return err
	}
	if err := m.Unload(); err != nil {
		return err
	}
	return c.dropModule(m)
}

// dropModule gives up the handles of a module that is unloaded, and what its references have.
func (c *call) dropModule(m *module) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.functions {
		c.lib.handles.remove(h)
	}
	c.lib.handles.remove(m.handle)
	return c.dropReferences(m)
}

// outAndName is out for a handle that is asked of the module in argument 1 by a name.
func (c *call) outAndName() (to out, m *module, name string, err error) {
	if to, err = c.out64(0); err == nil {
		m, err = c.module(1)
	}
	if err == nil {
		name, err = c.text(2)
	}
	return to, m, name, err
}

func moduleGetFunction(c *call) error {
	to, m, name, err := c.outAndName()
	if err != nil {
		return err
	}
	f, err := c.functionOf(m, name)
	if err != nil {
		return err
	}
	return to.set(f.handle)
}

// functionOf returns the same handle for the same function.
func (c *call) functionOf(m *module, name string) (*function, error) {
	fn, err := m.Function(name)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if f, ok := find[*function](c.lib, m.functions[name]); ok {
		return f, nil
	}
	f := &function{Function: fn, mod: m, exact: m.blocks[name], rule: m.clusters[name], block: [3]uint32{1, 1, 1}, carveout: noCarveout}
	if a := fn.Attributes(); m.code != nil {
		f.rule = clusterRule{required: [3]uint32{a.ClusterX, a.ClusterY, a.ClusterZ}, explicit: a.NeedsSize != 0}
	}
	f.handle = c.lib.handles.add(f)
	m.functions[name] = f.handle
	return f, nil
}

func moduleGetGlobal(c *call) error {
	if c.u64(0) == 0 && c.u64(1) == 0 {
		return c.fail(cuda.ErrInvalidValue, "two null pointers")
	}
	return c.getGlobal(func() (*module, error) { return c.module(2) }, globalOf)
}

func globalOf(m *module, name string) (cuda.DevicePtr, uint64, error) { return m.Global(name) }

// getGlobal writes the address and the size of a variable of a module, whose name is argument 3.
func (c *call) getGlobal(of func() (*module, error), find func(*module, string) (cuda.DevicePtr, uint64, error)) error {
	addr, err := c.optional(0, 8)
	if err != nil {
		return err
	}
	size, err := c.optional(1, 8)
	if err != nil {
		return err
	}
	m, err := of()
	if err != nil {
		return err
	}
	name, err := c.text(3)
	if err != nil {
		return err
	}
	p, n, err := find(m, name)
	if errors.Is(err, cuda.ErrNotFound) {
		if _, isKernel := m.Function(name); isKernel == nil {
			return c.fail(cuda.ErrInvalidValue, "%q is a kernel", name)
		}
	}
	if err != nil {
		return err
	}
	return errors.Join(addr.set(uint64(p)), size.set(n))
}

// moduleGetLoadingMode tells whether kernels are loaded when they are used: those of machine code are.
func moduleGetLoadingMode(c *call) error {
	const eager, lazy = 1, 2
	to, err := c.out32(0)
	if err != nil {
		return err
	}
	mode := uint64(eager)
	if slices.ContainsFunc(c.devices(), (*cuda.Device).Images) {
		mode = lazy
	}
	return to.set(mode)
}

// Options of CUjit_option that are looked at; the others have no effect here.
const (
	jitMaxRegisters  = 0
	jitWallTime      = 2
	jitInfoLog       = 3
	jitInfoLogBytes  = 4
	jitErrorLog      = 5
	jitErrorLogBytes = 6
	jitOptionCount   = 34 // CU_JIT_NUM_OPTIONS of CUDA 12.8

	maxLog = 1 << 20
)

// jit is where the results of a compilation go. A nil one has none.
type jit struct {
	c      *call
	values uint64
	buffer map[uint32]uint64 // values by option
	at     map[uint32]int    // their places in the array
}

// jitOptions reads the arrays of cuModuleLoadDataEx.
func (c *call) jitOptions(n uint32, options, values uint64) (*jit, error) {
	if n == 0 {
		return nil, nil
	}
	if n > 2*jitOptionCount {
		return nil, c.fail(cuda.ErrInvalidValue, "%d options", n)
	}
	j := &jit{c: c, values: values, buffer: map[uint32]uint64{}, at: map[uint32]int{}}
	opts, err := c.read(options, 4*int(n))
	if err != nil {
		return nil, err
	}
	vals, err := c.read(values, 8*int(n))
	if err != nil {
		return nil, err
	}
	for i := range int(n) {
		o := le32(opts[4*i:])
		if o >= jitOptionCount {
			return nil, c.fail(cuda.ErrInvalidValue, "there is no option %d", o)
		}
		j.buffer[o], j.at[o] = le64(vals[8*i:]), i
	}
	return j, nil
}

// done writes the logs. Their sizes become the bytes that were written.
func (j *jit) done(took time.Duration, failure error) error {
	if j == nil {
		return nil
	}
	var info, text string
	var refused *drm.ModuleError
	var unlinked *link.Error
	switch {
	case errors.As(failure, &refused):
		text = refused.Log
	case errors.As(failure, &unlinked):
		text = unlinked.Log
	case failure != nil:
		text = failure.Error()
	default:
		info = fmt.Sprintf("PVDRM: loaded in %.3f ms\n", took.Seconds()*1e3)
	}
	errs := []error{j.log(jitInfoLog, jitInfoLogBytes, info), j.log(jitErrorLog, jitErrorLogBytes, text)}
	if i, ok := j.at[jitWallTime]; ok {
		o := out{j.c, j.values + 8*uint64(i), 4}
		errs = append(errs, o.setFloat(float32(took.Seconds()*1e3)))
	}
	return errors.Join(errs...)
}

func (j *jit) log(buffer, size uint32, text string) error {
	to, room := j.buffer[buffer], uint32(j.buffer[size])
	i, ok := j.at[size]
	if to == 0 || !ok || room == 0 {
		return nil
	}
	text = strings.ReplaceAll(text, "\x00", "")
	n := min(int(room), len(text)+1, maxLog)
	if err := (out{j.c, to, n}).setText(text); err != nil {
		return err
	}
	return (out{j.c, j.values + 8*uint64(i), 8}).set(uint64(n))
}
