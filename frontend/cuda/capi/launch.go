package capi

import (
	"slices"

	"encoding/binary"

	"pvdrm/frontend/cuda"
	"pvdrm/internal/progmem"
)

func le32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
func le64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

func launchKernel(c *call) error {
	f, err := c.function(0)
	if err != nil {
		return err
	}
	return c.launch(f, c.launchShape(), c.u64(8), c.u64(9), c.u64(10))
}

// launchShape is what the arguments of cuLaunchKernel say of grid and blocks.
func (c *call) launchShape() cuda.LaunchConfig {
	cfg := cuda.LaunchConfig{Shared: c.u32(7)}
	for i := range 3 {
		cfg.Grid[i], cfg.Block[i] = c.u32(1+i), c.u32(4+i)
	}
	return cfg
}

// launch runs a function with arguments as cuLaunchKernel has them.
func (c *call) launch(f *function, cfg cuda.LaunchConfig, stream, kernelParams, extra uint64) error {
	s, err := c.streamWith(f.mod.ctx, stream)
	if err != nil {
		return err
	}
	cfg.Stream = s
	if err := c.checkShape(f, cfg); err != nil {
		return err
	}
	if cfg.Cluster, err = c.clusterOf(f, &cfg); err != nil {
		return err
	}
	var params []byte
	switch {
	case kernelParams != 0 && extra != 0:
		return c.fail(cuda.ErrInvalidValue, "both kernelParams and extra are given")
	case kernelParams != 0:
		params, err = c.gather(f, kernelParams)
	case extra != 0:
		params, err = c.packedFor(f, extra)
		if most := f.ParamBytes(); len(params) > most {
			return c.fail(cuda.ErrLaunchOutOfResources, "kernel %s: %d bytes of arguments, it has %d", f.Name(), len(params), most)
		}
	}
	if err != nil {
		return err
	}
	return c.settle(f.mod.ctx, s, func() error { return f.LaunchPacked(cfg, params) })
}

// checkBlock refuses a block that is not the one which the kernel requires: the device would find
// that out after the call.
func (c *call) checkBlock(f *function, block [3]uint32) error {
	if f.exact != [3]uint32{} && f.exact != block {
		return c.fail(cuda.ErrInvalidValue, "kernel %s: block %v, but it requires %v", f.Name(), block, f.exact)
	}
	return nil
}

// checkShared refuses dynamic shared memory that the kernel did not ask for: the device allows any
// kernel as much as one may ask for. The errors are an H100's (driver 580).
func (c *call) checkShared(f *function, cfg *cuda.LaunchConfig) error {
	most := f.maxDynamic()
	if uint64(cfg.Shared) <= uint64(most) {
		return nil
	}
	code := cuda.ErrInvalidValue
	if cfg.Cooperative && uint64(cfg.Shared) > uint64(f.countedDynamic()) {
		code = cuda.ErrCooperativeTooLarge // no block of it runs, as occupancy counts
	}
	return c.fail(code, "kernel %s: %d bytes of dynamic shared memory; it may have %d (CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)", f.Name(), cfg.Shared, most)
}

// checkShape refuses what the device would refuse after the call, and what only libcuda refuses.
func (c *call) checkShape(f *function, cfg cuda.LaunchConfig) error {
	if err := c.checkBlock(f, cfg.Block); err != nil {
		return err
	}
	if err := c.checkShared(f, &cfg); err != nil || !cfg.Cooperative {
		return err
	}
	return c.checkTogether(f, cfg)
}

// gather reads arguments through an array of pointers to them.
func (c *call) gather(f *function, array uint64) ([]byte, error) {
	attr := f.Attributes()
	ptrs, err := c.read(array, 8*len(attr.Params))
	if err != nil {
		return nil, err
	}
	parts := make([]progmem.Range, len(attr.Params))
	sum := uint32(0)
	for i, p := range attr.Params {
		parts[i] = progmem.Range{Addr: le64(ptrs[8*i:]), Bytes: int(p.Size)}
		if parts[i].Addr == 0 {
			return nil, c.fail(cuda.ErrInvalidValue, "kernel %s: the pointer to argument %d is null", f.Name(), i)
		}
		sum += p.Size
	}
	values := make([]byte, sum)
	if err := c.readParts(values, parts); err != nil {
		return nil, c.fail(cuda.ErrInvalidValue, "kernel %s: an argument: %w", f.Name(), err)
	}
	b := make([]byte, attr.ParamBytes)
	for _, p := range attr.Params {
		values = values[copy(b[p.Offset:p.Offset+p.Size], values):]
	}
	return b, nil
}

