package capi

import (
	"errors"

	"pvdrm/frontend/cuda"
)

// Attributes of CUfunction_attribute.
const (
	funcMaxThreads = 0
	funcShared     = 1
	funcConst      = 2
	funcLocal      = 3
	funcRegs       = 4
	funcPTX        = 5
	funcBinary     = 6
	funcCacheModes = 7
	funcMaxDynamic = 8
	funcCarveout   = 9

	funcClusterMustBeSet = 10
	funcClusterWidth     = 11 // height and depth follow
	funcNotPortable      = 14
	funcClusterPolicy    = 15
	funcLast             = 15

	noCarveout = -1 // no preference
)

func funcGetAttribute(c *call) error { return c.functionAttribute(2) }

// kernelGetAttribute gets (value, attribute, kernel, device).
func kernelGetAttribute(c *call) error {
	d, err := c.onDeviceOf(3)
	if err != nil {
		return err
	}
	return d.functionAttribute(2)
}

// functionAttribute writes attribute (argument 1) of a function to argument 0.
func (c *call) functionAttribute(fn int) error {
	to, f, err := c.outAndFunction(0, 4, fn)
	if err != nil {
		return err
	}
	a := f.Attributes()
	dev := f.mod.ctx.Device()
	v := uint32(0)
	switch k := c.i32(1); {
	case k == funcMaxThreads:
		v = f.maxThreads()
	case k == funcShared:
		v = a.SharedBytes
	case k == funcConst:
		v = a.ConstBytes
	case k == funcLocal:
		v = a.LocalBytes
	case k == funcRegs:
		v = min(a.Regs, f.mod.tuned[f.Name()].limit(f.mod.maxRegs))
	case k == funcPTX && f.mod.code != nil:
		v = a.PTXVersion
	case k == funcPTX:
		v = f.mod.target
	case k == funcBinary && a.Binary != 0:
		v = a.Binary
	case k == funcBinary: // compiled for the device when it was loaded
		v = capability(dev)
	case k == funcMaxDynamic:
		v = uint32(f.maxDynamic())
	case k == funcCarveout:
		f.mu.Lock()
		v = uint32(f.carveout)
		f.mu.Unlock()
	case k >= funcClusterMustBeSet && k <= funcLast:
		v = f.clusterAttribute(k)
	case k < 0 || k > funcLast:
		return c.fail(cuda.ErrInvalidValue, "attribute %d is not known", k)
	}
	return to.set(uint64(v))
}

// maxThreads returns the threads of the largest block of a function. A .reqntid does not count: an
// H100 answers 1,024 for kernels that have one (tests/answers).
func (f *function) maxThreads() uint32 {
	most, _ := attribute(f.mod.ctx.Device(), int(cuda.AttributeMaxThreadsPerBlock))
	n := uint64(most)
	if a := f.Attributes(); a.MaxThreads > 0 {
		n = min(n, uint64(a.MaxThreads))
	}
	return uint32(n)
}

// maxRegs is the most registers of a thread since compute capability 3.5. The software GPU
// does not allocate those of PTX and counts more.
const maxRegs = 255

// maxDynamic returns the most dynamic shared memory of a block: what was set, or else what the
// kernel has without asking.
func (f *function) maxDynamic() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dynamicSet {
		return int(f.dynamic)
	}
	return f.unasked()
}

// unasked returns the dynamic shared memory that a kernel has without asking: what its static
// memory leaves of 48 KiB or, where it is more than that itself, of all that a block can have.
func (f *function) unasked() int {
	static := int(f.Attributes().SharedBytes)
	all, _ := attribute(f.mod.ctx.Device(), int(cuda.AttributeMaxSharedMemoryPerBlock))
	if static > all {
		all, _ = attribute(f.mod.ctx.Device(), attrSharedOptin)
	}
	return max(0, all-static)
}

// countedDynamic returns the most dynamic shared memory that occupancy counts with: a kernel that
// asked for less than it has anyway is not held to that, as it is by a launch.
func (f *function) countedDynamic() int { return max(f.maxDynamic(), f.unasked()) }