// readParts reads ranges of the program one after the other, those on the stack of the thread without the kernel.
func (c *call) readParts(values []byte, parts []progmem.Range) error {
	for _, p := range parts {
		if c.direct(p.Addr, p.Bytes) == nil {
			return c.lib.cfg.Memory.ReadParts(values, parts)
		}
	}
	for _, p := range parts {
		if err := c.readInto(values[:p.Bytes], p.Addr); err != nil {
			return err
		}
		values = values[p.Bytes:]
	}
	return nil
}

// packedFor is packed for a kernel. What is short of its parameters is zero: NCCL leaves the end of a structure of
// 4,096 bytes out, and NVIDIA's library takes that.
func (c *call) packedFor(f *function, extra uint64) ([]byte, error) {
	params, err := c.packed(extra)
	if err != nil || len(params) == 0 {
		return nil, err
	}
	return append(slices.Clip(params), make([]byte, max(f.ParamBytes()-len(params), 0))...), nil
}

// Keys in the array extra of cuLaunchKernel.
const (
	paramEnd           = 0 // CU_LAUNCH_PARAM_END
	paramBufferPointer = 1
	paramBufferSize    = 2

	maxParamBytes = 32764 // of any device
	maxExtra      = 16
)

// packed reads arguments that are laid out in a buffer.
func (c *call) packed(extra uint64) ([]byte, error) {
	var buffer, size uint64
	for range maxExtra {
		key, err := c.read64(extra)
		if err != nil {
			return nil, err
		}
		if key == paramEnd {
			if size > maxParamBytes {
				return nil, c.fail(cuda.ErrInvalidValue, "%d bytes of arguments", size)
			}
			if size == 0 {
				return nil, nil
			}
			return c.read(buffer, int(size))
		}
		value, err := c.read64(extra + 8)
		if err != nil {
			return nil, err
		}
		switch key {
		case paramBufferPointer:
			buffer = value
		case paramBufferSize:
			if size, err = c.read64(value); err != nil {
				return nil, err
			}
		default:
			return nil, c.fail(cuda.ErrInvalidValue, "extra has the key 0x%x", key)
		}
		extra += 16
	}
	return nil, c.fail(cuda.ErrInvalidValue, "extra does not end with CU_LAUNCH_PARAM_END")
}

// Layout of CUlaunchConfig and CUlaunchAttribute, in bytes, and the attributes
// that say more than a hint.
const (
	launchConfigBytes    = 56
	launchAttributeBytes = 72
	maxLaunchAttributes  = 64

	launchCooperative = 2  // CU_LAUNCH_ATTRIBUTE_COOPERATIVE
	launchWaiting     = 3  // CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY: of streams only
	launchCluster     = 4  // CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
	launchPolicy      = 5  // CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE
	launchDependent   = 6  // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION: allows, does not ask
	launchEvent       = 7  // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT
	launchDone        = 12 // CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT
	launchUpdatable   = 13 // CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE: outside of graphs an error
	launchUnused      = 15 // a number without a meaning
	launchLast        = 16 // of CUDA 12.8

	// launchSignal is PVDRM's own: the address of a 32-bit word in pinned memory, which asks the kernel to
	// leave (cuda.LaunchConfig.Signal). Its number is out of CUDA's way, whose driver refuses it.
	launchSignal = 0x50564401
)

func launchKernelEx(c *call) error {
	cfg, stream, _, err := c.launchConfig(0)
	if err != nil {
		return err
	}
	f, err := c.function(1)
	if err != nil {
		return err
	}
	return c.launch(f, cfg, stream, c.u64(2), c.u64(3))
}

// launchHints are attributes of a launch that a graph keeps.
type launchHints struct {
	priority     []byte // nil: the stream's
	programmatic bool   // it may begin before the kernel before it has ended
}

// launchConfig reads the CUlaunchConfig in an argument, with the stream in it.
func (c *call) launchConfig(arg int) (cfg cuda.LaunchConfig, stream uint64, hints launchHints, err error) {
	b, err := c.read(c.u64(arg), launchConfigBytes)
	if err != nil {
		return cfg, 0, hints, err
	}
	for i := range 3 {
		cfg.Grid[i], cfg.Block[i] = le32(b[4*i:]), le32(b[12+4*i:])
	}
	cfg.Shared = le32(b[24:])
	n := le32(b[48:])
	if n > maxLaunchAttributes {
		return cfg, 0, hints, c.fail(cuda.ErrInvalidValue, "%d attributes", n)
	}
	if n > 0 {
		attrs, err := c.read(le64(b[40:]), int(n)*launchAttributeBytes)
		if err != nil {
			return cfg, 0, hints, err
		}
		for ; len(attrs) > 0; attrs = attrs[launchAttributeBytes:] {
			if le32(attrs) == launchSignal {
				cfg.Signal = cuda.DevicePtr(le64(attrs[8:]))
				continue
			}
			if err := c.checkAttribute(attrs); err != nil {
				return cfg, 0, hints, err
			}
			switch le32(attrs) {
			case launchCooperative:
				cfg.Cooperative = le32(attrs[8:]) != 0
			case launchCluster:
				cfg.Cluster = clusterDims(attrs[8:])
			case launchPolicy:
				if policy := le32(attrs[8:]); policy > lastPolicy {
					return cfg, 0, hints, c.fail(cuda.ErrInvalidValue, "the policy %d of scheduling clusters", policy)
				}
			case launchPriority:
				hints.priority = priorityValue(int32(le32(attrs[8:])))
			case launchDependent:
				hints.programmatic = le32(attrs[8:]) != 0
			}
		}
	}
	return cfg, le64(b[32:]), hints, nil
}