func funcSetAttribute(c *call) error { return c.setAttribute(2, 0, 1) }

// kernelSetAttribute gets (attribute, value, kernel, device).
func kernelSetAttribute(c *call) error {
	d, err := c.onDeviceOf(3)
	if err != nil {
		return err
	}
	return d.setAttribute(1, 2, 0)
}

// setAttribute takes the value, the function and the attribute by argument.
func (c *call) setAttribute(value, fn, attr int) error {
	f, err := c.function(fn)
	if err != nil {
		return err
	}
	v := c.i32(value)
	switch k := c.i32(attr); {
	case k == funcMaxDynamic:
		all, _ := attribute(f.mod.ctx.Device(), attrSharedOptin)
		if v < 0 || int64(v)+int64(f.Attributes().SharedBytes) > int64(all) {
			return c.fail(cuda.ErrInvalidValue, "%d bytes of dynamic shared memory; a block has %d", v, all)
		}
		f.mu.Lock()
		f.dynamic, f.dynamicSet = uint32(v), true
		f.mu.Unlock()
	case k == funcCarveout:
		if v < noCarveout || v > 100 {
			return c.fail(cuda.ErrInvalidValue, "a carve-out of %d %%", v)
		}
		f.mu.Lock()
		f.carveout = v
		f.mu.Unlock()
	case k > funcCarveout && k <= funcLast:
		return c.setClusterAttribute(f, k, v)
	default:
		return c.fail(cuda.ErrInvalidValue, "attribute %d cannot be set", k)
	}
	return nil
}

// funcIsLoaded is 1: a function is loaded with its module.
func funcIsLoaded(c *call) error {
	to, err := c.out32(0)
	if err != nil {
		return err
	}
	if _, err := c.function(1); err != nil {
		return err
	}
	return to.set(1)
}

// maxCacheConfig and maxBankConfig are the last values of CUfunc_cache and CUsharedconfig.
const (
	maxCacheConfig = 3
	maxBankConfig  = 2
	bankOf4Bytes   = 1 // CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE
)

// Settings of a function that are checked and have no effect.

func funcSetCacheConfig(c *call) error  { return c.funcHint(maxCacheConfig) }
func funcSetSharedConfig(c *call) error { return c.funcHint(maxBankConfig) }

func (c *call) funcHint(most uint32) error {
	if c.u32(1) > most {
		return c.fail(cuda.ErrInvalidValue, "%d", c.u32(1))
	}
	_, err := c.function(0)
	return err
}

// kernelSetCacheConfig gets (kernel, config, device).
func kernelSetCacheConfig(c *call) error {
	d, err := c.onDeviceOf(2)
	if err != nil {
		return err
	}
	return funcSetCacheConfig(d)
}

// funcLoad has nothing to do: a function is loaded with its module.
func funcLoad(c *call) error {
	_, err := c.function(0)
	return err
}

func funcGetModule(c *call) error {
	to, f, err := c.outAndFunction(0, 8, 1)
	if err != nil {
		return err
	}
	return to.set(f.mod.handle)
}

func funcGetName(c *call) error {
	to, f, err := c.outAndFunction(0, 8, 1)
	if err != nil {
		return err
	}
	return to.set(c.lib.text(f.Name()))
}

func funcGetParamInfo(c *call) error {
	offset, err := c.out64(2)
	if err != nil {
		return err
	}
	size, err := c.optional(3, 8)
	if err != nil {
		return err
	}
	f, err := c.function(0)
	if err != nil {
		return err
	}
	p := f.Attributes().Params
	if c.u64(1) >= uint64(len(p)) {
		return c.fail(cuda.ErrInvalidValue, "parameter %d of %d", c.u64(1), len(p))
	}
	at := p[c.u64(1)]
	return errors.Join(offset.set(uint64(at.Offset)), size.set(uint64(at.Size)))
}