// knownAttribute refuses what is no attribute of a launch.
func (c *call) knownAttribute(id uint32) error {
	if id > launchLast || id == launchUnused || id == launchWaiting {
		return c.fail(cuda.ErrInvalidValue, "the attribute %d of a launch", id)
	}
	return nil
}

// checkAttribute refuses what would change the meaning of a launch.
func (c *call) checkAttribute(a []byte) error {
	id := le32(a)
	if err := c.knownAttribute(id); err != nil {
		return err
	}
	switch id {
	case launchEvent, launchDone, launchUpdatable:
		return c.fail(cuda.ErrNotSupported, "the attribute %d of a launch", id)
	}
	return nil
}

// Launches as before CUDA 4.0: the function keeps its configuration.

func (c *call) configure(change func(f *function) error) error {
	f, err := c.function(0)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return change(f)
}

func funcSetBlockShape(c *call) error {
	return c.configure(func(f *function) error {
		for i := range 3 {
			if c.i32(1+i) <= 0 {
				return c.fail(cuda.ErrInvalidValue, "a block of %d×%d×%d", c.i32(1), c.i32(2), c.i32(3))
			}
		}
		f.block = [3]uint32{c.u32(1), c.u32(2), c.u32(3)}
		return nil
	})
}

func funcSetSharedSize(c *call) error {
	return c.configure(func(f *function) error { f.shared = c.u32(1); return nil })
}

func paramSetSize(c *call) error {
	return c.configure(func(f *function) error {
		if c.u32(1) > maxParamBytes {
			return c.fail(cuda.ErrInvalidValue, "%d bytes of parameters", c.u32(1))
		}
		f.resize(int(c.u32(1)))
		return nil
	})
}

func (f *function) resize(n int) {
	b := make([]byte, n)
	copy(b, f.params)
	f.params = b
}

// setParam writes at the offset in argument 1. f.mu is held.
func (c *call) setParam(f *function, b []byte) error {
	off := c.i32(1)
	if off < 0 || int(off)+len(b) > maxParamBytes {
		return c.fail(cuda.ErrInvalidValue, "%d bytes at %d of the parameters", len(b), off)
	}
	if end := int(off) + len(b); end > len(f.params) {
		f.resize(end) // cuParamSetSize may come later
	}
	copy(f.params[off:], b)
	return nil
}

// paramSetWord is cuParamSeti and cuParamSetf, whose number comes as its bits.
func paramSetWord(c *call) error {
	return c.configure(func(f *function) error {
		return c.setParam(f, binary.LittleEndian.AppendUint32(nil, c.u32(2)))
	})
}

func paramSetVector(c *call) error {
	n := c.u32(3)
	if n > maxParamBytes {
		return c.fail(cuda.ErrInvalidValue, "%d bytes of a parameter", n)
	}
	b, err := c.read(c.u64(2), int(n))
	if err != nil {
		return err
	}
	return c.configure(func(f *function) error { return c.setParam(f, b) })
}

func launchOnce(c *call) error      { return c.launchGrid(1, 1, 0) }
func launchGrid(c *call) error      { return c.launchGrid(c.i32(1), c.i32(2), 0) }
func launchGridAsync(c *call) error { return c.launchGrid(c.i32(1), c.i32(2), c.u64(3)) }

func (c *call) launchGrid(w, h int32, stream uint64) error {
	f, err := c.function(0)
	if err != nil {
		return err
	}
	if w <= 0 || h <= 0 {
		return c.fail(cuda.ErrInvalidValue, "a grid of %d×%d", w, h)
	}
	f.mu.Lock()
	cfg := cuda.LaunchConfig{Grid: [3]uint32{uint32(w), uint32(h), 1}, Block: f.block, Shared: f.shared}
	params := append([]byte(nil), f.params...)
	f.mu.Unlock()
	if err := c.checkShape(f, cfg); err != nil {
		return err
	}
	if cfg.Cluster, err = c.clusterOf(f, &cfg); err != nil {
		return err
	}
	s, err := c.streamWith(f.mod.ctx, stream)
	if err != nil {
		return err
	}
	cfg.Stream = s
	return c.settle(f.mod.ctx, s, func() error { return f.LaunchPacked(cfg, params) })
}
